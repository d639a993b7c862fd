import CSwitchLoops
import Context

/// Where a loop's instructions lie, see switch_loops.h.
protocol Layout {
  static func pad()
}

enum Layout0: Layout {
  @inline(__always) static func pad() {}
}
enum Layout4: Layout {
  @inline(__always) static func pad() { switch_loop_pad_4() }
}
enum Layout8: Layout {
  @inline(__always) static func pad() { switch_loop_pad_8() }
}
enum Layout24: Layout {
  @inline(__always) static func pad() { switch_loop_pad_24() }
}

// The loops are ordinary functions, not inlined: in a closure that is a C function, and at the top level of a program, the
// compiler does not inline the switch, which would double the figure.

/// Switches forth and back so often; returns the word that went round, incremented by the partner each time.
@inline(never)
func switchBackAndForth<Backend: MeasuredBackend, Place: Layout>(
  _ partner: Partner<Backend>, _ roundTrips: Int, _ layout: Place.Type
) -> Int {
  let here = ContextLink.resumer(partner.link)
  let there = ContextLink.own(partner.link)
  var word: UInt = 0
  for _ in 0..<roundTrips {
    word = exchange(Backend.self, from: here, to: there, word)
    Place.pad()
  }
  return Int(bitPattern: word)
}

@inline(never)
func answerSymmetrically<Backend: MeasuredBackend>(_ backend: Backend.Type, at address: UInt) {
  let link = UnsafeMutablePointer<ContextLink<Backend>>(bitPattern: address)!
  let here = ContextLink.own(link)
  let there = ContextLink.resumer(link)
  var word: UInt = 0
  while true { word = exchange(Backend.self, from: here, to: there, word) &+ 1 }
}

@inline(__always)
private func exchange<Backend: ContextBackend>(
  _ backend: Backend.Type, from: UnsafeMutablePointer<Backend.Context>, to: UnsafeMutablePointer<Backend.Context>,
  _ word: UInt
) -> UInt {
  Backend.switchContext(from: from, to: to, passing: word).word
}

/// The same by `resume` and `suspend`, as the runtime switches: they also say that the resumer waits no more.
@inline(never)
func resumeAndSuspend<Backend: MeasuredBackend, Place: Layout>(
  _ partner: Partner<Backend>, _ roundTrips: Int, _ layout: Place.Type
) -> Int {
  var word: UInt = 0
  for _ in 0..<roundTrips {
    word = Backend.resume(partner.link, passing: word)
    Place.pad()
  }
  return Int(bitPattern: word)
}

@inline(never)
func answerAsymmetrically<Backend: MeasuredBackend>(_ backend: Backend.Type, at address: UInt) {
  let link = UnsafeMutablePointer<ContextLink<Backend>>(bitPattern: address)!
  var word: UInt = 0
  while true { word = Backend.suspend(link, passing: word) &+ 1 }
}
