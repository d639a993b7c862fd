// SPDX-License-Identifier: Apache-2.0

import Synchronization

extension CoroutineScope {
  /// Starts a child, and suspends the calling coroutine until that says that it is ready. Then the child goes on, as any
  /// other of the scope. (trio's `nursery.start`.)
  ///
  /// ```swift
  /// let port = try scope.start(name: "server") { ready in
  ///   let listener = try TCPListener(host: "::", port: 0)
  ///   ready(listener.address.port)
  ///   try listener.serve { connection in … }
  /// }
  /// ```
  ///
  /// An error that the child throws before it is ready is thrown here, and is no failure of the scope. If the caller is
  /// cancelled meanwhile, so is the child, and an error of its own is a failure of the scope; the caller goes on when the child has
  /// ended, or at once if that has not begun.
  ///
  /// - Parameters:
  ///   - priority: the child's: see `Coroutine.init(priority:name:stackSize:_:)`; `nil`: the creator's.
  ///   - name: the child's, for backtraces and messages.
  ///   - stackSize: the child's, in bytes; `nil`: the usual size.
  ///   - body: what the child does; calls `ready` once.
  /// - Returns: what `ready` was given.
  /// - Throws: what the child throws before it is ready; `ChildNotReady` if it ends without a word; `CancellationError` if
  ///   the caller or the child is cancelled before.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func start<Value: Sendable>(
    priority: TaskPriority? = nil, name: String = "", stackSize: Int? = nil,
    _ body: sending ((ReadySignal<Value>) throws -> Void)?
  ) throws -> Value {
    guard let body else { missingFunction() }
    return try start(.inherited, priority, name, stackSize, body)
  }

  /// Starts a child on a scheduler, and suspends the calling coroutine until that says that it is ready.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func start<Value: Sendable>(
    on scheduler: some Scheduler, priority: TaskPriority? = nil, name: String = "", stackSize: Int? = nil,
    _ body: sending ((ReadySignal<Value>) throws -> Void)?
  ) throws -> Value {
    guard let body else { missingFunction() }
    return try start(SchedulerReference(scheduler), priority, name, stackSize, body)
  }

  /// Starts a child, and suspends the calling task until that says that it is ready. As in a coroutine.
  nonisolated(nonsending) public func start<Value: Sendable>(
    priority: TaskPriority? = nil, name: String = "", stackSize: Int? = nil,
    _ body: sending ((ReadySignal<Value>) throws -> Void)?
  ) async throws -> Value {
    guard let body else { missingFunction() }
    return try await start(.inherited, priority, name, stackSize, body)
  }

  /// Starts a child on a scheduler, and suspends the calling task until that says that it is ready. As in a coroutine.
  nonisolated(nonsending) public func start<Value: Sendable>(
    on scheduler: some Scheduler, priority: TaskPriority? = nil, name: String = "", stackSize: Int? = nil,
    _ body: sending ((ReadySignal<Value>) throws -> Void)?
  ) async throws -> Value {
    guard let body else { missingFunction() }
    return try await start(SchedulerReference(scheduler), priority, name, stackSize, body)
  }

  private func start<Value: Sendable>(
    _ scheduler: SchedulerReference, _ priority: TaskPriority?, _ name: String, _ stackSize: Int?,
    _ body: sending @escaping (ReadySignal<Value>) throws -> Void
  ) throws -> Value {
    let core = CoroutineCore.running(for: "CoroutineScope.start")
    let suspension = SuspensionStorage<Value>(of: core)
    let child = launch(scheduler, priority, name, stackSize, suspension, body)
    if let outcome = suspension.wait(core, .join) { return try outcome.get() }
    if cancelStarted(child) { _ = withCancellationShield { child.waitWithoutResult(core) } }
    throw CancellationError()
  }

  nonisolated(nonsending) private func start<Value: Sendable>(
    _ scheduler: SchedulerReference, _ priority: TaskPriority?, _ name: String, _ stackSize: Int?,
    _ body: sending @escaping (ReadySignal<Value>) throws -> Void
  ) async throws -> Value {
    let suspension = SuspensionStorage<Value>()
    let child = launch(scheduler, priority, name, stackSize, suspension, body)
    if let outcome = await suspension.wait() { return try outcome.get() }
    // A task of its own is not cancelled.
    if cancelStarted(child) {
      await Task<Void, Never>(executorPreference: preferredExecutor) { _ = await child.waitWithoutResult() }.value
    }
    throw CancellationError()
  }

  private func launch<Value: Sendable>(
    _ scheduler: SchedulerReference, _ priority: TaskPriority?, _ name: String, _ stackSize: Int?,
    _ suspension: SuspensionStorage<Value>, _ body: sending @escaping (ReadySignal<Value>) throws -> Void
  ) -> StartedChild<Value> {
    let child = StartedChild(
      ReadySignal(Resumption(suspension)), on: scheduler, name: name, stackSize: stackSize, body)
    // Cancelled before it has begun it would not say so.
    child.setStartsAtomically()
    if let priority { child.prioritise(priority) }
    if storage.adopt(child) { child.schedule() }
    return child
  }

  /// The starter was cancelled before the child has said that it is ready. Returns whether it waits for the child's end: what that
  /// had taken, such as a port, is free again when the starter goes on. One that has not begun has taken nothing.
  private func cancelStarted<Value>(_ child: StartedChild<Value>) -> Bool {
    child.cancel(reason: nil)
    return child.bodyHasBegun.load(ordering: .acquiring)
  }
}

