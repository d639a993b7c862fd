// SPDX-License-Identifier: Apache-2.0

import Context

/// A number of permits: each caller takes some to go on, and gives them back. A caller that finds too few waits,
/// suspended.
///
/// ```swift
/// let connections = Semaphore(permits: 8, name: "connections")
/// for url in urls {
///   Coroutine { try connections.withPermit { try fetch(url) } }
/// }
/// ```
///
/// The longest waiter is served first, whatever the number of permits: a waiter for many is not overtaken for ever by
/// waiters for few. A waiter that gives up lets those behind it go on. Coroutines, tasks and threads share it; each
/// operation takes constant time, plus the time to wake waiters. Copies are the same semaphore.
public struct Semaphore: Sendable {
  let storage: SemaphoreStorage

  /// A semaphore with permits to give out.
  ///
  /// - Parameters:
  ///   - permits: how many there are at first. Not negative: traps.
  ///   - name: for backtraces and messages.
  public init(permits: Int, name: String = "") {
    require(permits >= 0, "a Semaphore can't begin with \(permits) permits: give it zero or more")
    storage = SemaphoreStorage(permits: permits, name: name)
  }

  /// The name it was given; empty without one.
  public var name: String { storage.name }

  /// The number of free permits, at this moment: none while some are still to be taken away. From any thread.
  public var available: Int { max(0, storage.available) }

  /// Changes how many permits there are in all. Callable from any thread.
  ///
  /// ```swift
  /// connections.changePermits(by: -4)       // four fewer at once, as soon as they come back
  /// ```
  ///
  /// Permits are taken away from the free ones first, and then from the next that are released: no holder loses its
  /// permits.
  public func changePermits(by difference: Int) { storage.changePermits(by: difference) }

  /// Takes permits; suspends the calling coroutine until there are enough and no waiter is before it.
  ///
  /// - Parameters:
  ///   - count: all at once, or none. Not negative: traps. More than there will ever be: waits for ever.
  ///   - timeout: how long to wait at most; zero or less: not at all; `nil`: for ever.
  /// - Throws: `CancellationError` if the caller is cancelled before it has them; `TimeoutError` if the time was up before.
  ///   Then it has none.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func acquire(_ count: Int = 1, timeout: Duration? = nil) throws {
    try storage.acquire(count, timeout: timeout)
  }

  /// Takes permits, in `async` code; suspends the calling task until there are enough and no waiter is before it.
  ///
  /// - Parameters:
  ///   - count: all at once, or none. Not negative: traps. More than there will ever be: waits for ever.
  ///   - timeout: how long to wait at most; zero or less: not at all; `nil`: for ever.
  /// - Throws: `CancellationError` if the task is cancelled before it has them; `TimeoutError` if the time was up before.
  ///   Then it has none.
  nonisolated(nonsending) public func acquire(_ count: Int = 1, timeout: Duration? = nil) async throws {
    try await storage.acquire(count, timeout: timeout)
  }

  /// Takes permits if there are enough and there are no waiters. Never waits itself; callable from any thread.
  ///
  /// - Parameter count: not negative: traps.
  /// - Returns: whether the caller has them.
  public func tryAcquire(_ count: Int = 1) -> Bool {
    storage.tryAcquire(count)
  }

  /// Gives permits back, or new ones out: the semaphore does not record the holders. Callable from any thread.
  ///
  /// - Parameter count: not negative: traps.
  public func release(_ count: Int = 1) {
    storage.release(count)
  }

  /// Runs `body` with a permit, and gives it back.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait for the permit at most.
  ///   - body: runs with the permit, on the caller.
  /// - Throws: what `acquire` and `body` throw.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func withPermit<Result: ~Copyable>(timeout: Duration? = nil, _ body: () throws -> Result) throws -> Result {
    try acquire(timeout: timeout)
    defer { release() }
    return try body()
  }

  /// Runs `body` with a permit, and gives it back, in `async` code.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait for the permit at most.
  ///   - body: runs with the permit, on the caller.
  /// - Throws: what `acquire` and `body` throw.
  @inlinable
  nonisolated(nonsending) public func withPermit<Result: ~Copyable>(
    timeout: Duration? = nil, _ body: nonisolated(nonsending) () async throws -> Result
  ) async throws -> Result {
    try await acquire(timeout: timeout)
    defer { release() }
    return try await body()
  }

  /// Runs `body` with `count` permits, and gives them back.
  ///
  /// - Throws: what `acquire` and `body` throw.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func withPermits<Result: ~Copyable>(
    _ count: Int, timeout: Duration? = nil, _ body: () throws -> Result
  ) throws -> Result {
    try acquire(count, timeout: timeout)
    defer { release(count) }
    return try body()
  }

  /// Runs `body` with `count` permits, and gives them back, in `async` code.
  ///
  /// - Throws: what `acquire` and `body` throw.
  @inlinable
  nonisolated(nonsending) public func withPermits<Result: ~Copyable>(
    _ count: Int, timeout: Duration? = nil, _ body: nonisolated(nonsending) () async throws -> Result
  ) async throws -> Result {
    try await acquire(count, timeout: timeout)
    defer { release(count) }
    return try await body()
  }
}

