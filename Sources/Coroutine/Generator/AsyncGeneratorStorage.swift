// SPDX-License-Identifier: Apache-2.0

public import Context
import Synchronization

/// An `AsyncGenerator`'s lock, its body's coroutine, and what its state machine decides.
@usableFromInline
// Unchecked: the lock guards the machine, the body and its coroutine; the rest is constant.
final class AsyncGeneratorStorage<Element: Sendable>: Waitable, @unchecked Sendable {
  private let scheduler: SchedulerReference
  private let name: String
  private let stackSize: Int?
  // Guarded by the lock, all four.
  @exclusivity(unchecked) @usableFromInline var machine = AsyncGeneratorStateMachine<Element>()
  /// Until it begins, or is cancelled before that.
  @exclusivity(unchecked) @usableFromInline var body: ((AsyncGenerator<Element>.Yield) throws -> Void)?
  /// The body's, from its beginning to its end.
  @exclusivity(unchecked) @usableFromInline var coroutine: CoroutineStorage<Void, Never>?
  /// The same, and for good, for `join()`: the coroutine ends some time after the body has returned, when what that captured
  /// is gone. No cycle: by its end it has let go of its work, which keeps this object.
  @exclusivity(unchecked) private var joined: CoroutineStorage<Void, Never>?
  /// Its number, for debuggers; 0 without one. Written under the lock.
  private let coroutineID = Atomic<UInt64>(0)

  /// How often `yield` has thrown since the cancel. The body's own.
  @exclusivity(unchecked) private var throwsSinceCancel = 0

  init(
    on scheduler: SchedulerReference, name: String, stackSize: Int?,
    body: sending @escaping (AsyncGenerator<Element>.Yield) throws -> Void
  ) {
    self.scheduler = scheduler
    self.name = name
    self.stackSize = stackSize
    self.body = body
  }

  /// What it is called in messages.
  var label: String { name.isEmpty ? "a generator" : "generator \"\(name)\"" }

  deinit {
    if let failure = machine.failure { CoroutineErrors.report(failure, of: label) }
  }

  override package func describe(_ operation: WaitReason.Operation) -> String {
    WaitText.generator(name, operation)
  }

  override package func wakers(_ operation: WaitReason.Operation) -> Wakers {
    let body = coroutineID.load(ordering: .relaxed)
    return operation == .receive && body != 0 ? .coroutine(body) : .unknown
  }

  // MARK: - The consumers' side

  @inlinable
  func next() throws -> Element? {
    let core = CoroutineCore.running(for: "AsyncGenerator.next()")
    // A consumer that is cancelled takes nothing: the body need not compute it.
    if core.isInterrupted { try throwCancelled(core) }
    ask(core)
    var isAsking = true
    var node = ChannelNode<Element>(.coroutine(.passUnretained(core)), element: nil)
    let cause = withUnsafeMutablePointer(to: &node) { node in
      wait(core, .receive, by: node) {
        isAsking = false
        return machine.receive($0)
      } withdraw: {
        machine.withdraw($0)
      }
    }
    if let element = node.element { return element }
    try endWaiting(cause, isAsking)
    return nil
  }

  /// An operation all the same: a loop that overlooks the error lets others run.
  @usableFromInline @inline(never)
  func throwCancelled(_ core: CoroutineCore) throws -> Never {
    core.countOperation()
    core.beginOperation()
    throw CancellationError()
  }

  @inlinable
  nonisolated(nonsending) func next() async throws -> Element? {
    guard !Task.isCancelled else { throw CancellationError() }
    ask(nil)
    var isAsking = true
    var element: Element?
    let cause = await wait {
      ChannelNode<Element>($0, element: nil)
    } attempt: {
      isAsking = false
      return machine.receive($0)
    } withdraw: {
      machine.withdraw($0)
    } afterwards: {
      element = $0.element.take()
    }
    if let element { return element }
    try await endWaiting(cause, isAsking)
    return nil
  }

  /// Lets the body begin or go on.
  @inlinable
  func ask(_ core: CoroutineCore?) { letBodyGoOn(for: core) { $0.ask() } }

  /// A select looks for an element.
  func want() { letBodyGoOn(for: CoroutineCore.current) { $0.want() } }

  @inlinable @inline(__always)
  func letBodyGoOn(
    for core: CoroutineCore?,
    _ ask: (inout AsyncGeneratorStateMachine<Element>) -> AsyncGeneratorStateMachine<Element>.AskAction
  ) {
    lock.lock()
    require(
      core == nil || coroutine !== core, "AsyncGenerator.next() inside its own body: it would wait for itself for ever")
    let action = ask(&machine)
    let body = self.body
    if case .begin = action { self.body = nil }
    lock.unlock()
    switch action {
    case .none: break
    case .wake(let waiter): waiter.wake()
    case .begin: begin(body)
    }
  }

  /// A wait is over that brought no element: throws why, unless that is the end.
  @usableFromInline
  func endWaiting(_ cause: WakeCause, _ isAsking: Bool) throws {
    try afterWaiting(cause, isAsking)?.get()
  }

  /// As in a coroutine.
  @usableFromInline
  nonisolated(nonsending) func endWaiting(_ cause: WakeCause, _ isAsking: Bool) async throws {
    try await afterWaiting(cause, isAsking)?.get()
  }

