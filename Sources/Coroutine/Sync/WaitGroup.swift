// SPDX-License-Identifier: Apache-2.0

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
  ///   - count: not negative: traps otherwise.
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
  /// - Parameter count: not negative, nor more than there can be (`Int.max` in all): traps otherwise.
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
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `CancellationError`, `TimeoutError` if the caller is cancelled or the time was up before.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func wait(timeout: Duration? = nil) throws {
    try storage.wait(timeout: timeout)
  }

  /// Suspends the calling task until the count is zero; not at all if it is.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `CancellationError`, `TimeoutError` if the task is cancelled or the time was up before.
  nonisolated(nonsending) public func wait(timeout: Duration? = nil) async throws {
    try await storage.wait(timeout: timeout)
  }

  /// Blocks the calling thread until the count is zero: for plain threads and `main`.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  ///   - file: the caller's, for messages.
  ///   - line: the caller's, for messages.
  /// - Throws: `TimeoutError` if the time was up before.
  /// - Precondition: not called inside a coroutine, whose whole thread it would block: traps otherwise.
  @available(*, noasync, message: "use 'await wait()' in async code")
  public func waitBlocking(
    timeout: Duration? = nil, file: StaticString = #fileID, line: UInt = #line
  ) throws {
    try storage.waitBlocking(timeout: timeout, at: BlockingCall("waitBlocking(timeout:)", file, line))
  }
}
