import Foundation
public import Testing

/// Runs each test of a suite on a thread that it may block.
///
/// Swift's cooperative pool has as many threads as the machine has processors, and a synchronous test runs on one of
/// them. Such a test often blocks: in `getBlocking()`, in `runUntilComplete`, in a semaphore. Two of them block the whole
/// pool on a machine of two processors, and the `async` code that would let them go on never gets a thread.
///
/// So every suite has this trait (`make lint` looks for it). It gives the test a preferred executor, which has a
/// thread for each job that is ready. It lets only a few tests run at the same time.
public struct OwnThreadsTrait: SuiteTrait, TestTrait, TestScoping {
  public let isRecursive = true

  public func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    await TestSlots.shared.take()
    do {
      try await withTaskExecutorPreference(BlockableThreads.shared, operation: function)
    } catch {
      await TestSlots.shared.giveBack()
      throw error
    }
    await TestSlots.shared.giveBack()
  }
}

extension Trait where Self == OwnThreadsTrait {
  /// Runs each test on a thread that it may block.
  public static var ownThreads: Self { OwnThreadsTrait() }
}

/// How many tests run at the same time. Swift Testing begins all of them at once, and each that blocks takes a
/// thread.
private actor TestSlots {
  static let shared = TestSlots(free: max(4, 2 * ProcessInfo.processInfo.activeProcessorCount))

  private var free: Int
  private var waiters: [CheckedContinuation<Void, Never>] = []  // the oldest first

  init(free: Int) { self.free = free }

  func take() async {
    if free > 0 {
      free -= 1
    } else {
      await withCheckedContinuation { waiters.append($0) }
    }
  }

  /// Passes the slot to the oldest waiter, if there is one.
  func giveBack() {
    if waiters.isEmpty {
      free += 1
    } else {
      waiters.removeFirst().resume()
    }
  }
}

/// An executor with a thread for each job that is ready, so that a job that blocks holds up no other.
// Unchecked: `jobs` and `idle` are guarded by the condition's lock.
private final class BlockableThreads: TaskExecutor, @unchecked Sendable {
  static let shared = BlockableThreads()

  private let condition = NSCondition()
  private var jobs: [UnownedJob] = []
  private var idle = 0  // threads that wait and that no job in `jobs` counts on

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    condition.lock()
    defer { condition.unlock() }
    jobs.append(job)
    if idle > 0 {
      idle -= 1
      condition.signal()
    } else {
      let thread = Thread { self.run() }
      thread.stackSize = 8 << 20
      thread.start()
    }
  }

  /// Each job in the list has one thread that comes for it: a new one, or one that no longer counts as idle. So a
  /// thread that finds no job counts as idle, and may end.
  ///
  /// A thread ends soon. Foundation keeps a run loop for each thread that starts a process, and Swift allocates
  /// memory for a weak reference to it. LeakSanitizer takes that memory for a leak while the thread lives.
  private func run() {
    while true {
      condition.lock()
      while jobs.isEmpty {
        if !condition.wait(until: Date(timeIntervalSinceNow: 0.05)), jobs.isEmpty {
          idle -= 1
          condition.unlock()
          return
        }
      }
      let job = jobs.removeFirst()
      condition.unlock()
      job.runSynchronously(on: asUnownedTaskExecutor())
      condition.lock()
      idle += 1
      condition.unlock()
    }
  }
}
