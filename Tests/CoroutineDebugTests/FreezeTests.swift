import Coroutine
import CoroutineDebug
import CoroutineTestSupport
import Dispatch
import Glibc
import Synchronization
import Testing

/// The size of what each coroutine keeps for debuggers.
@Test(.ownThreads) func beingListedTakesACoroutineNoMoreThan64Bytes() {
  // With the address of a slot, and the three slots that it takes at most.
  #expect(MemoryLayout<InspectionRecord>.stride + 4 * MemoryLayout<UInt>.stride <= 64)
}

/// Snapshots that are taken while other threads resume coroutines as fast as they can.
@Suite(.ownThreads) struct FreezeTests {
  /// Coroutines that wake each other without a pause, until they are told to stop.
  private final class WakingCoroutines: Sendable {
    static let size = 64
    /// What the coroutines' names begin with.
    let name: String
    private let ends = Atomic<Bool>(false)
    /// How many steps each coroutine has made.
    private let steps = (0..<size).map { _ in Counter() }

    init(name: String) {
      self.name = name
    }

    func steps(of index: Int) -> Int { steps[index].value }

    /// Starts the coroutines and waits until each has run. Returns a function that ends them.
    func start() -> () throws -> Void {
      let coroutines = (0..<Self.size).map { index in
        Coroutine(name: "\(name) \(index)") { [self] in
          while !ends.load(ordering: .relaxed) {
            steps[index].add()
            Coroutine.yield()
          }
        }
      }
      while (0..<Self.size).contains(where: { steps(of: $0) == 0 }) { sched_yield() }
      return { [self] in
        ends.store(true, ordering: .relaxed)
        for coroutine in coroutines { try coroutine.getBlocking() }
      }
    }
  }

  @Test func noCoroutineGoesOnBeforeTheSnapshotEnds() throws {
    let waking = WakingCoroutines(name: "waking")
    let end = waking.start()
    var everSeen = 0
    for _ in 0..<amount(100, sanitized: 50) {
      var seen: [(index: Int, steps: Int)] = []
      try Inspection.visitAll(
        // Checked once, since the counters only grow, and other tests may have a hundred thousand coroutines.
        last: { #expect(seen.allSatisfy { waking.steps(of: $0.index) == $0.steps }) },
        { suspended in
          guard suspended.name.hasPrefix(waking.name), suspended.state != .running else { return }
          let index = Int(suspended.name.dropFirst(waking.name.count + 1))!
          seen.append((index, waking.steps(of: index)))
          #expect(suspended.state == .ready)
          #expect(!suspended.segments.isEmpty)
        })
      everSeen += seen.count
    }
    #expect(everSeen > 0)
    try end()
  }

  @Test func aThousandWaitingCoroutinesAreAllSeenWhileOthersRun() throws {
    let waking = WakingCoroutines(name: "busy")
    let end = waking.start()
    let channel = Channel<Int>(name: "gate")
    let waiting = (0..<1000).map { index in
      Coroutine.immediate(name: "waiting \(index)") { try channel.receive() + index }
    }
    for _ in 0..<5 {
      let dump = try CoroutineDump.capture()
      let found = dump[waiting.map(\.id)].compactMap { $0 }
      #expect(found.count == waiting.count)
      let waitsFor = #"receive on channel "gate" (1000 receivers)"#
      #expect(found.allSatisfy { $0.state == .suspended && $0.waitsFor == waitsFor })
      #expect(Set(found.map(\.frames)).count == 1)
    }
    let sender = Coroutine { for _ in waiting { try channel.send(1) } }
    for (index, coroutine) in waiting.enumerated() { #expect(try coroutine.getBlocking() == index + 1) }
    try sender.getBlocking()
    try end()
  }

  /// The snapshot walks the queues without their locks.
  @Test(arguments: [1, 2]) func whatIsQueuedMeanwhileIsSeenWholeOrNotAtAll(threads: Int) throws {
    try whatIsQueuedMeanwhileIsSeenWholeOrNotAtAll(on: ThreadPool(threads: threads))
  }

  /// Likewise the slots of coroutines that are in no queue.
  @Test func whatIsPassedToAQueueMeanwhileIsSeenWholeOrNotAtAll() throws {
    try whatIsQueuedMeanwhileIsSeenWholeOrNotAtAll(on: DispatchQueue(label: "new ones", attributes: .concurrent))
  }

  private func whatIsQueuedMeanwhileIsSeenWholeOrNotAtAll(on scheduler: some Scheduler) throws {
    let isOver = Channel<Void>(capacity: .buffered(1))
    let launcher = Coroutine(on: scheduler) {
      while isOver.isEmpty {
        let new = (0..<500).map { Coroutine(name: "new \($0)") {} }
        for coroutine in new { try coroutine.join() }
      }
    }
    var seen = 0
    while seen < 2_000 {
      try Inspection.visitAll { found in
        guard found.parentID == launcher.id, found.state == .new else { return }
        seen += 1
        if !found.name.hasPrefix("new ") { Issue.record("it has the name \(found.name)") }
      }
    }
    _ = isOver.trySend(())
    try launcher.getBlocking()
  }

  /// In a process of its own, since from then on each coroutine keeps its creator.
  @Test func theCreatorsOfUnstartedOnesAreSeenWholeOrNotAtAll() async {
    await #expect(processExitsWith: .success) {
      CoroutineDump.recordsCreation = true
      let launcher = Coroutine(on: ThreadPool(threads: 1)) {
        while true {
          let new = (0..<500).map { _ in Coroutine {} }
          for coroutine in new { try coroutine.join() }
        }
      }
      var seen = 0
      while seen < 2_000 {
        try Inspection.visitAll { found in
          guard found.parentID == launcher.id, found.state == .new, !found.creators.isEmpty else { return }
          seen += 1
          if found.creators.contains(0) { leave(1) }
        }
      }
      leave()
    }
  }

  @Test func coroutinesThatStartAndEndMeanwhileDoNoHarm() throws {
    let dumping = Coroutine { for _ in 0..<amount(20, sanitized: 8) { _ = try CoroutineDump.capture() } }
    for _ in 0..<amount(200, sanitized: 16) {
      let short = (0..<20).map { index in
        Coroutine { () -> Int in
          let numbers = Generator<Int> { yield in for number in 0..<index { try yield(number) } }
          Coroutine.yield()
          return numbers.reduce(0, +)
        }
      }
      for (index, coroutine) in short.enumerated() {
        #expect(try coroutine.getBlocking() == index * (index - 1) / 2)
      }
    }
    try dumping.getBlocking()
  }
}
