public import Context

/// A coroutine's body, its result, and those who wait for it.
@usableFromInline
final class CoroutineStorage<Success: Sendable, Failure: Error>: CoroutineCore, @unchecked Sendable {
  // Sendable: `body` and `result` belong to the coroutine until the completion is published under the lock; afterwards
  // `result` does not change.
  @exclusivity(unchecked) @usableFromInline var body: (() throws(Failure) -> Success)?
  /// Written by the coroutine before its end is published, read after it.
  @exclusivity(unchecked) @usableFromInline var result: Result<Success, any Error>?
  /// Guarded by the lock.
  @exclusivity(unchecked) @usableFromInline var completion = CompletionStateMachine()

  @inlinable
  init(
    on scheduler: SchedulerReference, name: String, stackSize: Int?,
    body: sending @escaping () throws(Failure) -> Success
  ) {
    self.body = body
    super.init(on: scheduler, name: name, stackSize: stackSize)
  }

  deinit {
    if case .failure(let error) = result, !completion.wasObserved {
      CoroutineErrors.report(error, of: description)
    }
  }

  // MARK: The coroutine's side

  @inlinable
  override func runBody() {
    guard let body else { fatalError("\(description) runs twice") }
    // What the body captured is released before its end is published: on its stack, while it still counts as running.
    self.body = nil
    do throws(Failure) {
      result = .success(try body())
    } catch {
      result = .failure(error)
    }
  }

  @inlinable
  override func fail(_ error: StackError) {
    body = nil
    result = .failure(error)
  }

  @inlinable
  override func complete() {
    lock.lock()
    let waiters = completion.complete()
    lock.unlock()
    waiters.wakeAll()
  }

  // MARK: The joiners' side

  @inlinable
  func get() throws -> Success {
    let core = CoroutineCore.running(for: "Coroutine.get()")
    precondition(core !== self, "\(core.description) waits for its own end: it would wait for ever")
    var node = WaitNode(.coroutine(.passUnretained(core)))
    withUnsafeMutablePointer(to: &node) { node in
      lock.lock()
      switch completion.join(node) {
      case .wait: core.park(.join, at: self)
      case .finished: lock.unlock()
      }
    }
    return try value()
  }

  @inlinable
  func get() async throws -> Success {
    let node = UnsafeMutablePointer<WaitNode>.allocate(capacity: 1)
    defer { node.deallocate() }
    await withUnsafeContinuation { (continuation: UnsafeContinuation<Void, Never>) in
      node.initialize(to: WaitNode(.task(continuation)))
      lock.lock()
      let action = completion.join(node)
      lock.unlock()
      if case .finished = action { continuation.resume() }
    }
    return try value()
  }

  @inlinable
  func getBlocking() throws -> Success {
    precondition(
      CoroutineCore.current == nil, "getBlocking() inside a coroutine would block its whole thread: use get()")
    let thread = BlockedThread()
    var node = WaitNode(.thread(thread))
    withUnsafeMutablePointer(to: &node) { node in
      lock.lock()
      let action = completion.join(node)
      lock.unlock()
      if case .wait = action { thread.block() }
    }
    return try value()
  }

  /// The result, after the end.
  @inlinable
  func value() throws -> Success {
    guard let result else { fatalError("\(description) has ended without a result") }
    return try result.get()
  }

  override package func describe(_ operation: WaitReason.Operation) -> String {
    "the end of \(description)"
  }
}
