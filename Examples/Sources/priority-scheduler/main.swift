// A scheduler by priority: of the coroutines that are ready the most important one runs first. It shows what a scheduler of
// one's own sees of them. (ThreadPool runs all in the order in which they become ready, whatever their priority.)

import Coroutine
import Dispatch
import Glibc

/// One thread, that which makes it, and a line for each level of priority.
final class PriorityScheduler: Scheduler {
  private let lines = [TaskPriority.high, .medium, .low].map { (least: $0, ready: CoroutineJobQueue()) }
  private let readyCount = DispatchSemaphore(value: 0)
  private let thread = pthread_self()

  /// From any thread.
  func enqueue(_ job: consuming CoroutineJob) {
    let priority = job.priority ?? .medium
    let line = lines.first { priority >= $0.least } ?? lines[lines.count - 1]
    // The thread is told of each one, so it need not be told that the line was empty.
    _ = line.ready.append(job)
    readyCount.signal()
  }

  /// Runs what is ready until all of these have ended.
  func run(until coroutines: [Coroutine<Void, Never>]) {
    while !coroutines.allSatisfy(\.isFinished) {
      readyCount.wait()
      runFirst()
    }
  }

  /// One turn: until that coroutine suspends or ends. After it the most important one may be another.
  private func runFirst() {
    if let line = lines.first(where: { !$0.ready.isEmpty }) { _ = line.ready.run(limit: 1) }
  }

  var isCurrent: Bool { pthread_equal(thread, pthread_self()) != 0 }
  var isSerial: Bool { true }
}

let scheduler = PriorityScheduler()

/// Two steps with the given priority.
func start(_ name: String, _ priority: TaskPriority) -> Coroutine<Void, Never> {
  Coroutine(on: scheduler, priority: priority, name: name) {
    for step in 1...2 {
      print("\(name) \(step)")
      Coroutine.yield()
    }
  }
}

let jobs = [start("report", .low), start("page", .medium), start("index", .background)]
// Started last, it runs first.
let alarm = start("alarm", .high)
scheduler.run(until: jobs + [alarm])
