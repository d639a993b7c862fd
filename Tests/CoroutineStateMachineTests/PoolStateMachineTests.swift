import CoroutineTestSupport
import Glibc
import Synchronization
import Testing

@testable import Coroutine

/// Which workers sleep, search and monitor, in every sequence of events up to a length.
@Suite(.ownThreads) struct PoolStateMachineTests {
  /// What a worker does, as the pool's threads would know it.
  private enum Activity: Equatable { case asleep, busy, searching, monitoring }

  /// A pool of three workers, driven by arbitrary events. An event that the pool's threads could not cause is
  /// skipped.
  private struct Model {
    var machine = PoolStateMachine(count: 3)
    var workers = [Activity](repeating: .asleep, count: 3)
    /// Whether an event has woken a worker to work, and none to monitor.
    var mayLackMonitor = false

    mutating func woken(_ index: Int?) {
      guard let index else { return }
      #expect(workers[index] == .asleep || workers[index] == .monitoring, "only a worker that rests is woken")
      workers[index] = .searching
    }

    mutating func step(_ event: Int, by worker: Int) {
      switch (event, workers[worker]) {
      case (0, _):
        let parkedBefore = workers.filter { $0 == .asleep || $0 == .monitoring }
        let searchedBefore = workers.contains(.searching)
        woken(machine.workArrived(isOwn: false))
        let isWoken = workers.contains(.searching)
        #expect(isWoken || parkedBefore.isEmpty, "work from outside always gets a worker")
        #expect(!searchedBefore || parkedBefore == workers.filter { $0 == .asleep || $0 == .monitoring })
      case (4, .busy):
        let pauses = machine.sharingPauses
        let index = machine.workArrived()
        #expect(index == nil || !pauses, "no worker is woken for work that a worker will find")
        woken(index)
      case (1, .busy):
        if machine.beginSearch() { workers[worker] = .searching } else { park(worker) }
      case (5, .busy):
        park(worker, pausesSharing: true)
      case (2, .searching):
        workers[worker] = .busy
        woken(machine.endSearch(moreIsLeft: false))
      case (3, .searching):
        workers[worker] = .busy
        woken(machine.endSearch(moreIsLeft: true))
      case (1, .searching):
        park(worker)
      case (2, .monitoring):
        expect(machine.endMonitoring(worker), true)
        workers[worker] = .busy
        woken(machine.workArrived())
      case (3, .monitoring):
        switch machine.monitorLooked(worker) {
        case .goOn: break
        case .sleep: workers[worker] = .asleep
        case .isOver, .search: Issue.record("no event woke it")
        }
        #expect(!machine.sharingPauses && !machine.monitorsRarely, "a pause ends with the monitor's look")
      case (5, .monitoring):
        // All that are awake stand still.
        if case .sleep = machine.monitorLooked(worker, standsStill: true) { workers[worker] = .asleep }
      case (3, .busy):
        // It leaves something to the monitor.
        let isRare = machine.monitorsRarely
        let index = machine.unparkMonitor()
        #expect((index != nil) == isRare && !machine.monitorsRarely, "who looks rarely is unparked")
        woken(index)
      case (4, .monitoring):
        guard case .search = machine.monitorLooked(worker, thereIsMore: true) else {
          Issue.record("it was to search")
          break
        }
        workers[worker] = .searching
      case (6, .asleep), (6, .monitoring):
        // The worker has slept in the poller, which has woken coroutines.
        expect(machine.wakeByItself(worker), true)
        workers[worker] = .busy
        mayLackMonitor = true
      case (6, .busy), (6, .searching):
        expect(machine.wakeByItself(worker), false)
      case (7, _):
        // The poller's thread sees that the workers compute for long.
        let lacked = machine.lacksMonitor
        if lacked { woken(machine.workArrived(isOwn: false)) }
        #expect(!machine.lacksMonitor)
      default:
        break
      }
      if !machine.lacksMonitor { mayLackMonitor = false }
    }

    mutating func park(_ worker: Int, pausesSharing: Bool = false) {
      switch machine.park(worker, wasSearching: workers[worker] == .searching, pausesSharing: pausesSharing) {
      case .sleep: workers[worker] = .asleep
      case .monitor: workers[worker] = .monitoring
      }
    }

    func check(_ history: @autoclosure () -> [Int]) {
      let awake = workers.count { $0 == .busy || $0 == .searching }
      let searching = workers.count { $0 == .searching }
      let monitoring = workers.indices.filter { workers[$0] == .monitoring }
      let isRight =
        machine.awake == awake && machine.searching == searching && machine.monitor == monitoring.first
        && monitoring.count <= 1 && machine.checkInvariants()
        && Set(machine.sleeping) == Set(workers.indices.filter { workers[$0] == .asleep })
        // If one worker works and another one sleeps, then one searches or monitors.
        && (awake == 0 || awake == 3 || searching > 0 || !monitoring.isEmpty || mayLackMonitor && machine.lacksMonitor)
      if !isRight { Issue.record("\(workers) after \(history())") }
    }
  }

