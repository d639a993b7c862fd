// SPDX-License-Identifier: Apache-2.0

public import CCoroutineContextASM
public import Context

extension ASMContext {
  @inlinable @inline(__always)
  package static func enter(_ pair: UnsafeMutablePointer<context_asm>, passing word: UInt) -> PairArrival<context_asm> {
    let arrival = context_asm_enter(pair, word)
    // Set by the side that switched here: never null.
    return PairArrival(word: arrival.word, pair: arrival.departed.unsafelyUnwrapped, mark: arrival.mark)
  }

  @inlinable @inline(__always)
  package static func leave(_ pair: UnsafeMutablePointer<context_asm>, passing word: UInt, mark: UInt) -> UInt {
    context_asm_leave(pair, word, mark)
  }

  @inlinable @inline(__always)
  package static func pass(
    from pair: UnsafeMutablePointer<context_asm>, to next: UnsafeMutablePointer<context_asm>,
    storing value: UInt, at address: UnsafeMutablePointer<UInt>
  ) {
    context_asm_pass(pair, next, address, value)
  }

  // A load. To read the registers would bring a stack canary into each function that asks, such as a recursion that yields.
  @inlinable @inline(__always)
  package static func occupancy(of context: UnsafeMutablePointer<context_asm>) -> UInt { context.pointee.pc }
}
