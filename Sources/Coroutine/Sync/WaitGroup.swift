// SPDX-License-Identifier: Apache-2.0

import Context
import Synchronization

/// A count of things to be done, and a way to wait until it is zero.
///
/// ```swift
/// let group = WaitGroup(count: files.count)
/// for file in files {
///   Coroutine {
///     defer { group.done() }
///     index(file)
///   }
/// }
/// try group.wait()
/// ```
///
/// For coroutines that belong together, `withScope` does more: it cancels them, and learns of their errors. A group
/// serves where the things to be done are not coroutines, or belong to other code: a callback, a queue. With a count
/// that only ever goes down it is what others call a latch.
///
/// A coroutine that is cancelled before it begins runs nothing of its body, nor the `defer` in it: code that may cancel
/// one joins it instead, or takes the count down for it.
///
/// It may be used again when the count has been zero. All operations take constant time, plus the time to wake waiters.
/// Copies are the same group.
public struct WaitGroup: Sendable {
  let storage: WaitGroupStorage

  /// A group with this many things to be done.
  ///
  /// - Parameters:
  ///   - count: not negative: traps.
  ///   - name: for backtraces and messages.
  public init(count: Int = 0, name: String = "") {
    require(count >= 0, "a WaitGroup can't begin with a count of \(count): give it zero or more")
    storage = WaitGroupStorage(count: count, name: name)
  }

  /// The name it was given; empty without one.
  public var name: String { storage.name }

  /// How many things are to be done, at this moment. From any thread.
  public var count: Int { storage.count }

  /// There is more to be done. Callable from any thread.
  ///
  /// Before the thing begins, and not by itself: else a `wait` in between finds the count at zero.
  ///
  /// - Parameter count: not negative, nor more than there can be (`Int.max` in all): traps.
  public func add(_ count: Int = 1) {
    require(count >= 0, "\(count) things added to \(named("wait group", name)): use done() for what is done")
    storage.change(by: count)
  }

  /// A thing is done; the last one lets all that wait go on. Callable from any thread.
  ///
  /// - Precondition: there was one to be done: traps otherwise.
  public func done() {
    storage.change(by: -1)
  }

  /// Suspends the calling coroutine until the count is zero; not at all if it is.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: not at all; `nil`: for ever.
  /// - Throws: `CancellationError`, `TimeoutError` if the caller is cancelled or the time was up before.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func wait(timeout: Duration? = nil) throws {
    try storage.wait(timeout: timeout)
  }

  /// Suspends the calling task until the count is zero; not at all if it is.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: not at all; `nil`: for ever.
  /// - Throws: `CancellationError`, `TimeoutError` if the task is cancelled or the time was up before.
  nonisolated(nonsending) public func wait(timeout: Duration? = nil) async throws {
    try await storage.wait(timeout: timeout)
  }

  /// Blocks the calling thread until the count is zero: for plain threads and `main`.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait at most; zero or less: not at all; `nil`: for ever.
  ///   - file: the caller's, for messages.
  ///   - line: the caller's, for messages.
  /// - Throws: `TimeoutError` if the time was up before.
  /// - Precondition: not called inside a coroutine, whose whole thread it would block: traps.
  @available(*, noasync, message: "use 'await wait()' in async code")
  public func waitBlocking(
    timeout: Duration? = nil, file: StaticString = #fileID, line: UInt = #line
  ) throws {
    try storage.waitBlocking(timeout: timeout, at: BlockingPlace("waitBlocking(timeout:)", file, line))
  }
}

// Unchecked: the name is constant, and the lock guards all else.
final class WaitGroupStorage: Waitable, @unchecked Sendable {
  let name: String
  @exclusivity(unchecked) private var machine: WaitGroupStateMachine
  /// The machine's count, for debuggers: written under the lock.
  private let published: Atomic<Int>

  init(count: Int, name: String) {
    self.name = name
    machine = WaitGroupStateMachine(count: count)
    published = Atomic(count)
  }

  func change(by difference: Int) {
    lock.lock()
    let woken = machine.change(by: difference)
    let count = machine.count
    published.store(count, ordering: .relaxed)
    lock.unlock()
    require(count >= 0, "done() was called more often than things were added to \(named("wait group", name))")
    woken.wakeAll()
  }

  var count: Int { published.load(ordering: .acquiring) }

  func wait(timeout: Duration?) throws {
    let core = CoroutineCore.running(for: "WaitGroup.wait()")
    _ = try wait(core, .group, timeout: timeout) {
      WaitNode($0)
    } attempt: {
      machine.wait($0)
    } withdraw: {
      machine.withdraw($0)
    }
  }

  nonisolated(nonsending) func wait(timeout: Duration?) async throws {
    _ = try await wait(timeout: timeout) {
      WaitNode($0)
    } attempt: {
      machine.wait($0)
    } withdraw: {
      machine.withdraw($0)
    }
  }

  func waitBlocking(timeout: Duration?, at place: BlockingPlace) throws {
    require(CoroutineCore.current == nil, "waitBlocking() inside a coroutine would block its whole thread: use wait()")
    let deadline = WaitDeadline.after(timeout)
    let thread = BlockedThread(at: place)
    var node = WaitNode(.thread(.passUnretained(thread)))
    let cause = withUnsafeMutablePointer(to: &node) { node in
      wait(thread, until: deadline) {
        machine.wait(node)
      } withdraw: {
        machine.withdraw(node)
      }
    }
    try cause.check(timeout)
  }

  // MARK: As a case of a select, with the lock

  var isDone: Bool { machine.count == 0 }

  func enqueue(_ node: UnsafeMutablePointer<WaitNode>) { _ = machine.wait(node) }

  func dequeue(_ node: UnsafeMutablePointer<WaitNode>) { _ = machine.withdraw(node) }

  override func describe(_ operation: WaitReason.Operation) -> String {
    WaitText.group(name, count: count)
  }
}

/// The number of things to be done, and the waiters. Pure: no lock, no switch.
///
/// Invariant: there are no waiters at zero. A negative count is a mistake, and final.
struct WaitGroupStateMachine {
  private(set) var count: Int
  private(set) var waiters = WaitQueue<WaitNode>()

  init(count: Int) {
    self.count = count
  }

  /// There is more to be done, or less. Returns the waiters whose wait is over.
  mutating func change(by difference: Int) -> ClaimedWaiters {
    let (sum, isTooMuch) = count.addingReportingOverflow(difference)
    require(!isTooMuch, "a WaitGroup can't count more than Int.max things")
    count = sum
    return count == 0 ? waiters.claimAll() : ClaimedWaiters()
  }

  /// A caller waits for zero.
  mutating func wait(_ node: UnsafeMutablePointer<WaitNode>) -> Attempt {
    if count == 0 { return .done }
    waiters.append(node)
    return .wait
  }

  /// A waiter gives up.
  mutating func withdraw(_ node: UnsafeMutablePointer<WaitNode>) -> Attempt {
    waiters.remove(node)
    return .done
  }
}