  @Test func anotherWorkerMonitorsForOneThatRests() {
    let events = 24  // eight, by three workers
    func extend(_ model: Model, _ history: [Int]) {
      guard history.count < 5 else { return }
      for event in 0..<events {
        var next = model
        next.step(event / 3, by: event % 3)
        next.check(history + [event])
        if next.workers != model.workers || next.mayLackMonitor != model.mayLackMonitor
          || next.machine.sharingPauses != model.machine.sharingPauses
          || next.machine.monitorsRarely != model.machine.monitorsRarely
        {
          extend(next, history + [event])
        }
      }
    }
    extend(Model(), [])
  }

  @Test func theMonitorIsChosenLastAndNotTwice() {
    var machine = PoolStateMachine(count: 3)
    expect(machine.workArrived(), 0)
    expect(machine.workArrived(), nil)  // one searches already
    expect(machine.endSearch(moreIsLeft: false), 1)  // so that it monitors
    expect(machine.park(1, wasSearching: true), .monitor)
    expect(machine.workArrived(), 2)
    expect(machine.endSearch(moreIsLeft: false), nil)  // another one monitors already
    expect(machine.workArrived(), 1)
    expect(machine.monitorLooked(1), .isOver)
    expect(machine.endMonitoring(1), false)
    expect(machine.endSearch(moreIsLeft: true), nil)  // all are awake
  }

  @Test func whileSharingPausesOnlyWorkFromOutsideWakesAWorker() {
    var machine = PoolStateMachine(count: 3)
    expect(machine.workArrived(), 0)
    expect(machine.endSearch(moreIsLeft: false), 1)
    expect(machine.park(1, wasSearching: true, pausesSharing: true), .monitor)
    expect(machine.wantsWork, false)
    expect(machine.workArrived(), nil)
    expect(machine.workArrived(isOwn: false), 2)
    expect(machine.endSearch(moreIsLeft: true), nil)  // the pause goes on
    expect(machine.monitorLooked(1), .goOn)  // and is over
    expect(machine.workArrived(), 1)
    expect(machine.endSearch(moreIsLeft: false), nil)
    expect(machine.park(1, wasSearching: false), .monitor)
    expect(machine.park(2, wasSearching: false, pausesSharing: true), .sleep)  // another one monitors
    expect(machine.workArrived(), nil)
    expect(machine.monitorLooked(1, thereIsMore: true), .search)
    expect(machine.endSearch(moreIsLeft: false), 2)
    expect(machine.park(2, wasSearching: true, pausesSharing: true), .monitor)
    expect(machine.park(1, wasSearching: false), .sleep)
    expect(machine.workArrived(isOwn: false), 1)
    expect(machine.endSearch(moreIsLeft: true, isOwn: false), 2)  // what is left came from outside
  }

  @Test func theMonitorLooksRarelyWhileAllStandStillOnly() {
    var pace = MonitorPace()
    // Worker 1 is the monitor itself.
    var (picks, times) = ([UInt32](repeating: 7, count: 3), [UInt64?]([100, nil, 200]))
    var asked: [Int] = []
    func look() -> Bool {
      asked = []
      return pace.looked(picks: picks) {
        asked.append($0)
        return times[$0]
      }
    }
    for microseconds in [100, 200, 400, 500] {
      #expect(!look() && pace.tick == .microseconds(microseconds) && asked.isEmpty, "brisk at first")
    }
    #expect(!look() && asked.isEmpty, "there is no look to compare with")
    #expect(!look() && asked == [0, 1, 2])
    #expect(look() && pace.tick == .microseconds(500), "the workers learn of it first")
    for milliseconds in [1, 2, 4, 8, 16, 32, 64, 100, 100] {
      #expect(look() && pace.tick == .milliseconds(milliseconds))
    }
    times[2] = 201  // one computes
    #expect(!look() && pace.tick == MonitorPace.longest && asked == [0, 1, 2])
    times[2] = 202
    #expect(!look() && asked == [2], "the one that moves is asked first")
    #expect(look() && pace.tick == MonitorPace.longest && asked == [2, 0, 1])
    #expect(look() && pace.tick == .milliseconds(1))
    picks[0] += 1  // one goes on to the next coroutine
    #expect(!look() && pace.tick == MonitorPace.longest && asked.isEmpty)
    #expect(!look() && asked == [0, 1, 2])
    times[0] = nil  // another thread becomes the worker
    #expect(!look())
    #expect(look())
  }