// Unchecked: the name is constant, and the lock guards the machine.
final class SemaphoreStorage: Waitable, @unchecked Sendable {
  let name: String
  @exclusivity(unchecked) private var machine: SemaphoreStateMachine

  init(permits: Int, name: String) {
    self.name = name
    machine = SemaphoreStateMachine(permits: permits)
  }

  func acquire(_ count: Int, timeout: Duration?) throws {
    requireNotNegative(count)
    let core = CoroutineCore.running(for: "Semaphore.acquire(_:)")
    _ = try wait(core, .permit, timeout: timeout) {
      SemaphoreNode(wait: WaitNode($0), count: count)
    } attempt: {
      machine.acquire($0)
    } withdraw: {
      .wakeAll(machine.withdraw($0))
    }
  }

  nonisolated(nonsending) func acquire(_ count: Int, timeout: Duration?) async throws {
    requireNotNegative(count)
    _ = try await wait(timeout: timeout) {
      SemaphoreNode(wait: WaitNode($0), count: count)
    } attempt: {
      machine.acquire($0)
    } withdraw: {
      .wakeAll(machine.withdraw($0))
    }
  }

  func tryAcquire(_ count: Int) -> Bool {
    requireNotNegative(count)
    return lock.withLock { machine.tryAcquire(count) }
  }

  func release(_ count: Int) {
    requireNotNegative(count)
    lock.lock()
    let woken = machine.release(count)
    lock.unlock()
    woken.wakeAll()
  }

  func changePermits(by difference: Int) {
    lock.lock()
    let woken = machine.changePermits(by: difference)
    lock.unlock()
    woken.wakeAll()
  }

  var available: Int { lock.withLock { machine.available } }

  // MARK: As a case of a select, with the lock

  func attempt(_ count: Int) -> Bool { machine.tryAcquire(count) }

  func enqueue(_ node: UnsafeMutablePointer<SemaphoreNode>) { _ = machine.acquire(node) }

  func dequeue(_ node: UnsafeMutablePointer<SemaphoreNode>) -> ClaimedWaiters { machine.withdraw(node) }

  /// How many wait, those included that have given up but not yet left. Linear.
  var waiterCount: Int { lock.withLock { machine.waiters.count } }

  func requireNotNegative(_ count: Int) {
    require(count >= 0, "\(count) permits of \(named("semaphore", name)): the number must not be negative")
  }

  override package func describe(_ operation: WaitReason.Operation) -> String {
    WaitText.permit(ofSemaphore: name)
  }
}

/// The free permits, the waiters, and how many each wants. Pure: no lock, no switch.
///
/// Invariant: the first waiter in the queue, if its wait has not ended, wants more permits than are free. The number
/// may be negative: that many of the permits that come back are taken away.
struct SemaphoreStateMachine {
  typealias Node = UnsafeMutablePointer<SemaphoreNode>

  private(set) var available: Int
  private(set) var waiters = WaitQueue<SemaphoreNode>()

  init(permits: Int) {
    available = permits
  }

  /// A caller wants permits: behind the waiters.
  mutating func acquire(_ node: Node) -> Attempt {
    if tryAcquire(node.pointee.count) { return .done }
    waiters.append(node)
    return .wait
  }

  /// A caller wants permits now or not at all.
  mutating func tryAcquire(_ count: Int) -> Bool {
    guard waiters.isEmpty, count <= available else { return false }
    available -= count
    return true
  }

  /// There are more permits, or fewer. Returns the waiters that have got theirs.
  mutating func changePermits(by difference: Int) -> ClaimedWaiters {
    let (sum, isTooMuch) = available.addingReportingOverflow(difference)
    require(!isTooMuch, "a Semaphore can't have more than Int.max permits")
    available = sum
    return grant()
  }

  /// Permits come back. Returns the waiters that have got theirs.
  mutating func release(_ count: Int) -> ClaimedWaiters {
    changePermits(by: count)
  }

  /// A waiter gives up: those behind it may have waited only for it.
  mutating func withdraw(_ node: Node) -> ClaimedWaiters {
    waiters.remove(node)
    return grant()
  }

  /// Gives permits to the longest waiters, as far as they go.
  private mutating func grant() -> ClaimedWaiters {
    var granted = ClaimedWaiters()
    while let node = waiters.first, node.pointee.count <= available {
      waiters.remove(node)
      // One that has given up meanwhile is only taken out.
      guard node.pointee.wait.waiter.claim(node.pointee.wait.cause) else { continue }
      available -= node.pointee.count
      granted.append(node)
    }
    return granted
  }
}

/// A waiter for permits.
struct SemaphoreNode: WaitingNode {
  var wait: WaitNode
  let count: Int
}
