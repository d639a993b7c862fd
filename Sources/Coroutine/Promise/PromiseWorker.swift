// SPDX-License-Identifier: Apache-2.0

extension PromiseStorage {
  /// Starts the coroutine that does the work, and is cancelled with the promise.
  ///
  /// - Parameter body: has captured the promise's resolver.
  final func work(
    on scheduler: SchedulerReference, name: String, stackSize: Int? = nil, _ body: @escaping CoroutineCore.Body
  ) {
    let worker = PromiseWorker(for: self, on: scheduler, name: name, stackSize: stackSize, body)
    onCancel { worker.cancel(reason: nil) }
    worker.schedule()
  }
}

/// The coroutine that does a promise's work.
// Unchecked: as its superclass; its own field is constant.
final class PromiseWorker<Value: Sendable>: CoroutineCore, @unchecked Sendable {
  // Alive as long as the body is there: that has the resolver.
  private unowned(unsafe) let promise: PromiseStorage<Value>

  /// One that is not scheduled yet.
  fileprivate init(
    for promise: PromiseStorage<Value>, on scheduler: SchedulerReference, name: String, stackSize: Int?,
    _ body: @escaping Body
  ) {
    self.promise = promise
    super.init(on: scheduler, name: name, stackSize: stackSize, body: body)
    keepAlive()
    // It fails only where it does not begin, and the promise by the same.
    resultIsTaken()
  }

  /// Without a stack, or cancelled before it began: the promise is rejected with that. Otherwise it would be abandoned,
  /// since the resolver goes with the body.
  override func dropBody() {
    if let failure { promise.settle(.failure(failure)) }
    super.dropBody()
  }
}
