// SPDX-License-Identifier: Apache-2.0

/// What a suspended coroutine waits for, and since when.
///
/// ```swift
/// if let suspension = worker.suspension, suspension.reason == .send {
///   print("held up: \(suspension.waitsFor)")       // held up: send on channel "jobs" (buffered 64/64, 1 sender)
/// }
/// ```
public struct CoroutineSuspension: Sendable {
  /// The kind of what it waits for.
  public let reason: SuspensionReason
  /// What it waits for, in words: the same as in dumps, `receive on channel "jobs" (1 receiver)`.
  public let waitsFor: String
  /// When it was suspended, to 10 ms; `nil` where times are not recorded. They are in a program that links CoroutineDebug,
  /// unless `CoroutineDump.recordsTimes` is set to false.
  public let since: SuspendingClock.Instant?
  /// When it will give up waiting, if the operation has a timeout of its own.
  public let deadline: SuspendingClock.Instant?

  init(_ reason: SuspensionReason, waitsFor: String, since: UInt64?, deadline: UInt64?) {
    (self.reason, self.waitsFor) = (reason, waitsFor)
    self.since = since.map { .init(monotonic: $0) }
    self.deadline = deadline.map { .init(monotonic: $0) }
  }
}

extension Coroutine {
  /// What it waits for at this moment; `nil` if it isn't suspended. In the next moment it may be another thing.
  ///
  /// Costs the coroutine nothing as long as it is not called. A call keeps the suspended and ready coroutines of the
  /// process from going on meanwhile, for some microseconds: not to be called in a loop. Callable from any thread.
  ///
  /// Also `nil` where the kernel does not offer what that needs (membarrier, Linux 4.14).
  public var suspension: CoroutineSuspension? { Inspection.suspension(of: storage) }
}

extension SuspendingClock.Instant {
  /// A time of the kernel's clock that deadlines refer to, which is this clock.
  fileprivate init(monotonic nanoseconds: UInt64) {
    self = SuspendingClock().systemEpoch.advanced(by: .nanoseconds(Int64(clamping: nanoseconds)))
  }
}
