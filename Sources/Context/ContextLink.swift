// SPDX-License-Identifier: Apache-2.0

/// The two contexts of an asymmetric coroutine: its own, and that of its resumer. At any time just one of them is
/// suspended, so the pair also says which one runs.
@frozen
public struct ContextLink<Backend: ContextBackend> {
  /// The coroutine's registers while it is suspended.
  public var own: Backend.Context
  /// The resumer's registers while the coroutine runs. Destroyed while it does not.
  public var resumer: Backend.Context

  /// Takes over two contexts. The usual way is `initialize(_:stack:entry:)`, which makes both in place.
  @inlinable
  public init(own: Backend.Context, resumer: Backend.Context) {
    self.own = own
    self.resumer = resumer
  }
}

extension ContextLink {
  /// The address of the coroutine's own context.
  @inlinable @inline(__always)
  public static func own(_ link: UnsafeMutablePointer<Self>) -> UnsafeMutablePointer<Backend.Context> {
    UnsafeMutableRawPointer(link).assumingMemoryBound(to: Backend.Context.self)
  }

  /// The address of the resumer's context, which follows the coroutine's own.
  @inlinable @inline(__always)
  public static func resumer(_ link: UnsafeMutablePointer<Self>) -> UnsafeMutablePointer<Backend.Context> {
    own(link) + 1
  }

  /// On the resumer's side: the link of the coroutine that has just left by its own context. No resumer waits for it any
  /// more, so that its backtrace ends at its own first frame.
  @inlinable @inline(__always)
  public static func left(by own: UnsafeMutablePointer<Backend.Context>) -> UnsafeMutablePointer<Self> {
    Backend.destroy(own + 1)
    return UnsafeMutableRawPointer(own).assumingMemoryBound(to: Self.self)
  }
}

/// Asymmetric switching over `switchContext`: into a coroutine, and back to its resumer.
///
/// A backend that can do better says so by `PairedContextBackend`: where its type is known, as in the runtime, the compiler
/// takes the functions of the same names there.
extension ContextBackend {
  /// Makes `link` a coroutine that is suspended before its first step and will call `entry` with the first word.
  ///
  /// - Parameters:
  ///   - link: the memory of the pair; need not be initialised.
  ///   - stack: as in `initialize(_:stack:resumer:entry:)`.
  ///   - entry: what the coroutine runs. It must not return.
  @inlinable
  public static func initialize(
    _ link: UnsafeMutablePointer<ContextLink<Self>>, stack: UnsafeMutableRawBufferPointer,
    entry: @convention(c) (UInt) -> Void
  ) {
    initialize(ContextLink.own(link), stack: stack, resumer: ContextLink.resumer(link), entry: entry)
    destroy(ContextLink.resumer(link))
  }

  /// Whether the coroutine runs at this moment: its resumer is suspended then.
  @inlinable @inline(__always)
  public static func isRunning(_ link: UnsafeMutablePointer<ContextLink<Self>>) -> Bool { runningWord(link) != 0 }

  /// The same as a word, to be tested together with others: 0 while it does not run.
  @inlinable @inline(__always)
  public static func runningWord(_ link: UnsafeMutablePointer<ContextLink<Self>>) -> UInt {
    registers(of: ContextLink.resumer(link)) == nil ? 0 : 1
  }

  /// Runs the coroutine until it suspends, on the calling thread.
  ///
  /// - Precondition: the coroutine is suspended. Resuming one that runs corrupts its stack: the caller must know.
  /// - Returns: the word that `suspend` was given.
  @inlinable @inline(__always)
  public static func resume(_ link: UnsafeMutablePointer<ContextLink<Self>>, passing word: UInt) -> UInt {
    // As deep as `suspend`: ThreadSanitizer counts the calls of a fiber, and the two sides count for each other.
    let arrival = switchContext(from: ContextLink.resumer(link), to: ContextLink.own(link), passing: word)
    _ = ContextLink<Self>.left(by: arrival.departed)
    return arrival.word
  }

  /// The same, for callers that need the link again: it comes in a register, and need not be kept across the switch.
  ///
  /// - Returns: the word; the link of the coroutine that came back, which is another one after a `pass`; the mark that it
  ///   gave to `suspend`, or `nil` from a backend that hands no marks over.
  @inlinable @inline(__always)
  public static func resumeReturningLink(
    _ link: UnsafeMutablePointer<ContextLink<Self>>, passing word: UInt
  ) -> (word: UInt, link: UnsafeMutablePointer<ContextLink<Self>>, mark: UInt?) {
    let arrival = switchContext(from: ContextLink.resumer(link), to: ContextLink.own(link), passing: word)
    return (arrival.word, ContextLink<Self>.left(by: arrival.departed), nil)
  }

  /// Suspends the running coroutine and goes back to its resumer. The only way back: a coroutine that was resumed
  /// by `resume` and left by `switchContext` from another context would leave its link wrong.
  ///
  /// - Parameters:
  ///   - link: the running coroutine's own.
  ///   - word: what its `resume` returns.
  ///   - mark: for the resumer, in addition to the word. It is lost here.
  /// - Returns: the word that the next `resume` is given, perhaps on another thread.
  @inlinable @inline(__always)
  public static func suspend(
    _ link: UnsafeMutablePointer<ContextLink<Self>>, passing word: UInt, mark: UInt = 0
  ) -> UInt {
    switchContext(from: ContextLink.own(link), to: ContextLink.resumer(link), passing: word).word
  }

  /// Whether there is `pass`. A constant.
  @inlinable
  package static var passes: Bool { false }

  /// From one coroutine right into another one. See `PairedContextBackend`.
  package static func pass(
    from link: UnsafeMutablePointer<ContextLink<Self>>, to next: UnsafeMutablePointer<ContextLink<Self>>,
    storing value: UInt, at address: UnsafeMutablePointer<UInt>
  ) {
    preconditionFailure("\(name) can't go from one coroutine right into another")
  }
}
