import CCoroutine
import Context
import CoroutineTestSupport
import Foundation
import Testing

@testable import Coroutine

/// The pool as an executor of `async` code.
@Suite(.ownThreads, .timeLimit(.minutes(30))) struct TaskExecutorTests {
  /// Whether the caller is inside a coroutine, or on the stack of one.
  private static func isOnACoroutinesStack() -> Bool {
    Coroutine.currentID != nil || StackPool.liveStack(containing: UInt(bitPattern: coroutine_frame_address())) != nil
  }

  @Test(arguments: [1, 3])
  func jobsRunOnThePoolsThreadsAndOnNoCoroutinesStack(threads: Int) async throws {
    let pool = ThreadPool(threads: threads)
    try await withTaskExecutorPreference(pool) {
      #expect(pool.isCurrent)
      #expect(!Self.isOnACoroutinesStack())
      await withTaskGroup(of: Bool.self) { group in
        for _ in 0..<200 {
          group.addTask {
            await Task.yield()
            return pool.isCurrent && !Self.isOnACoroutinesStack()
          }
        }
        for await isRight in group { #expect(isRight) }
      }
      // A coroutine of the same pool, which needs the thread that this job runs on.
      let inside = try await Coroutine(on: pool) { pool.isCurrent && Self.isOnACoroutinesStack() }.get()
      #expect(inside)
      #expect(pool.isCurrent)
    }
    #expect(!pool.isCurrent)
  }

  @Test func aTaskStartedInsideACoroutineRunsOutsideOfIt() async throws {
    let pool = ThreadPool(threads: 1)
    let task = try await Coroutine(on: pool) {
      Task(executorPreference: pool) { pool.isCurrent && !Self.isOnACoroutinesStack() }
    }.get()
    #expect(await task.value)
  }

  @Test func jobsRunInTheOrderInWhichTheyCameWhateverTheirPriority() async throws {
    let pool = ThreadPool(threads: 1)
    let log = Log()
    let gate = DispatchSemaphore(value: 0)
    let first = Coroutine(on: pool) { gate.wait() }
    let tasks = [TaskPriority.low, .high, .medium].map { (priority: TaskPriority) in
      Task(executorPreference: pool, priority: priority) { log.add("\(priority)") }
    }
    gate.signal()
    for task in tasks { await task.value }
    try await first.get()
    #expect(log.all == ["\(TaskPriority.low)", "\(TaskPriority.high)", "\(TaskPriority.medium)"])
  }

  /// The body of a timeout stays where it was, unless it belongs to an actor.
  @Test func aTimeoutOfAsyncCodeStaysOnThePool() async throws {
    @MainActor final class Model {
      var isElsewhere = false
      nonisolated init() {}
      func load(_ pool: ThreadPool) async throws {
        try await withTimeout(.seconds(1_000)) {
          MainActor.assertIsolated()
          isElsewhere = !pool.isCurrent
        }
      }
    }
    let pool = ThreadPool(threads: 2)
    let model = Model()
    try await withTaskExecutorPreference(pool) {
      let isThere = try await withTimeout(.seconds(1_000)) {
        await Task.yield()
        return pool.isCurrent
      }
      #expect(isThere)
      let isThereToo = try await withTimeout(until: .now + .seconds(1_000), clock: .continuous) {
        try await withTimeout(.seconds(1_000)) { pool.isCurrent }
      }
      #expect(isThereToo)
      try await model.load(pool)
      #expect(pool.isCurrent)
    }
    #expect(await model.isElsewhere)
    let isStillThere = try await withTimeout(.seconds(1_000)) { pool.isCurrent }
    #expect(!isStillThere)
  }

  @Test func jobsAndCoroutinesTakeTurns() async throws {
    let pool = ThreadPool(threads: 1)
    let isOver = Guarded(false)
    let busy = Coroutine(on: pool) {
      while !isOver.withLock({ $0 }) { Coroutine.yield() }
    }
    await Task(executorPreference: pool) {
      await Task.yield()
      isOver.withLock { $0 = true }
    }.value
    try await busy.get()
    // The other way round: jobs without end, until a coroutine has run.
    isOver.withLock { $0 = false }
    let jobs = Task(executorPreference: pool) {
      while !isOver.withLock({ $0 }) { await Task.yield() }
    }
    try await Coroutine(on: pool) { isOver.withLock { $0 = true } }.get()
    await jobs.value
  }
}
