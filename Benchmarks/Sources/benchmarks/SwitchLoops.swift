// SPDX-License-Identifier: Apache-2.0

import CSwitchLoops
import Context

/// The layout of a loop's instructions, see switch_loops.h.
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

// The loops are ordinary functions, not inlined. In a closure that is a C function, and at the top level of a
// program, the compiler does not inline the switch, which would double the figure.

/// Switches back and forth until the word that travels, which the partner increments each time, has reached the
/// limit. Returns it. It switches back to the context that came, as in the loop over `jump_fcontext`. The side's own
/// context lies beside that one, in the link.
@inline(never)
func switchBackAndForth<Backend: MeasuredBackend, Place: Layout>(
  _ partner: Partner<Backend>, _ roundTrips: Int, _ layout: Place.Type
) -> Int {
  var there = ContextLink.own(partner.link)
  var word: UInt = 0
  while word < roundTrips {
    let arrival = Backend.switchContext(from: there + 1, to: there, passing: word)
    (word, there) = (arrival.word, arrival.departed)
    Place.pad()
  }
  return Int(bitPattern: word)
}

@inline(never)
func answerSymmetrically<Backend: MeasuredBackend>(_ backend: Backend.Type, at address: UInt) {
  var there = ContextLink.resumer(UnsafeMutablePointer<ContextLink<Backend>>(bitPattern: address)!)
  var word: UInt = 0
  while true {
    let arrival = Backend.switchContext(from: there - 1, to: there, passing: word)
    (word, there) = (arrival.word &+ 1, arrival.departed)
  }
}

/// The same by `resume` and `suspend`, as the runtime switches: they also record that the resumer no longer waits.
@inline(never)
func resumeAndSuspend<Backend: MeasuredBackend, Place: Layout>(
  _ partner: Partner<Backend>, _ roundTrips: Int, _ layout: Place.Type
) -> Int {
  var link = partner.link
  var word: UInt = 0
  while word < roundTrips {
    (word, link, _) = Backend.resumeReturningLink(link, passing: word)
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