/// A child that says when it is ready.
// Unchecked: as its superclass; its own field belongs to the thread that begins it.
private final class StartedChild<Value: Sendable>: CoroutineCore, @unchecked Sendable {
  /// Until it begins.
  @exclusivity(unchecked) private var signal: ReadySignal<Value>?
  let bodyHasBegun = Atomic<Bool>(false)

  /// One that is not scheduled yet.
  init(
    _ signal: ReadySignal<Value>, on scheduler: SchedulerReference, name: String, stackSize: Int?,
    _ body: sending @escaping (ReadySignal<Value>) throws -> Void
  ) {
    self.signal = signal
    super.init(on: scheduler, name: name, stackSize: stackSize) { core in
      let child = unsafeDowncast(core, to: StartedChild<Value>.self)
      // Taken, since the starter learns of the child's end when the signal's last copy goes.
      guard let signal = child.signal.take() else { fatalError("\(core.description) runs twice") }
      child.bodyHasBegun.store(true, ordering: .releasing)
      try signal.run(body)
    }
    keepAlive()
  }

  /// Without a stack: thrown by the starter, and then no failure in the scope. Otherwise the starter would be abandoned, since
  /// the signal goes.
  override func dropBody() {
    if let failure, let signal = signal.take(), signal.fails(failure) { outcome = .words }
    signal = nil
    super.dropBody()
  }
}

/// By which a child says that it is ready: `CoroutineScope.start(priority:name:stackSize:_:)`.
public struct ReadySignal<Value: Sendable>: Sendable {
  private let state: State

  private final class State: Sendable {
    let resumption: Resumption<Value>
    let isGiven = Atomic<Bool>(false)

    init(_ resumption: Resumption<Value>) {
      self.resumption = resumption
    }
  }

  init(_ resumption: Resumption<Value>) {
    state = State(resumption)
  }

  /// The child is ready: its starter goes on. From any thread; once, later calls have no effect.
  public func callAsFunction(_ value: Value) {
    if claim() { state.resumption.returning(value) }
  }

  private func claim() -> Bool { !state.isGiven.exchange(true, ordering: .relaxed) }

  /// The child.
  fileprivate func run(_ body: (ReadySignal) throws -> Void) throws {
    do {
      try Coroutine.checkCancellation()
      try body(self)
    } catch {
      // By the child itself if the starter has given up: then it is a failure in the scope like any other.
      guard fails(error) else { throw error }
      return
    }
    if claim() { state.resumption.throwing(ChildNotReady()) }
  }

  /// Whether the starter throws this.
  fileprivate func fails(_ error: any Error) -> Bool { claim() && state.resumption.throwing(error) }
}

extension ReadySignal where Value == Void {
  /// The child is ready.
  public func callAsFunction() { self(()) }
}

/// A child that was to say when it is ready has ended without.
public struct ChildNotReady: Error, CustomStringConvertible {
  public var description: String { "the child has ended without having said that it is ready" }
}
