import Context
import CoroutineTestSupport
import Glibc
import Synchronization
import Testing

@Suite(.ownThreads) struct StackPoolTests {
  // MARK: Sizes

  @Test func theGuardsSizeCanBeSetFromOutside() async {
    await #expect(processExitsWith: .success) {
      setenv("COROUTINE_STACK_GUARD", "256K", 1)
      let pool = StackPool.default
      #expect((256 << 10...260 << 10).contains(pool.guardSize))
      pool.release(try pool.allocate())
    }
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      setenv("COROUTINE_STACK_GUARD", "2G", 1)
      _ = StackPool.default
    }
    let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(text.contains("COROUTINE_STACK_GUARD must be the size of a stack's guard"))
  }

  @Test func framesOfSixtyThousandBytesDoNotStepOverTheUsualGuard() throws {
    #expect(StackPool.default.guardSize >= 64 << 10)
    #expect(try StackPool.shared(stackSize: 64 << 10).guardSize >= 64 << 10)
  }

  @Test(arguments: [
    (1, 16_384), (16_383, 16_384), (16_384, 16_384), (16_385, 20_480), (100_000, 102_400), (262_144, 262_144),
  ])
  func sizeIsRoundedUpToPages(requested: Int, expected: Int) throws {
    let pool = try StackPool(stackSize: requested)
    let stack = try pool.allocate()
    defer { pool.release(stack) }
    let rounded = (expected + pageSize - 1) / pageSize * pageSize
    #expect(pool.stackSize == rounded)
    #expect(stack.size == rounded)
    #expect(stack.top - stack.limit == rounded)
    #expect(UInt(bitPattern: stack.top) % UInt(pageSize) == 0)
  }

  @Test(arguments: [Int.min, -1, 0, (1 << 40) + 1, Int.max])
  func impossibleSizeIsAnErrorThatSaysWhatIsAllowed(size: Int) throws {
    let error = try #require(throws: StackError.self) { try StackPool(stackSize: size) }
    #expect(error == .impossibleSize(requested: size, allowed: 16 << 10...1 << 40))
    #expect(error.description.contains("16384 bytes (16 KiB) to 1099511627776 bytes (1 TiB) are allowed"))
    #expect(throws: StackError.self) { try StackPool.shared(stackSize: size) }
  }

  @Test(arguments: [Int.min, 0, (1 << 30) + 1, Int.max])
  func impossibleGuardIsAnError(size: Int) {
    #expect(throws: StackError.impossibleGuardSize(requested: size, allowed: 1...1 << 30)) {
      try StackPool(guardSize: size)
    }
  }

  @Test func largestStackIsUsable() throws {
    let pool = try StackPool(stackSize: 1 << 40)
    let stack = try pool.allocate()
    stack.limit.storeBytes(of: 1, as: UInt8.self)
    (stack.top - 1).storeBytes(of: 1, as: UInt8.self)
    pool.release(stack)
  }

  /// With an even distance the tops of all stacks would share half of the translation buffer's entries, or fewer. On some
  /// processors 31 and 33 pages are as bad.
  @Test(arguments: [16 << 10, 64 << 10, 68 << 10, 256 << 10, 8 << 20], [1, 16 << 10, 20 << 10, 56 << 10, 64 << 10])
  func neighboursSpreadOverTheTranslationBuffer(stackSize: Int, guardSize: Int) throws {
    let pool = try StackPool(stackSize: stackSize, guardSize: guardSize)
    let stacks = [try pool.allocate(), try pool.allocate()]
    let distance = stacks[1].top - stacks[0].top
    #expect((distance / pageSize) % 2 == 1)
    #expect(![31, 33].contains(distance / pageSize))
    #expect(pool.guardSize >= guardSize)
    #expect(distance == pool.stackSize + pool.guardSize)
    stacks.forEach(pool.release)
  }

  @Test func sixteenNeighboursHaveSixteenColors() throws {
    let pool = try StackPool(stackSize: 64 << 10)
    let stacks = try (0..<64).map { _ in try pool.allocate() }
    #expect(Set(stacks.prefix(16).map(\.color)).count == 16)
    #expect(stacks.allSatisfy { (0..<16).contains($0.color) })
    stacks.forEach(pool.release)
  }

  // MARK: Sharing

  @Test func onePoolForEachRoundedSize() throws {
    let pool = try StackPool.shared(stackSize: 100_000)
    #expect(try StackPool.shared(stackSize: 100_001) === pool)
    #expect(try StackPool.shared(stackSize: 200_000) !== pool)
    #expect(try StackPool.shared(stackSize: StackPool.defaultStackSize) === StackPool.default)
    #expect(StackPool.default.stackSize == 256 << 10)
  }

  @Test func onePoolForEachSizeThoughOnlyTheNewestAreFoundWithoutALock() async throws {
    let sizes = (1...20).map { (128 + $0) << 12 }
    let found = try await withThrowingTaskGroup(of: [StackPool].self) { group in
      for _ in 0..<4 { group.addTask { try sizes.map { try StackPool.shared(stackSize: $0) } } }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(found[0].map(\.stackSize) == sizes)
    for pools in found { #expect(zip(pools, found[0]).allSatisfy { $0 === $1 }) }
    #expect(StackPool.known(stackSize: sizes[19])?.takeUnretainedValue() === found[0][19])
    #expect(StackPool.known(stackSize: sizes[19] - 1) == nil)
  }

  // MARK: Reuse

  @Test func latestReleasedIsTakenFirst() throws {
    let pool = try StackPool(stackSize: 64 << 10)
    let stacks = try (0..<10).map { _ in try pool.allocate() }
    stacks.forEach(pool.release)
    let again = try (0..<10).map { _ in try pool.allocate() }
    #expect(again == stacks.reversed())
    again.forEach(pool.release)
    #expect(pool.brokenInvariant() == nil)
  }

  @Test func stacksDoNotOverlap() throws {
    let pool = try StackPool(stackSize: 64 << 10)
    // From several arenas: of 16, 64 and 256 slots.
    let stacks = try (0..<300).map { _ in try pool.allocate() }.sorted { $0.limit < $1.limit }
    for (lower, upper) in zip(stacks, stacks.dropFirst()) {
      #expect(upper.limit - pool.guardSize >= lower.top)
    }
    stacks.forEach(pool.release)
  }

  @Test func statisticsCountEachStackOnce() throws {
    let pool = try StackPool(stackSize: 64 << 10)
    #expect(pool.statistics.arenas == 0)
    #expect(pool.statistics.guards == .automatic)
    var stacks = try (0..<40).map { _ in try pool.allocate() }
    for stack in stacks { stack.touch(depth: 1) }
    stacks.suffix(10).forEach(pool.release)
    stacks.removeLast(10)
    let statistics = pool.statistics
    #expect(statistics.live == 30)
    #expect(statistics.residentIdle == 10)
    #expect(statistics.residentIdleBytes == 10 * pageSize)
    #expect(statistics.idle >= 10)
    #expect(statistics.arenas == 2)
    #expect(statistics.reservedBytes == (16 + 64) * (pool.stackSize + pool.guardSize))
    #expect(statistics.guards == guardKinds[0])
    stacks.forEach(pool.release)
  }

  @Test func doubleReleaseTraps() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let stack = try StackPool.default.allocate()
      StackPool.default.release(stack)
      StackPool.default.release(stack)
    }
    let message = text(result?.standardErrorContent)
    #expect(message.contains("was released twice"))
  }

  @Test func releaseToAnotherPoolTraps() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let other = try StackPool()
      other.release(try StackPool.default.allocate())
    }
    let message = text(result?.standardErrorContent)
    #expect(message.contains("belongs to another pool"))
  }

  @Test func dropOfAPoolWithLiveStacksTraps() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = try StackPool().allocate()
    }
    let message = text(result?.standardErrorContent)
    #expect(message.contains("released while 1 of its stacks are in use"))
  }

  private func text(_ bytes: [UInt8]?) -> String {
    String(decoding: bytes ?? [], as: UTF8.self)
  }

  // MARK: Look-ups

  @Test func addressesLeadToTheStackAndToItsGuard() throws {
    let pool = try StackPool(stackSize: 64 << 10)
    let stacks = try (0..<100).map { _ in try pool.allocate() }
    for stack in stacks {
      let limit = UInt(bitPattern: stack.limit)
      let top = UInt(bitPattern: stack.top)
      #expect(pool.stack(containing: limit) == stack)
      #expect(pool.stack(containing: top - 1) == stack)
      #expect(pool.stack(containing: limit - 1) == nil)
      #expect(pool.stack(containing: top) != stack)
      #expect(pool.stack(guardedAt: limit - 1) == stack)
      #expect(pool.stack(guardedAt: stack.guardRange.lowerBound) == stack)
      #expect(pool.stack(guardedAt: limit) == nil)
    }
    pool.release(stacks[50])
    #expect(pool.stack(containing: UInt(bitPattern: stacks[50].limit)) == nil)
    #expect(pool.stack(guardedAt: UInt(bitPattern: stacks[50].limit) - 1) == nil)
    #expect(pool.stack(containing: 0) == nil)
    #expect(pool.stack(containing: .max) == nil)
    for (index, stack) in stacks.enumerated() where index != 50 {
      pool.release(stack)
    }
  }

  @Test func visitsLiveStacksAndTouchesNone() throws {
    let pool = try StackPool(stackSize: 64 << 10)
    let stacks = try (0..<300).map { _ in try pool.allocate() }
    for index in stride(from: 0, to: 300, by: 3) { pool.release(stacks[index]) }
    var visited: Set<Stack> = []
    pool.forEachLiveStack { #expect(visited.insert($0).inserted) }
    #expect(visited == Set(stacks.enumerated().filter { $0.offset % 3 != 0 }.map(\.element)))
    _ = pool.stack(containing: UInt(bitPattern: stacks[1].limit))
    #expect(stacks.allSatisfy { $0.residentBytes == 0 })
    visited.forEach(pool.release)
  }

  @Test func visitEndsWithTheBodysError() throws {
    struct Enough: Error {}
    let pool = try StackPool(stackSize: 64 << 10)
    let stacks = try (0..<3).map { _ in try pool.allocate() }
    var visits = 0
    #expect(throws: Enough.self) {
      try pool.forEachLiveStack { (_) throws(Enough) in
        visits += 1
        if visits == 2 { throw Enough() }
      }
    }
    #expect(visits == 2)
    stacks.forEach(pool.release)
  }

  // MARK: Threads

  /// Each thread writes its number to its stacks, without synchronisation. A stack that two threads hold at once
  /// shows as a wrong number, and under ThreadSanitizer as a race. One more thread looks at the stacks all the while.
  @Test func threadsNeverHoldTheSameStack() throws {
    // A low watermark: stacks are trimmed and wanted back all the time.
    let pool = try StackPool(stackSize: 16 << 10, residentIdle: 0...8)
    let working = Atomic<Int>(3)
    let mixedUp = Atomic<Int>(0)
    onThreads(4) { thread in
      if thread == 3 {
        while working.load(ordering: .acquiring) > 0 {
          pool.forEachLiveStack { stack in
            if !stack.contains(UInt(bitPattern: stack.limit)) { mixedUp.add(1, ordering: .relaxed) }
          }
          _ = pool.statistics
        }
        return
      }
      var held: [Stack] = []
      var random = UInt64(thread + 1)
      for _ in 0..<6000 {
        random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        // The number grows to some hundred and shrinks again, so that arenas come and batches are trimmed.
        if random >> 33 & 1023 < (held.count < 300 ? 700 : 100), let stack = try? pool.allocate() {
          stack.limit.storeBytes(of: thread, as: Int.self)
          (stack.top - 8).storeBytes(of: thread, as: Int.self)
          held.append(stack)
        } else {
          for _ in 0..<min(held.count, 40) {
            let stack = held.removeLast()
            let numbers = (stack.limit.load(as: Int.self), (stack.top - 8).load(as: Int.self))
            if numbers != (thread, thread) { mixedUp.add(1, ordering: .relaxed) }
            pool.release(stack)
          }
        }
      }
      held.forEach(pool.release)
      working.subtract(1, ordering: .acquiringAndReleasing)
    }
    #expect(mixedUp.load(ordering: .relaxed) == 0)
    #expect(pool.statistics.live == 0)
    #expect(pool.brokenInvariant() == nil)
  }
}
