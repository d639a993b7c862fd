/// The two contexts of an asymmetric coroutine: its own, and that of its resumer. At any time just one of them is
/// suspended, so that the pair also says who runs.
@frozen
public struct ContextLink<Backend: ContextBackend> {
  /// The coroutine's registers while it is suspended.
  public var own: Backend.Context
  /// The resumer's registers while the coroutine runs. Destroyed while it does not.
  public var resumer: Backend.Context

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
}

/// Asymmetric switching over `switchContext`: into a coroutine, and back to its resumer.
extension ContextBackend {
  @inlinable @inline(__always)
  public static func enter(_ pair: UnsafeMutablePointer<Context>, passing word: UInt) -> ContextArrival<Context> {
    switchContext(from: pair + 1, to: pair, passing: word)
  }

  @inlinable @inline(__always)
  public static func leave(_ pair: UnsafeMutablePointer<Context>, passing word: UInt, mark: UInt) -> UInt {
    switchContext(from: pair, to: pair + 1, passing: word).word
  }

  @inlinable
  public static var handsMarksOver: Bool { false }

  /// Makes `link` a coroutine that is suspended before its first step and will call `entry` with the first word.
  ///
  /// - Parameter stack: as in `initialize(_:stack:resumer:entry:)`.
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
    occupancy(of: ContextLink.resumer(link))
  }

  /// Runs the coroutine until it suspends, on the calling thread.
  ///
  /// - Precondition: the coroutine is suspended. Resuming one that runs corrupts its stack: the caller must know.
  /// - Returns: the word that `suspend` was given.
  @inlinable @inline(__always)
  public static func resume(_ link: UnsafeMutablePointer<ContextLink<Self>>, passing word: UInt) -> UInt {
    // As deep as `suspend`: ThreadSanitizer counts the calls of a fiber, and the two sides count for each other.
    let arrival = enter(ContextLink.own(link), passing: word)
    destroy(arrival.departed + 1)
    return arrival.word
  }

  /// The same, for callers that need the link again, or the mark: both come in registers. The link need not be kept across
  /// the switch; the mark is `nil` if the backend hands none over.
  @inlinable @inline(__always)
  public static func resumeReturningLink(
    _ link: UnsafeMutablePointer<ContextLink<Self>>, passing word: UInt
  ) -> (word: UInt, link: UnsafeMutablePointer<ContextLink<Self>>, mark: UInt?) {
    let arrival = enter(ContextLink.own(link), passing: word)
    // No resumer waits for the coroutine any more: its backtrace ends at its own first frame. It left by its own context, so
    // that is where the link lies.
    destroy(arrival.departed + 1)
    let link = UnsafeMutableRawPointer(arrival.departed).assumingMemoryBound(to: ContextLink<Self>.self)
    return (arrival.word, link, handsMarksOver ? arrival.mark : nil)
  }

  /// Suspends the running coroutine and goes back to its resumer. The only way back: a coroutine that was resumed
  /// by `resume` and left by `switchContext` from another context would leave its link wrong.
  ///
  /// - Parameter mark: what `resumeReturningLink` returns beside the word, if the backend hands marks over.
  /// - Returns: the word that the next `resume` is given, perhaps on another thread.
  @inlinable @inline(__always)
  public static func suspend(
    _ link: UnsafeMutablePointer<ContextLink<Self>>, passing word: UInt, mark: UInt = 0
  ) -> UInt {
    leave(ContextLink.own(link), passing: word, mark: mark)
  }
}
