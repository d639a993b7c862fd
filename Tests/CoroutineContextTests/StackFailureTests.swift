import CCoroutineSystem
import Context
import CoroutineTestSupport
import Glibc
import Synchronization
import Testing

/// System calls that fail on command.
private final class FaultyMemory: Sendable {
  /// Reservations larger than this fail.
  let mostBytes = Atomic<Int>(.max)

  /// What `madvise(MADV_GUARD_INSTALL)` fails with, and how many guards one call makes before it fails.
  let guardCode = Atomic<CInt>(0)
  let guardsPerCall = Atomic<Int>(0)

  /// What `mprotect` fails with after that many guards.
  let protectCode = Atomic<CInt>(0)
  let mostProtected = Atomic<Int>(.max)

  let isDiscardRefused = Atomic<Bool>(false)

  var memory: StackMemory {
    let kernel = StackMemory.kernel
    var memory = kernel
    memory.reserve = { (bytes) throws(StackMemory.Failure) in
      guard bytes <= self.mostBytes.load(ordering: .relaxed) else { throw StackMemory.Failure(code: ENOMEM) }
      return try kernel.reserve(bytes)
    }
    memory.protect = { (range, protection) throws(StackMemory.Failure) in
      let code = self.protectCode.load(ordering: .relaxed)
      if protection == PROT_NONE, code != 0, self.mostProtected.subtract(1, ordering: .relaxed).newValue < 0 {
        throw StackMemory.Failure(code: code)
      }
      try kernel.protect(range, protection)
    }
    memory.advise = { ranges, advice in
      let code = self.guardCode.load(ordering: .relaxed)
      if advice == CInt(COROUTINE_SYSTEM_MADV_GUARD_INSTALL), code != 0 {
        let made = min(ranges.count, self.guardsPerCall.load(ordering: .relaxed))
        _ = kernel.advise(UnsafeBufferPointer(rebasing: ranges[..<made]), advice)
        return (made, code)
      }
      if self.isDiscardRefused.load(ordering: .relaxed), advice != CInt(COROUTINE_SYSTEM_MADV_GUARD_INSTALL) {
        return (0, EINVAL)
      }
      return kernel.advise(ranges, advice)
    }
    return memory
  }

  func pool(stackSize: Int = 64 << 10, guards: StackPool.Guards = .automatic) throws -> StackPool {
    try StackPool(
      stackSize: stackSize, guardSize: nil, guards: guards, idle: IdleWatermark(bounds: 0...0), memory: memory)
  }
}

@Suite(.ownThreads) struct StackFailureTests {
  // MARK: Memory

  @Test func arenaIsHalvedUntilItFits() throws {
    let faulty = FaultyMemory()
    let pool = try faulty.pool()
    let distance = pool.stackSize + pool.guardSize
    faulty.mostBytes.store(5 * distance, ordering: .relaxed)
    let stacks = try (0..<9).map { _ in try pool.allocate() }
    // Neither 16 slots fit nor 8. Then 16 are tried again.
    #expect(pool.statistics.arenas == 3)
    #expect(pool.statistics.reservedBytes == 3 * 4 * distance)
    stacks.forEach(pool.release)
    #expect(pool.brokenInvariant() == nil)
  }

  @Test func outOfMemorySaysWhatWasAskedForAndPasses() throws {
    let faulty = FaultyMemory()
    let pool = try faulty.pool()
    let distance = pool.stackSize + pool.guardSize
    var stacks = try (0..<16).map { _ in try pool.allocate() }
    faulty.mostBytes.store(0, ordering: .relaxed)
    let error = try #require(throws: StackError.self) { try pool.allocate() }
    #expect(error == .outOfMemory(requested: distance, code: ENOMEM, live: 16, reserved: 16 * distance))
    #expect(error.description.contains("\(distance) bytes"))
    #expect(error.description.contains("RLIMIT_AS"))
    #expect(pool.brokenInvariant() == nil)

    // Released stacks are used again, and new ones come as soon as there is memory.
    pool.release(stacks.removeLast())
    stacks.append(try pool.allocate())
    #expect(throws: error) { try pool.allocate() }
    faulty.mostBytes.store(.max, ordering: .relaxed)
    stacks.append(try pool.allocate())
    stacks.forEach(pool.release)
    #expect(pool.brokenInvariant() == nil)
  }

