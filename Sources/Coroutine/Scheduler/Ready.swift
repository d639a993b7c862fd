/// The right to run a coroutine once: what a scheduler is given, keeps in its queue and hands back to `run`.
///
/// One word, so that queueing allocates nothing; not copyable, so that resuming twice does not compile. Dropping one
/// without running it would leave a coroutine, and whoever joins it, waiting for ever: that traps.
public struct Ready: ~Copyable, Sendable {
  // Sendable: the token is the only way to the coroutine while it waits to run.
  nonisolated(unsafe) private let core: Unmanaged<CoroutineCore>

  @usableFromInline
  init(_ core: Unmanaged<CoroutineCore>) {
    self.core = core
  }

  /// Runs the coroutine on the calling thread until it suspends or ends.
  ///
  /// For implementations of `Scheduler`. Not under a lock. The calling thread needs no preparation; the coroutine's
  /// body sees this thread's thread-locals.
  public consuming func run() {
    CoroutineCore.run(self)
  }

  /// Hands the coroutine to its own scheduler.
  @usableFromInline
  consuming func enqueue() {
    let core = take()
    core._withUnsafeGuaranteedRef { $0.scheduler.enqueue(Ready(core)) }
  }

  /// Gives up the token for what it stands for.
  consuming func take() -> Unmanaged<CoroutineCore> {
    let core = self.core
    discard self
    return core
  }

  deinit {
    let lost = core._withUnsafeGuaranteedRef { $0.description }
    require(false, "a scheduler dropped \(lost) instead of running it")
  }
}

/// Coroutines that wait to run, first in, first out, linked through themselves. Guarded by its owner's lock.
struct ReadyQueue: ~Copyable {
  private var first: Unmanaged<CoroutineCore>?
  private var last: Unmanaged<CoroutineCore>?

  var isEmpty: Bool { first == nil }

  /// Appends one. Constant time, no allocation.
  mutating func append(_ ready: consuming Ready) {
    let core = ready.take()
    core._withUnsafeGuaranteedRef { $0.nextReady = nil }
    if let last { last._withUnsafeGuaranteedRef { $0.nextReady = core } } else { first = core }
    last = core
  }

  /// Takes out the one that came first.
  mutating func popFirst() -> Ready? {
    guard let core = first else { return nil }
    first = core._withUnsafeGuaranteedRef { $0.nextReady }
    if first == nil { last = nil }
    return Ready(core)
  }
}
