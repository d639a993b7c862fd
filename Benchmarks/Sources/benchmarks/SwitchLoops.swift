import CSwitchLoops
import Context
import ContextASM
import ContextUcontext

#if BENCHMARKS_BOOST
  import ContextBoost
#endif

/// A backend whose switch can be measured: an entry function is a C function, which can't be generic, so each backend
/// brings its own.
protocol MeasuredBackend: ContextBackend {
  /// Enters `answerSymmetrically`, with the link's address as the first word.
  static var symmetricEntry: @convention(c) (UInt) -> Void { get }
  /// Enters `answerAsymmetrically`, with the link's address as the first word.
  static var asymmetricEntry: @convention(c) (UInt) -> Void { get }
}

extension ASMContext: MeasuredBackend {
  static let symmetricEntry: @convention(c) (UInt) -> Void = { answerSymmetrically(ASMContext.self, at: $0) }
  static let asymmetricEntry: @convention(c) (UInt) -> Void = { answerAsymmetrically(ASMContext.self, at: $0) }
}

extension UcontextContext: MeasuredBackend {
  static let symmetricEntry: @convention(c) (UInt) -> Void = { answerSymmetrically(UcontextContext.self, at: $0) }
  static let asymmetricEntry: @convention(c) (UInt) -> Void = { answerAsymmetrically(UcontextContext.self, at: $0) }
}

#if BENCHMARKS_BOOST
  extension BoostContext: MeasuredBackend {
    static let symmetricEntry: @convention(c) (UInt) -> Void = { answerSymmetrically(BoostContext.self, at: $0) }
    static let asymmetricEntry: @convention(c) (UInt) -> Void = { answerAsymmetrically(BoostContext.self, at: $0) }
  }
#endif

/// A coroutine that answers each word with the next one, for ever; it is left behind suspended at the end of the program.
struct Partner<Backend: MeasuredBackend> {
  let link: UnsafeMutablePointer<ContextLink<Backend>>

  /// - Parameter entry: one of the backend's two.
  init(_ entry: @convention(c) (UInt) -> Void) throws {
    let stack = try StackPool.default.allocate()
    // Where the runtime has it too: at the upper end of the stack, on a cache line of its own.
    let size = (MemoryLayout<ContextLink<Backend>>.size + 63) & ~63
    let top = stack.top - size
    link = top.bindMemory(to: ContextLink<Backend>.self, capacity: 1)
    Backend.initialize(
      link, stack: UnsafeMutableRawBufferPointer(start: stack.limit, count: top - stack.limit), entry: entry)
    // Runs it to its first switch: from then on every word is answered.
    _ = Backend.resume(link, passing: UInt(bitPattern: link))
  }
}

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
private func answerSymmetrically<Backend: MeasuredBackend>(_ backend: Backend.Type, at address: UInt) {
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
private func answerAsymmetrically<Backend: MeasuredBackend>(_ backend: Backend.Type, at address: UInt) {
  let link = UnsafeMutablePointer<ContextLink<Backend>>(bitPattern: address)!
  var word: UInt = 0
  while true { word = Backend.suspend(link, passing: word) &+ 1 }
}
