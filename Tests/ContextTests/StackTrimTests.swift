import Context
import Testing

@Suite struct StackTrimTests {
  /// Takes so many stacks, touches the top page of each, and gives them back in the order in which they came.
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
    #expect(residentBytes(stacks) == pool.statistics.residentIdle * pageSize)
    #expect(pool.statistics.residentIdleBytes == residentBytes(stacks))
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

  /// When the bursts are over and only a few stacks are in use, the rest is given up bit by bit.
  @Test func whatIsNoLongerUsedIsGivenBack() throws {
    let pool = try StackPool(stackSize: 64 << 10, residentIdle: 0...1000)
    for _ in 0..<3 { try burst(1000, on: pool) }
    #expect(pool.statistics.residentIdle > 900)
    for _ in 0..<200_000 { pool.release(try pool.allocate()) }
    #expect(pool.statistics.residentIdle < 200)
    #expect(pool.brokenInvariant() == nil)
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
    #expect(kept.residentBytes == pool.stackSize, "a stack in use is nobody's to trim")
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

  /// It stays at the hot end, so no watermark ever reaches it.
  @Test func deepUseIsForgottenAtTheHotEnd() throws {
    let pool = try StackPool(stackSize: 256 << 10)
    let deep = try burst(2, on: pool, depth: 256 << 10)
    // Two stacks, released in turns: were the pool to look at every so many releases, an even number, it would always see
    // the same one.
    for _ in 0..<1100 {
      let first = try pool.allocate()
      let second = try pool.allocate()
      pool.release(second)
      pool.release(first)
    }
    let kept = max(pageSize, 16 << 10)
    #expect(deep.map(\.residentBytes) == [kept, kept])
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

  @Test(arguments: [16 << 10, 64 << 10, 256 << 10, 1 << 20, 1 << 40])
  func fewLargeStacksAreKept(stackSize: Int) {
    let bounds = IdleWatermark.defaultBounds(stackSize: stackSize)
    #expect((16...256).contains(bounds.lowerBound))
    #expect(bounds.lowerBound == 16 || bounds.lowerBound * stackSize <= 64 << 20)
  }
}
