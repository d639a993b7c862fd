import Context
import CoroutineTestSupport
import Dispatch
import Glibc
import Synchronization
import Testing

@Suite(.ownThreads) struct StackTrimTests {
  /// Takes `count` stacks, touches the top page of each, and gives them back in the order in which they came.
  @discardableResult
  private func burst(_ count: Int, on pool: StackPool, depth: Int = 1) throws -> [Stack] {
    let stacks = try (0..<count).map { _ in try pool.allocate() }
    for stack in stacks {
      stack.touch(depth: depth)
      pool.release(stack)
    }
    return stacks
  }

  private func residentBytes(_ stacks: [Stack]) -> Int {
    stacks.reduce(0) { $0 + $1.residentBytes }
  }

  @Test func burstLeavesNoMoreThanTheWatermark() throws {
    let pool = try StackPool(stackSize: 64 << 10, residentIdle: 100...1000)
    let stacks = try burst(1000, on: pool)
    #expect(pool.statistics.residentIdle < 100 + 64)
    let resident = pool.residency(of: stacks)
    #expect(resident.bytes == resident.idle * pageSize)
    #expect(pool.brokenInvariant() == nil)
  }

  /// A program that starts and ends 1,000 coroutines over and over must not pay for page faults each time.
  @Test(arguments: [0, 100])
  func repeatedBurstsKeepWhatTheyUse(floor: Int) throws {
    let pool = try StackPool(stackSize: 64 << 10, residentIdle: floor...1000)
    try burst(1000, on: pool)
    let released = try burst(1000, on: pool)
    let stacks = try (0..<1000).map { _ in try pool.allocate() }
    #expect(residentBytes(stacks) >= 900 * pageSize)
    #expect(stacks.prefix(900) == released.reversed().prefix(900), "the youngest first")
    stacks.forEach(pool.release)
    #expect(pool.brokenInvariant() == nil)
  }

  /// When the bursts are over and only a few stacks are in use, the rest is given back bit by bit.
  @Test func whatIsNoLongerUsedIsGivenBack() throws {
    let pool = try StackPool(stackSize: 64 << 10, residentIdle: 0...1000)
    for _ in 0..<3 { try burst(1000, on: pool) }
    #expect(pool.statistics.residentIdle > 900)
    for _ in 0..<200_000 { pool.release(try pool.allocate()) }
    #expect(pool.statistics.residentIdle < 200)
    #expect(pool.brokenInvariant() == nil)
  }

  /// An epoch in which not every stack is taken and released would count the others as surplus.
  @Test func burstsThatAreLongerThanTheShortestEpochKeepWhatTheyUse() throws {
    let pool = try StackPool(stackSize: 16 << 10, residentIdle: 0...30_000)
    for _ in 0..<3 { try burst(20_000, on: pool) }
    #expect(pool.statistics.residentIdle > 18_000)
    #expect(pool.brokenInvariant() == nil)
  }

  @Test func whatIsKeptForBurstsDecaysWithTime() throws {
    let pool = try StackPool(
      stackSize: 16 << 10, guardSize: nil, guards: .automatic, idle: IdleWatermark(bounds: 0...4000, lasting: 500),
      memory: .kernel)
    for _ in 0..<3 { try burst(3000, on: pool) }
    // As the pool's thread does, without its waits; that thread may come first.
    while pool.decay() {}
    #expect(pool.statistics.residentIdle < 500 + 64)
    #expect(pool.brokenInvariant() == nil)
  }

  /// The pool gives it back by itself, and then its thread releases the pool.
  @Test func aPoolAtRestGivesItsSurplusBack() throws {
    weak var released: StackPool?
    do {
      let pool = try StackPool(
        stackSize: 16 << 10, guardSize: nil, guards: .automatic, idle: IdleWatermark(bounds: 0...4000, lasting: 1500),
        memory: .kernel, decayPeriod: .milliseconds(100))
      released = pool
      for _ in 0..<3 { try burst(2000, on: pool) }
      while pool.statistics.residentIdle >= 1500 + 64 { usleep(1000) }
    }
    while released != nil { usleep(1000) }
  }

  /// Once, when the pool is at rest, and only where they were very many: it stops what allocates for a while.
  @Test func whatVeryManyOwnersFreedIsGivenBackAtRest() throws {
    final class Count: Sendable {
      let given = Atomic<Int>(0)
    }
    let count = Count()
    var memory = StackMemory.kernel
    memory.advise = { ranges, _ in (ranges.count, 0) }
    memory.giveBackFreedMemory = { count.given.add(1, ordering: .relaxed) }
    let pool = try StackPool(
      stackSize: 16 << 10, guardSize: nil, guards: .none, idle: IdleWatermark(bounds: 0...0), memory: memory,
      decayPeriod: .seconds(100_000))
    for _ in 0..<63 { try burst(1024, on: pool) }
    while pool.decay() {}
    #expect(count.given.load(ordering: .relaxed) == 0)
    for _ in 0..<66 { try burst(1024, on: pool) }
    #expect(count.given.load(ordering: .relaxed) == 0, "in the midst of the work")
    while pool.decay() {}
    #expect(count.given.load(ordering: .relaxed) == 1)
    while pool.decay() {}
    #expect(count.given.load(ordering: .relaxed) == 1)
  }

