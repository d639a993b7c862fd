// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import CCoroutineSystem
import Context
import Coroutine
import CoroutineLibc
import Synchronization

/// The thread that looks for deadlocks again and again.
final class DeadlockDetectorThread: Sendable {
  static let shared = DeadlockDetectorThread()

  private struct Settings {
    var interval: Duration
    var handler: @Sendable (DeadlockReport) -> Void
  }

  private let lock = Lock()
  // Guarded by the lock, all three. No settings: it is to end.
  nonisolated(unsafe) private var settings: Settings?
  nonisolated(unsafe) private var hasThread = false
  /// `Fork.count` when the thread began: in a child it is not there.
  nonisolated(unsafe) private var startedIn: UInt32 = 0
  /// 1: the settings have changed. What the thread sleeps on.
  private let rung = Atomic<UInt32>(0)

  func start(
    every interval: Duration, _ handler: @escaping @Sendable (DeadlockReport) -> Void
  ) throws(CoroutineDumpError) {
    // The old ones are released after the unlock: what the handler captured may run code of the user's when it goes.
    let old = exchange(Settings(interval: interval, handler: handler))
    defer { withExtendedLifetime(old) {} }
    let mustStart = lock.withLock {
      defer { (hasThread, startedIn) = (true, Fork.count) }
      return !hasThread || startedIn != Fork.count
    }
    guard mustStart else { return }
    let code = coroutine_system_start_thread({ _ in DeadlockDetectorThread.shared.run() }, nil)
    guard code == 0 else {
      lock.withLock { hasThread = false }
      throw CoroutineDumpError(operation: "a thread that looks for deadlocks", code: code)
    }
  }

  func stop() {
    let old = exchange(nil)
    withExtendedLifetime(old) {}
  }

  private func exchange(_ new: Settings?) -> Settings? {
    var settings = new
    lock.withLock { swap(&settings, &self.settings) }
    rung.store(1, ordering: .releasing)  // litmus: parker-work
    Futex.wake(1, on: rung)
    return settings
  }

  // MARK: The thread

  private func run() -> UnsafeMutableRawPointer? {
    coroutine_system_name_thread("coroutine-debug")
    surviveBrokenPipes()
    var known = Known()
    while let settings = current() {
      for report in known.news() { settings.handler(report) }
      // The first millisecond of a look does no harm, unless the user has asked for a short interval: then it counts as
      // asked for.
      sleep(for: max(settings.interval, (known.lookDuration - .milliseconds(1)) * 100))
    }
    return nil
  }

  /// What it is to do; `nil`: to end.
  private func current() -> Settings? {
    lock.withLock {
      if settings == nil { hasThread = false }
      return settings
    }
  }

  private func sleep(for duration: Duration) {
    while rung.exchange(0, ordering: .acquiring) == 0 {  // litmus: parker-work
      guard Futex.wait(on: rung, while: 0, for: duration) else { return }
    }
  }

  /// What was reported, and lasts.
  private struct Known {
    private var faults: Set<DeadlockSearch.Identity> = []
    /// Those in a cycle, or waiting for one.
    private var stuck: Set<UInt64> = []
    /// Of the standstill, if there is one.
    private var standstill: Set<UInt64> = []
    /// How much of a processor's time the last look took. (Not how long: on a busy machine that says little.)
    private(set) var lookDuration = Duration.zero
    private var standing = Standstill()

    /// What has come up since the last time. Where it can't look, for lack of a system call, nothing.
    mutating func news() -> [DeadlockReport] {
      lookDuration = .zero
      guard Inspection.liveCount > 0 else { return [] }
      let start = clock()
      // First: in a process that stands still what is found after that is all that there will be.
      let isStill = standing.look()
      guard let found = try? DeadlockSearch.findings() else { return [] }
      lookDuration = clock() - start
      var news: [DeadlockReport] = []
      let identities = Set(found.map(\.identity))
      if identities.isSubset(of: faults) {
        forget(allBut: identities)
      } else if let reports = try? DeadlockSearch.reports() {
        news = reports.filter { !faults.contains($0.identity) }.map(\.report)
        // This look counts.
        let identities = Set(reports.map(\.identity))
        forget(allBut: identities)
        faults.formUnion(identities)
      }
      stuck = Set(found.flatMap { $0.identity.kind == .cycle ? $0.cycle.members + $0.cycle.waiting : [] })
      return news + newStandstill(isStill)
    }

    /// A cycle that is not seen any more is new if it comes again. A coroutine that runs inside an initialiser is not seen meanwhile: it
    /// is known for good, and its number is no other one's.
    private mutating func forget(allBut seen: Set<DeadlockSearch.Identity>) {
      faults = faults.filter { $0.kind == .initialiser || seen.contains($0) }
    }

    private func clock() -> Duration {
      var time = timespec()
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
      return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    private mutating func newStandstill(_ isStill: Bool) -> [DeadlockReport] {
      guard isStill, let ids = try? DeadlockSearch.allIDs(except: stuck.contains) else {
        standstill = []
        return []
      }
      if ids.isSubset(of: standstill) {
        standstill = ids
        return []
      }
      // Without the memory for it the next look tries again.
      guard let left = try? DeadlockSearch.all(except: stuck.contains) else { return [] }
      standstill = ids
      return [DeadlockReport(kind: .standstill, coroutines: left)]
    }
  }
}
