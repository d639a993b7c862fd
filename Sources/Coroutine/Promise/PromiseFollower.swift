// SPDX-License-Identifier: Apache-2.0

/// Settles a promise that has become another one, when that is settled.
///
/// It waits for none of the observers of the other one: a closure that runs there may wait for the very promise that
/// this settles. A coroutine all the same, which has no stack before it begins: so a chain of promises that become one
/// another is worked off step by step.
// Unchecked: as its superclass; its own fields are constant.
final class PromiseFollower<Value: Sendable>: CoroutineCore, @unchecked Sendable {
  private let source: PromiseStorage<Value>
  private let output: PromiseStorage<Value>
  /// Its place among the waiters of `source`.
  private let listener = FollowerListener()

  @discardableResult
  init(of source: PromiseStorage<Value>, settling output: PromiseStorage<Value>, on scheduler: SchedulerReference) {
    self.source = source
    self.output = output
    super.init(on: scheduler, name: "", stackSize: nil) { core in
      // Unchecked: a body gets its own coroutine, which is the one that is made here.
      let follower = unsafeDowncast(core, to: PromiseFollower.self)
      follower.output.settle(follower.source.settledOutcome)
    }
    keepAlive()
    resultIsTaken()
    // The error goes to the output. Also where that is cancelled before: then it was not wanted.
    source.resultIsTaken()
    listener.follower = self
    if !source.join(listener) { schedule() }
    // Weakly: if it ends without having run, its `deinit` settles the output.
    output.onCancel { [weak self] in self?.stop() }
  }

  deinit {
    // It could not run: it was cancelled before, or there was no memory for a stack.
    if let failure { output.settle(.failure(failure)) }
  }

  /// It is no longer to run. Callable from any thread, at any time.
  private func stop() {
    cancel(reason: nil)
    // Cancelled before it began, it ends without running, and without a stack. Otherwise the listener starts it, or has.
    if source.withdraw(listener) { schedule() }
  }
}

/// Starts a follower at the settlement.
// Unchecked: as its superclass; its own field is constant once the listener is in a queue.
private final class FollowerListener: WaitListener, @unchecked Sendable {
  // Not counted: it has this object. Alive: it keeps itself so until it has run, which it does only after it was started.
  unowned(unsafe) var follower: CoroutineCore?

  override func notify() { follower?.schedule() }
}