  @Test func helpIsInVainIfItIsShortAndItsTurnsAre() {
    var record = StealBackoff()
    func isInVain(time: UInt64, taken: Int = 1, turns: UInt32) -> Bool {
      record.begin(at: 1_000_000, picks: .max, taken: taken)
      return record.end(at: 1_000_000 + time, picks: turns &- 1)
    }
    #expect(record.end(at: 1_000_000_000, picks: 1) == false, "a worker that never helped is not asked to pause")
    #expect(isInVain(time: 100, turns: 1))
    #expect(record.pause == StealBackoff.shortestPause)
    #expect(isInVain(time: StealBackoff.shortTurn * 10 - 1, turns: 10))
    #expect(record.pause == 2 * StealBackoff.shortestPause, "longer each time")
    for _ in 0..<10 { #expect(isInVain(time: 100, turns: 1)) }
    #expect(record.pause == StealBackoff.longestPause)
    #expect(!isInVain(time: StealBackoff.shortTurn * 10, turns: 10), "long turns")
    #expect(record.pause == 0)
    #expect(!isInVain(time: StealBackoff.shortSteal, taken: 100, turns: 200), "they made others")
    #expect(isInVain(time: StealBackoff.shortSteal, taken: 100, turns: 199), "many that are short")
    #expect(record.pause == StealBackoff.shortestPause)
  }

  @Test func theLastMonitorSleepsToo() {
    var machine = PoolStateMachine(count: 2)
    expect(machine.workArrived(), 0)
    expect(machine.endSearch(moreIsLeft: false), 1)
    expect(machine.park(1, wasSearching: true), .monitor)
    expect(machine.monitorLooked(1), .goOn)
    expect(machine.park(0, wasSearching: false), .sleep)
    expect(machine.monitorLooked(1), .sleep)
    expect(machine.wantsWork, true)
    expect(machine.wakeAll(), [0, 1])
  }

  @Test func aRingGivesEachElementToOneOnly() {
    let ring = WorkRing()
    let others = WorkRing()
    func element(_ number: Int) -> WorkRing.Element { .fromOpaque(UnsafeRawPointer(bitPattern: number * 16)!) }
    func number(_ element: WorkRing.Element?) -> Int? { element.map { Int(bitPattern: $0.toOpaque()) / 16 } }
    for number in 1...256 { expect(ring.push(element(number)), true) }
    expect(ring.push(element(257)), false)
    expect(number(ring.pop()), 1)
    // The older half, rounded up, of 255.
    expect(number(ring.steal(into: others)), 2)
    expect(others.count, 127)
    expect(ring.count, 127)
    expect(number(others.pop()), 3)
    expect(number(ring.pop()), 130)
    while ring.pop() != nil {}
    expect(ring.isEmpty, true)
    expect(number(ring.steal(into: others)), nil)
  }

  @Test func thievesAndOwnerShareARing() {
    // One of the four threads takes each number that the owner pushes. They are threads, not tasks: a thief never gives
    // up its thread, and with as few processors as thieves the owner would not get one.
    let count = 50_000
    let ring = Holder(WorkRing())
    let isDone = Holder(Atomic<Bool>(false))
    @Sendable func number(_ element: WorkRing.Element) -> Int { Int(bitPattern: element.toOpaque()) / 16 }
    let thieves = (0..<3).map { _ in
      PlainThread { () -> [Int] in
        let own = WorkRing()
        var mine: [Int] = []
        while true {
          let wasDone = isDone.value.load(ordering: .acquiring)
          if let first = ring.value.steal(into: own) {
            mine.append(number(first))
            while let next = own.pop() { mine.append(number(next)) }
          } else if wasDone {
            return mine
          } else {
            sched_yield()
          }
        }
      }
    }
    let owner = PlainThread { () -> [Int] in
      var mine: [Int] = []
      for value in 1...count {
        while !ring.value.push(.fromOpaque(UnsafeRawPointer(bitPattern: value * 16)!)) {
          if let first = ring.value.pop() { mine.append(number(first)) }
        }
        if value % 3 == 0, let first = ring.value.pop() { mine.append(number(first)) }
      }
      isDone.value.store(true, ordering: .releasing)
      return mine
    }
    let all = owner.join() + thieves.flatMap { $0.join() }
    #expect(all.count == count)
    #expect(Set(all).count == count)
  }
}

/// `#expect` can't call what mutates, nor what can't be copied.
private func expect<Value: Equatable>(
  _ value: Value, _ expected: Value, sourceLocation: SourceLocation = #_sourceLocation
) {
  #expect(value == expected, sourceLocation: sourceLocation)
}