  /// Returns the body's coroutine if that could not run.
  private func afterWaiting(_ cause: WakeCause, _ isAsking: Bool) throws -> CoroutineStorage<Void, Never>? {
    lock.lock()
    if isAsking { machine.withdrawAsker() }
    let failure = cause == .event ? machine.takeFailure() : nil
    // Reported once, as what a body throws is.
    let coroutine = cause == .event && !machine.isCancelled ? self.coroutine.take() : nil
    lock.unlock()
    try cause.check()
    if let failure { throw failure }
    return coroutine
  }

  func cancel() {
    lock.lock()
    let (consumers, waiting, lost) = machine.cancel()
    let coroutine = self.coroutine
    // These are released after the unlock: code of the user's may run when they go.
    var body = self.body
    self.body = nil
    lock.unlock()
    consumers.wakeAll()
    // First the flag, so that the body finds itself cancelled when it goes on. This does not wake it: its wait is claimed.
    coroutine?.cancel(reason: nil)
    waiting?.wake()
    UnbegunBodies.release(body.take())
    withExtendedLifetime(lost) {}
  }

  func join() throws {
    _ = CoroutineCore.running(for: "AsyncGenerator.join()")
    try coroutineToJoin?.waitForEnd().check()
  }

  nonisolated(nonsending) func join() async throws {
    try await coroutineToJoin?.waitForEnd().check()
  }

  /// The body's coroutine, from its beginning on.
  private var coroutineToJoin: CoroutineStorage<Void, Never>? { lock.withLock { joined } }

  // MARK: - The body's side

  @usableFromInline
  func begin(_ body: ((AsyncGenerator<Element>.Yield) throws -> Void)?) {
    let life = AsyncGeneratorLife(self)
    // Handed over to the coroutine, once.
    nonisolated(unsafe) let body = body
    let coroutine = CoroutineStorage<Void, Never>.create(on: scheduler, name: name, stackSize: stackSize) {
      life.storage.run(body)
    }
    lock.lock()
    self.coroutine = coroutine
    joined = coroutine
    coroutineID.store(coroutine.id, ordering: .relaxed)
    let isCancelled = machine.isEnded
    lock.unlock()
    if isCancelled { coroutine.cancel(reason: nil) }
    coroutine.schedule()
  }

  private func run(_ body: ((AsyncGenerator<Element>.Yield) throws -> Void)?) {
    do {
      try body?(AsyncGenerator<Element>.Yield(storage: self))
      bodyEnded(nil)
    } catch {
      bodyEnded(error)
    }
  }

  private func bodyEnded(_ error: (any Error)?) {
    // That a cancelled one was cancelled is no error. From one that was not it is: the cancel of another generator.
    let isOfCancel = error is CancellationError || error is GeneratorCancelled
    lock.lock()
    let waiters = machine.bodyEnded(machine.isCancelled && isOfCancel ? nil : error)
    let coroutine = self.coroutine
    self.coroutine = nil
    coroutineID.store(0, ordering: .relaxed)
    lock.unlock()
    waiters.wakeAll()
    withExtendedLifetime(coroutine) {}
  }

  /// The body's closure is gone: after its end, or since there was no memory for its stack. In that case its coroutine's
  /// error says so.
  fileprivate func bodyIsGone() {
    lock.lock()
    let waiters = machine.bodyEnded(nil)
    lock.unlock()
    waiters.wakeAll()
  }

  @inlinable
  func yield(_ element: Element) throws {
    let core = CoroutineCore.running(for: "an AsyncGenerator's yield, which is for its own body alone,")
    lock.lock()
    require(
      coroutine === core,
      "an AsyncGenerator's yield was called outside of its body, as by a coroutine that the body has launched: let that one send "
        + "to a Channel, and yield in the body what it receives")
    let consumer = machine.offer(element)
    lock.unlock()
    consumer?.wake()
    var node = WaitNode(.coroutine(.passUnretained(core)))
    let cause = wait(core, .send, by: &node) {
      machine.awaitDemand($0)
    } withdraw: { _ in
      machine.withdrawBody()
    }
    guard lock.withLock({ machine.isCancelled }) else {
      if cause != .event {
        takeBack()
        try cause.check()
      }
      return
    }
    giveWayIfEndless(core)
    throw GeneratorCancelled()
  }

  /// The body goes on although no consumer has asked: takes back what it has offered, if no consumer has taken it.
  @usableFromInline
  func takeBack() {
    // Released after the unlock: its end may run code of the user's.
    let element = lock.withLock { machine.takeBack() }
    withExtendedLifetime(element) {}
  }

  /// A body that goes on and on although its `yield` throws does not keep its scheduler from the other coroutines.
  @usableFromInline
  func giveWayIfEndless(_ core: CoroutineCore) {
    throwsSinceCancel += 1
    if throwsSinceCancel == GeneratorEndless.mostThrows {
      CoroutineErrors.report(GeneratorEndless(attempts: throwsSinceCancel), of: core.description)
    }
    if throwsSinceCancel >= GeneratorEndless.mostThrows { core.yieldTurn() }
  }
}

/// Notes that the body's closure is gone, whatever has become of its coroutine.
private final class AsyncGeneratorLife<Element: Sendable>: Sendable {
  let storage: AsyncGeneratorStorage<Element>

  init(_ storage: AsyncGeneratorStorage<Element>) {
    self.storage = storage
  }

  deinit { storage.bodyIsGone() }
}
