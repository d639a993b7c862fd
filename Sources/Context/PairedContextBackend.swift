// SPDX-License-Identifier: Apache-2.0

/// A backend that does more than `ContextBackend` asks for: the two contexts of a link lie side by side, so that one address
/// leads to both; a free register hands a mark over; and one coroutine can go right into another.
///
/// The assembly has this. A new backend needs none of it.
@usableFromInline
package protocol PairedContextBackend: ContextBackend {
  /// `switchContext` from the second of two contexts that lie side by side to the first: into a coroutine. A pair is entered
  /// and left by these two only.
  static func enter(_ pair: UnsafeMutablePointer<Context>, passing word: UInt) -> PairArrival<Context>

  /// `switchContext` from the first of such a pair to the second: out of the coroutine. Returns the word.
  ///
  /// - Parameter mark: for the side that entered, in addition to the word.
  static func leave(_ pair: UnsafeMutablePointer<Context>, passing word: UInt, mark: UInt) -> UInt

  /// `switchContext` from the first of a pair to the first of another one, which ran before and is suspended. The
  /// registers in the second of `pair` move to the second of `next`: the resumer of the former becomes that of the
  /// latter.
  ///
  /// When the running side is saved, and its stack left, `value` is stored at `address`, and released: only then may other
  /// threads see that it can be continued.
  static func pass(
    from pair: UnsafeMutablePointer<Context>, to next: UnsafeMutablePointer<Context>,
    storing value: UInt, at address: UnsafeMutablePointer<UInt>)

  /// 0 in a destroyed context, something else while a side is suspended in it. A word, to be tested together with others.
  static func occupancy(of context: UnsafeMutablePointer<Context>) -> UInt
}

/// What a coroutine brings that leaves a pair.
@usableFromInline @frozen
package struct PairArrival<Context> {
  /// The word that was handed over.
  @usableFromInline package let word: UInt
  /// The pair that was left: another one than was entered after a `pass`.
  @usableFromInline package let pair: UnsafeMutablePointer<Context>
  /// The mark that the coroutine passed to `leave`, with the word.
  @usableFromInline package let mark: UInt

  @inlinable @inline(__always)
  package init(word: UInt, pair: UnsafeMutablePointer<Context>, mark: UInt) {
    self.word = word
    self.pair = pair
    self.mark = mark
  }
}

/// The functions of `ContextLink.swift`, by those.
extension PairedContextBackend {
  @inlinable @inline(__always)
  package static func isRunning(_ link: UnsafeMutablePointer<ContextLink<Self>>) -> Bool { runningWord(link) != 0 }

  @inlinable @inline(__always)
  package static func runningWord(_ link: UnsafeMutablePointer<ContextLink<Self>>) -> UInt {
    occupancy(of: ContextLink.resumer(link))
  }

  @inlinable @inline(__always)
  package static func resume(_ link: UnsafeMutablePointer<ContextLink<Self>>, passing word: UInt) -> UInt {
    // As deep as `suspend`: ThreadSanitizer counts the calls of a fiber, and the two sides count for each other.
    let arrival = enter(ContextLink.own(link), passing: word)
    _ = ContextLink<Self>.left(by: arrival.pair)
    return arrival.word
  }

  @inlinable @inline(__always)
  package static func resumeReturningLink(
    _ link: UnsafeMutablePointer<ContextLink<Self>>, passing word: UInt
  ) -> (word: UInt, link: UnsafeMutablePointer<ContextLink<Self>>, mark: UInt?) {
    let arrival = enter(ContextLink.own(link), passing: word)
    return (arrival.word, ContextLink<Self>.left(by: arrival.pair), arrival.mark)
  }

  @inlinable @inline(__always)
  package static func suspend(
    _ link: UnsafeMutablePointer<ContextLink<Self>>, passing word: UInt, mark: UInt = 0
  ) -> UInt {
    leave(ContextLink.own(link), passing: word, mark: mark)
  }

  @inlinable
  package static var passes: Bool { true }

  @inlinable @inline(__always)
  package static func pass(
    from link: UnsafeMutablePointer<ContextLink<Self>>, to next: UnsafeMutablePointer<ContextLink<Self>>,
    storing value: UInt, at address: UnsafeMutablePointer<UInt>
  ) {
    pass(from: ContextLink.own(link), to: ContextLink.own(next), storing: value, at: address)
  }
}