  @Test func noMemoryForGuardsIsOutOfMemory() throws {
    let faulty = FaultyMemory()
    faulty.guardCode.store(ENOMEM, ordering: .relaxed)
    let pool = try faulty.pool()
    let reserved = 16 * (pool.stackSize + pool.guardSize)
    #expect(
      throws: StackError.outOfMemory(requested: pool.guardSize, code: ENOMEM, live: 0, reserved: reserved)
    ) {
      try pool.allocate()
    }
    faulty.guardCode.store(0, ordering: .relaxed)
    pool.release(try pool.allocate())
    #expect(pool.statistics.arenas == 1, "the arena of the failed attempt serves the next")
  }

  /// A real limit, in a process of its own: it holds for everything in the process.
  @Test(.disabled(if: isSanitized, "sanitizers end the process where they get no memory for themselves"))
  func addressSpaceLimitIsAnErrorAndPasses() async {
    await #expect(processExitsWith: .success) {
      var usual = rlimit()
      getrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &usual)
      let pool = try StackPool(stackSize: 8 << 20)
      var stacks = [try pool.allocate()]
      stacks.reserveCapacity(1000)
      var tight = usual
      tight.rlim_cur = rlim_t(mappedBytes() + 512 << 20)
      setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &tight)
      let error = try #require(throws: StackError.self) {
        while true { stacks.append(try pool.allocate()) }
      }
      guard case .outOfMemory(pool.stackSize + pool.guardSize, ENOMEM, stacks.count, _) = error else { exit(2) }
      // 128 MiB are there already. What is left of 512 more is not enough for one stack. A thread that starts
      // meanwhile takes 72 for its heap and its stack. An arena that was halved only once would leave 48 stacks.
      guard stacks.count >= 50, stacks.count < 80 else { exit(3) }
      for stack in stacks { stack.touch(depth: 1) }
      pool.release(stacks.removeLast())
      stacks.append(try pool.allocate())
      setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &usual)
      stacks.append(try pool.allocate())
      guard pool.brokenInvariant() == nil else { exit(4) }
      for stack in stacks { pool.release(stack) }
    }
  }

  // MARK: Guards

  @Test func kernelWithoutGuardMarksFallsBackOnMappings() throws {
    let faulty = FaultyMemory()
    faulty.guardCode.store(EINVAL, ordering: .relaxed)
    let pool = try faulty.pool()
    let stacks = try (0..<20).map { _ in try pool.allocate() }
    #expect(pool.statistics.guards == .mprotect)
    stacks.forEach(pool.release)
    #expect(pool.brokenInvariant() == nil)
  }

  @Test func guardMarksInsistedOnAreNotReplaced() throws {
    let faulty = FaultyMemory()
    faulty.guardCode.store(EINVAL, ordering: .relaxed)
    let pool = try faulty.pool(guards: .madvise)
    let error = try #require(throws: StackError.self) { try pool.allocate() }
    #expect(error == .guardRefused(code: EINVAL, guards: .madvise))
    #expect(error.description.contains("Linux 6.13"))
    #expect(pool.statistics.live == 0)
  }

  /// A batch of guards may end early, anywhere: a stack without a guard must not be handed out.
  @Test(.enabled(if: hasGuardMarks), arguments: [1, 3])
  func partOfABatchIsUsed(guardsPerCall: Int) throws {
    let faulty = FaultyMemory()
    faulty.guardCode.store(EAGAIN, ordering: .relaxed)
    faulty.guardsPerCall.store(guardsPerCall, ordering: .relaxed)
    let pool = try faulty.pool(guards: .madvise)
    let stacks = try (0..<guardsPerCall).map { _ in try pool.allocate() }
    #expect(pool.statistics.idle == 0)
    let more = try (0..<guardsPerCall).map { _ in try pool.allocate() }
    #expect(pool.statistics.idle == 0)
    #expect(Set(stacks + more).count == 2 * guardsPerCall)
    (stacks + more).forEach(pool.release)
    #expect(pool.brokenInvariant() == nil)
  }

  @Test func mapLimitNamesTheLimitAndPasses() throws {
    let faulty = FaultyMemory()
    faulty.protectCode.store(ENOMEM, ordering: .relaxed)
    faulty.mostProtected.store(10, ordering: .relaxed)
    let pool = try faulty.pool(guards: .mprotect)
    var stacks = try (0..<10).map { _ in try pool.allocate() }
    let error = try #require(throws: StackError.self) { try pool.allocate() }
    guard case .mapLimit(let limit, let requested, let live) = error else {
      Issue.record("not the map limit: \(error)")
      return
    }
    #expect(limit > 0)
    #expect(requested == pool.stackSize)
    #expect(live == 10)
    for part in [
      "vm.max_map_count", "\(limit)", "of which \(min(4096, limit / 8)) are left to threads", "65536 bytes (64 KiB)",
      "10 stacks", "Linux 6.13", "guards: .none",
    ] {
      #expect(error.description.contains(part))
    }
    #expect(pool.brokenInvariant() == nil)
    pool.release(stacks.removeLast())
    stacks.append(try pool.allocate())
    faulty.mostProtected.store(1, ordering: .relaxed)
    stacks.append(try pool.allocate())
    #expect(throws: StackError.self) { try pool.allocate() }
    stacks.forEach(pool.release)
    #expect(pool.brokenInvariant() == nil)
  }

  @Test func guardRefusedForAnotherReasonIsNotTheMapLimit() throws {
    let faulty = FaultyMemory()
    faulty.protectCode.store(EACCES, ordering: .relaxed)
    faulty.mostProtected.store(0, ordering: .relaxed)
    let pool = try faulty.pool(guards: .mprotect)
    #expect(throws: StackError.guardRefused(code: EACCES, guards: .mprotect)) { try pool.allocate() }
  }

  /// A real limit, in a process of its own, which has no mapping left to spare.
  @Test(
    .disabled(if: isSanitized, "sanitizers need mappings for themselves"),
    .enabled(if: canReachMapLimit, "vm.max_map_count was raised: to reach it takes too long and too much memory"))
  func realMapLimitIsAnErrorAndPasses() async {
    await #expect(processExitsWith: .success) {
      let limit = mapLimit()
      let pool = try StackPool(stackSize: 16 << 10, guards: .mprotect)
      var stacks: [Stack] = []
      stacks.reserveCapacity(limit)
      var failure: StackError?
      do throws(StackError) {
        while true { stacks.append(try pool.allocate()) }
      } catch {
        failure = error
      }
      guard case .mapLimit(limit, pool.stackSize, stacks.count) = failure else { exit(2) }
      guard stacks.count > limit / 2 - 2000 - 2048 else { exit(3) }
      pool.release(stacks.removeLast())
      stacks.append(try pool.allocate())
      for stack in stacks { stack.touch(depth: 1) }
      for stack in stacks { pool.release(stack) }
      // Idle arenas give half of their mappings back, which takes the process away from the limit.
      pool.trim()
      guard mappingCount() < limit * 2 / 3 else { exit(4) }
      guard pool.brokenInvariant() == nil else { exit(5) }
    }
  }

  /// On a kernel without guard marks, some mappings stay free for the process's threads and `malloc`.
  @Test(
    .disabled(if: isSanitized, "sanitizers need mappings for themselves"),
    .enabled(if: canReachMapLimit, "vm.max_map_count was raised: to reach it takes too long and too much memory"))
  func guardsByMappingLeaveSomeToTheRestOfTheProcess() async {
    await #expect(processExitsWith: .success) {
      let limit = mapLimit()
      let faulty = FaultyMemory()
      faulty.guardCode.store(EINVAL, ordering: .relaxed)
      let pool = try faulty.pool(stackSize: 16 << 10)
      var stacks: [Stack] = []
      stacks.reserveCapacity(limit)
      let error = try #require(throws: StackError.self) {
        while true { stacks.append(try pool.allocate()) }
      }
      guard case .mapLimit(limit, pool.stackSize, stacks.count) = error else { exit(2) }
      // Threads take two each, or more.
      for _ in 0..<200 {
        var thread = pthread_t()
        let code = pthread_create(
          &thread, nil,
          { _ in
            pause()
            return nil
          }, nil)
        guard code == 0 else { exit(5) }
      }
      // Mappings that cannot merge: every second one has no access rights.
      for index in 0..<2000 {
        let rights = index.isMultiple(of: 2) ? PROT_READ | PROT_WRITE : PROT_NONE
        guard mmap(nil, pageSize, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED else { exit(3) }
      }
      for stack in stacks { pool.release(stack) }
      guard pool.brokenInvariant() == nil else { exit(4) }
    }
  }

  // MARK: Trimming

  /// The kernel refuses to take locked memory back. The stacks still work.
  @Test func refusedTrimLosesNothing() throws {
    let faulty = FaultyMemory()
    let pool = try faulty.pool()
    let stacks = try (0..<2000).map { _ in try pool.allocate() }
    faulty.isDiscardRefused.store(true, ordering: .relaxed)
    stacks.forEach(pool.release)
    pool.trim()
    #expect(pool.brokenInvariant() == nil)
    let again = try stacks.map { _ in try pool.allocate() }
    #expect(Set(again) == Set(stacks))
    again.forEach(pool.release)
    #expect(pool.brokenInvariant() == nil)
  }
}

/// `vm.max_map_count`.
private func mapLimit() -> Int {
  guard let file = fopen("/proc/sys/vm/max_map_count", "r") else { return .max }
  defer { fclose(file) }
  var line: [CChar] = Array(repeating: 0, count: 32)
  return fgets(&line, 32, file) == nil ? .max : atol(line)
}

/// Whether tests may use up all mappings: each stack takes two, and a page of memory.
private let canReachMapLimit = mapLimit() <= 200_000

/// What RLIMIT_AS counts.
private func mappedBytes() -> Int {
  guard let file = fopen("/proc/self/statm", "r") else { return 0 }
  defer { fclose(file) }
  var line: [CChar] = Array(repeating: 0, count: 128)
  return fgets(&line, 128, file) == nil ? 0 : atol(line) * pageSize
}
