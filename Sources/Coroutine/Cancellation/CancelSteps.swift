// SPDX-License-Identifier: Apache-2.0

/// What a cancellation has reached in one coroutine: to be carried out once no lock is held.
struct PendingCancel: Sendable {
  /// Those of the regions that it has reached, innermost first.
  var handlers: [CancellationRegion.Handler]
  /// The coroutine, if its wait was ended. It is woken after the handlers.
  var woken: CoroutineCore?

  /// Runs the handlers, and those of the coroutines that they lead to. Then wakes the coroutine.
  func carryOut(_ reason: any Error) {
    guard !handlers.isEmpty else { return wake() }
    CancelSteps.run([.carryOut(self)], reason)
  }

  /// As `carryOut`, for the timers' thread, which must not wait for handlers: what is deferred to another thread.
  ///
  /// - Returns: the handlers to run, if there are any.
  func deferred(_ reason: any Error) -> Unmanaged<DeferredCancel>? {
    guard !handlers.isEmpty else {
      wake()
      return nil
    }
    return .passRetained(DeferredCancel(self, reason))
  }

  fileprivate func wake() {
    if let woken { CoroutineCore.wake(.passUnretained(woken)) }
  }
}

/// Handlers that the timers' thread defers to another thread, together with its only reference to them: whoever releases them
/// last runs the `deinit`s of users' objects that they have captured.
final class DeferredCancel: Sendable {
  private let pending: PendingCancel
  private let reason: any Error

  fileprivate init(_ pending: PendingCancel, _ reason: any Error) { (self.pending, self.reason) = (pending, reason) }

  /// By a thread that refers to no part of it any more.
  static func carryOutElsewhere(_ deferred: Unmanaged<DeferredCancel>) {
    HandlerThreads.run {
      let deferred = deferred.takeRetainedValue()
      deferred.pending.carryOut(deferred.reason)
    }
  }
}

/// A cancel of one coroutine leads to those of the children of its scopes, which may have scopes of their own. All of that is
/// done in a loop: with a call inside the other for each level, a thousand levels overflow the canceller's stack.
///
/// The order is that of such calls. What is inside of a coroutine learns of the cancel before that is woken, and what the
/// oldest child leads to is done before the next one is cancelled.
enum CancelSteps {
  fileprivate enum Step {
    case cancel(CoroutineCore)
    case carryOut(PendingCancel)
    case handle(CancellationRegion.Handler)
    case wake(PendingCancel)
  }

  /// Cancels coroutines, in this order.
  static func cancel(_ coroutines: [CoroutineCore], _ reason: any Error) {
    guard !coroutines.isEmpty else { return }
    run(coroutines.reversed().map { .cancel($0) }, reason)
  }

  /// - Parameter first: the last one comes first.
  fileprivate static func run(_ first: consuming [Step], _ reason: any Error) {
    var steps = first
    while let step = steps.popLast() {
      switch step {
      case .cancel(let core):
        if let pending = core.beginCancel(by: reason) { steps.append(.carryOut(pending)) }
      case .carryOut(let pending):
        steps.append(.wake(pending))
        steps += pending.handlers.reversed().map { .handle($0) }
      case .handle(let handler):
        steps += handler(reason).reversed().map { .cancel($0) }
      case .wake(let pending):
        pending.wake()
      }
    }
  }
}
