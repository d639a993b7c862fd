// SPDX-License-Identifier: Apache-2.0

#if Observability
  import Context
  public import Coroutine
  public import CoreMetrics
  import Synchronization

  /// What the coroutines of the process do, in numbers for swift-metrics.
  ///
  /// ```swift
  /// let metrics = CoroutineMetrics()
  /// CoroutineObservation.install(metrics)
  /// Coroutine(name: "metrics") {
  ///   while true {
  ///     try Coroutine.sleep(for: .seconds(10))
  ///     try metrics.report()
  ///   }
  /// }
  /// ```
  ///
  /// | name | kind | |
  /// |---|---|---|
  /// | `coroutine.created`, `coroutine.finished`, `coroutine.failed` | counter | coroutines; those that threw are in both |
  /// | `coroutine.switches` | counter | turns: how often one was resumed |
  /// | `coroutine.suspensions`, by `reason` | counter | how often one began to wait, for a `SuspensionReason` |
  /// | `coroutine.steals` | counter | how often a thread of a pool took one over from another |
  /// | `coroutine.queue_time` | timer | from ready to running |
  /// | `coroutine.live` | gauge | created and not ended |
  /// | `coroutine.new`, `coroutine.ready`, `coroutine.running` | gauge | not begun; waiting for a thread; on one |
  /// | `coroutine.suspended`, by `reason` | gauge | waiting now |
  /// | `coroutine.stacks`, `coroutine.timers` | gauge | stacks in use, pending deadlines |
  /// | `coroutine.thread_sleeps` | counter | how often a thread of a pool fell asleep |
  ///
  /// Counters count from the installation on. Only queue times are handed on as they happen, on the thread that runs the
  /// coroutine: the metrics backend has to be quick there. All else is counted here, and handed on by `report`.
  public final class CoroutineMetrics: CoroutineObserver {
    private let created, finished, failed, switches, steals, threadSleeps: CountedEvents
    private let suspensions: [SuspensionReason: CountedEvents]
    private let queueTime: Timer
    private let live, new, ready, running, stacks, timers: Gauge
    private let suspended: [SuspensionReason: Gauge]
    private let lock = Lock()
    private let sleepsBefore = Atomic<Int>(Coroutine.counters.threadSleeps)

    /// - Parameters:
    ///   - prefix: of all names.
    ///   - factory: the backend; the one of the process by default.
    public init(prefix: String = "coroutine", factory: any MetricsFactory = MetricsSystem.factory) {
      func counter(_ name: String, _ dimensions: [(String, String)] = []) -> CountedEvents {
        CountedEvents(Counter(label: "\(prefix).\(name)", dimensions: dimensions, factory: factory))
      }
      func gauge(_ name: String, _ dimensions: [(String, String)] = []) -> Gauge {
        Gauge(label: "\(prefix).\(name)", dimensions: dimensions, factory: factory)
      }
      (created, finished, failed) = (counter("created"), counter("finished"), counter("failed"))
      (switches, steals, threadSleeps) = (counter("switches"), counter("steals"), counter("thread_sleeps"))
      let reasons = SuspensionReason.allCases
      suspensions = .init(
        uniqueKeysWithValues: reasons.map { ($0, counter("suspensions", [("reason", $0.rawValue)])) })
      queueTime = Timer(label: "\(prefix).queue_time", dimensions: [], factory: factory)
      (live, new, ready, running) = (gauge("live"), gauge("new"), gauge("ready"), gauge("running"))
      (stacks, timers) = (gauge("stacks"), gauge("timers"))
      suspended = .init(uniqueKeysWithValues: reasons.map { ($0, gauge("suspended", [("reason", $0.rawValue)])) })
    }

    public func observe(_ event: borrowing CoroutineEvent) {
      switch event.kind {
      case .created: created.add()
      case .ready: break
      case .resumed(let queued):
        switches.add()
        if let queued { queueTime.recordNanoseconds(Int64(clamping: queued)) }
      case .suspended(let reason): suspensions[reason]?.add()
      case .finished:
        finished.add()
        if event.failure != nil { failed.add() }
      case .stolen: steals.add()
      }
    }

    /// Hands on the counts since the last time, and the number of coroutines in each state now: for that, it takes a
    /// `CoroutineCensus`. Callable from any thread, but not by an observer.
    ///
    /// - Throws: what `CoroutineCensus.take()` throws; all but the states is handed on nevertheless.
    public func report() throws {
      // Without the lock from here on: the metrics are a library's, which may suspend.
      threadSleeps.add(
        lock.withLock {
          let sleeps = Coroutine.counters.threadSleeps
          return sleeps - sleepsBefore.exchange(sleeps, ordering: .relaxed)
        })
      for counter in [created, finished, failed, switches, steals, threadSleeps] + suspensions.values {
        counter.report()
      }
      let statistics = Coroutine.statistics
      live.record(statistics.liveCoroutines)
      stacks.record(statistics.stacksInUse)
      timers.record(statistics.pendingTimers)
      let census = try CoroutineCensus.take()
      new.record(census.new)
      ready.record(census.ready)
      running.record(census.running)
      for (reason, gauge) in suspended { gauge.record(census.suspended[reason, default: 0]) }
    }
  }

  /// Counted on threads that are in a hurry, handed on by one that is not.
  private final class CountedEvents: Sendable {
    private let counter: Counter
    private let count = Atomic<Int>(0)

    init(_ counter: Counter) { self.counter = counter }

    func add(_ number: Int = 1) { count.wrappingAdd(number, ordering: .relaxed) }

    func report() {
      let number = count.exchange(0, ordering: .relaxed)
      if number > 0 { counter.increment(by: number) }
    }
  }
#endif