  /// By the thread, which nothing else has started.
  @Test func whatOwnersFreedIsGivenBackOnRequest() throws {
    final class Given: Sendable {
      let gate = DispatchSemaphore(value: 0)
    }
    let given = Given()
    var memory = StackMemory.kernel
    memory.giveBackFreedMemory = { given.gate.signal() }
    let pool = try StackPool(
      stackSize: 16 << 10, guardSize: nil, guards: .none, idle: IdleWatermark(bounds: 0...0), memory: memory,
      decayPeriod: .milliseconds(1))
    pool.giveBackLaterWhatOwnersFreed()
    given.gate.wait()
  }

  @Test func trimGivesAllMemoryBack() throws {
    let pool = try StackPool(stackSize: 64 << 10, residentIdle: 1000...1000)
    let kept = try pool.allocate()
    kept.touch(depth: kept.size)
    let stacks = try burst(500, on: pool, depth: 64 << 10)
    #expect(residentBytes(stacks) == 500 * pool.stackSize)
    pool.trim()
    #expect(residentBytes(stacks) == 0)
    #expect(pool.statistics.residentIdle == 0)
    #expect(kept.residentBytes == pool.stackSize, "a stack in use must not be trimmed")
    pool.release(kept)
    #expect(pool.brokenInvariant() == nil)
  }

  @Test func trimmedStackReadsZero() throws {
    let pool = try StackPool(stackSize: 64 << 10)
    let before = try burst(10, on: pool, depth: 64 << 10)
    pool.trim()
    let after = try (0..<10).map { _ in try pool.allocate() }
    #expect(Set(after) == Set(before))
    for stack in after {
      #expect(UnsafeRawBufferPointer(start: stack.limit, count: stack.size).allSatisfy { $0 == 0 })
    }
    after.forEach(pool.release)
  }

  /// The stack stays at the hot end, so no watermark ever reaches it.
  @Test func deepUseIsForgottenAtTheHotEnd() throws {
    let pool = try StackPool(stackSize: 256 << 10)
    let deep = try burst(2, on: pool, depth: 256 << 10)
    // Two stacks, released in turns. A pool that looked at every n-th release, with n even, would always see the same
    // one.
    for _ in 0..<1100 {
      let first = try pool.allocate()
      let second = try pool.allocate()
      pool.release(second)
      pool.release(first)
    }
    let kept = max(pageSize, 16 << 10)
    #expect(deep.map(\.residentBytes) == [kept, kept])
  }

  @Test func aPoolMayKeepAllStacks() throws {
    let pool = try StackPool(stackSize: 64 << 10, guardSize: 0, guards: .none, residentIdle: Int.max...Int.max)
    #expect(pool.guardSize == 0)
    let stacks = try burst(500, on: pool)
    #expect(residentBytes(stacks) == 500 * pageSize)
    pool.trim()
    try burst(500, on: pool)
    #expect(pool.brokenInvariant() == nil)
  }

  // MARK: The watermark

  @Test func watermarkStaysWithinItsBounds() {
    var watermark = IdleWatermark(bounds: 10...20)
    #expect(watermark.mark == 10)
    for _ in 0..<100 { watermark.trimmedStackWasWanted() }
    #expect(watermark.mark == 20)
    watermark.epochEnded(lowest: 0)
    #expect(watermark.mark == 20)
    watermark.epochEnded(lowest: 5)
    #expect(watermark.mark == 17)
    watermark.epochEnded(lowest: 1000)
    #expect(watermark.mark == 10)
    watermark.trimmedStackWasWanted()
    watermark.reset()
    #expect(watermark.mark == 10)
  }

  @Test func watermarkIsSurplusAboveWhatLasts() {
    var watermark = IdleWatermark(bounds: 10...20, lasting: 12)
    for _ in 0..<2 { watermark.trimmedStackWasWanted() }
    #expect(!watermark.isSurplus)
    watermark.trimmedStackWasWanted()
    #expect(watermark.isSurplus)
    watermark.epochEnded(lowest: 2)
    #expect(!watermark.isSurplus && watermark.mark == 12)
  }

  @Test(arguments: [16 << 10, 64 << 10, 256 << 10, 1 << 20, 1 << 40])
  func fewLargeStacksAreKept(stackSize: Int) {
    let watermark = IdleWatermark(stackSize: stackSize)
    let floor = watermark.bounds.lowerBound
    #expect((16...256).contains(floor))
    #expect(floor == 16 || floor * stackSize <= 64 << 20)
    #expect(floor < watermark.lasting && watermark.lasting < watermark.bounds.upperBound)
  }
}
