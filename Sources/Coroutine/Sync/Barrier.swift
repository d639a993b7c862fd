// SPDX-License-Identifier: Apache-2.0

/// A place where a fixed number of parties wait for each other, again and again.
///
/// ```swift
/// let step = Barrier(parties: 4, name: "step")
/// for part in parts {          // four of them
///   Coroutine {
///     for _ in 1...100 {
///       part.compute()
///       if try step.wait() { swapBuffers() }      // one of the four
///       try step.wait()
///     }
///   }
/// }
/// ```
///
/// Constant time, except that the last one wakes the others, and passes by those that were cancelled. Copies are the same barrier.
public struct Barrier: Sendable {
  private let storage: BarrierStorage

  /// A barrier that lets `parties` on at a time.
  ///
  /// - Parameters:
  ///   - parties: at least 1: traps otherwise.
  ///   - name: for backtraces and messages.
  public init(parties: Int, name: String = "") {
    require(parties > 0, "a Barrier of \(parties) parties can't let any of them on: give it one or more")
    storage = BarrierStorage(parties: parties, name: name)
  }

  /// The name it was given; empty without one.
  public var name: String { storage.name }

  /// Suspends the calling coroutine until all parties have arrived, itself included. Then they go on, all at once, and
  /// the next round begins.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait, so that only the last to arrive goes
  ///   on; `nil`: without a limit.
  /// - Returns: whether it was the last to arrive: true for one of each round.
  /// - Throws: `CancellationError`, `TimeoutError` if the caller is cancelled or the time was up before. Then it does
  ///   not count as arrived: the others wait for another arrival in its place. (Unless the last one arrived at the same
  ///   moment: then they go on.)
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @discardableResult
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func wait(timeout: Duration? = nil) throws -> Bool {
    try storage.wait(timeout: timeout)
  }

  /// Suspends the calling task until all parties have arrived, itself included. Then they go on, all at once, and the next
  /// round begins.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait, so that only the last to arrive goes
  ///   on; `nil`: without a limit.
  /// - Returns: whether it was the last to arrive: true for one of each round.
  /// - Throws: `CancellationError`, `TimeoutError` if the task is cancelled or the time was up before. Then it does
  ///   not count as arrived: the others wait for another arrival in its place. (Unless the last one arrived at the same
  ///   moment: then they go on.)
  @discardableResult
  nonisolated(nonsending) public func wait(timeout: Duration? = nil) async throws -> Bool {
    try await storage.wait(timeout: timeout)
  }
}
