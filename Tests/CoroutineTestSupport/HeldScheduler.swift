public import Coroutine

/// A program's own scheduler, which runs nothing until it is told to.
public final class HeldScheduler: Scheduler {
  private let held = CoroutineJobQueue()
  /// Whether each thread counts as its own: then `Coroutine.immediate` starts a coroutine at once.
  public let isCurrent: Bool
  public var isSerial: Bool { true }

  public init(isCurrent: Bool = false) {
    self.isCurrent = isCurrent
  }

  public func enqueue(_ job: consuming CoroutineJob) { _ = held.append(job) }

  /// Runs what is ready, and what becomes ready meanwhile, up to so many turns.
  public func run(limit: Int = .max) { _ = held.run(limit: limit) }
}
