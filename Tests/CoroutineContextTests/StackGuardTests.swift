import Context
import CoroutineTestSupport
import Glibc
import Testing

/// What the fault handler compares with. Set once, before the fault, in a process of its own.
nonisolated(unsafe) private var expectedFault: Range<UInt> = 0..<0  // an exit test has one thread
nonisolated(unsafe) private var neighbour = UnsafeRawBufferPointer(start: nil, count: 0)  // likewise

/// The exit code of a process that faulted in the guard and had not written to the neighbour.
private let faultedInGuard: CInt = 42

/// Makes a fault in the guard of `stack` end the process with `faultedInGuard`, if the neighbour below is unchanged.
private func expectFault(in stack: Stack, above lower: Stack) {
  expectedFault = stack.guardRange
  neighbour = UnsafeRawBufferPointer(start: lower.limit, count: lower.size)
  memset(lower.limit, 0x5a, lower.size)
  var action = sigaction()
  action.sa_flags = SA_SIGINFO
  action.__sigaction_handler.sa_sigaction = { _, info, _ in
    // Nothing but plain loads and calls of C: the fault may have hit a sanitizer that holds one of its locks.
    let address = UInt(bitPattern: info!.pointee._sifields._sigfault.si_addr)
    let isInGuard = address >= expectedFault.lowerBound && address < expectedFault.upperBound
    let start = neighbour.baseAddress!
    let isIntact = start.load(as: UInt8.self) == 0x5a && memcmp(start, start + 1, neighbour.count - 1) == 0
    _exit(isInGuard && isIntact ? faultedInGuard : 1)
  }
  sigaction(SIGSEGV, &action, nil)
}

/// Writes downwards from the middle of the stack until a fault stops it.
private func overflow(_ stack: Stack) {
  var address = stack.limit + stack.size / 2
  while true {
    address -= 64
    write(to: address)
  }
}

private func write(to address: UnsafeMutableRawPointer) {
  address.storeBytes(of: 0xff, as: UInt8.self)
  // An optimiser drops stores that are never read. For all it knows, this call reads them.
  getpid()
}

private func neighbours(in pool: StackPool) throws -> (lower: Stack, upper: Stack) {
  let first = try pool.allocate()
  let second = try pool.allocate()
  return first.limit < second.limit ? (first, second) : (second, first)
}

@Suite(.ownThreads) struct StackGuardTests {
  @Test func overflowFaultsInTheGuardAndSparesTheNeighbour() async {
    await #expect(processExitsWith: .exitCode(faultedInGuard)) {
      let (lower, upper) = try neighbours(in: .default)
      expectFault(in: upper, above: lower)
      overflow(upper)
    }
  }

  @Test func overflowFaultsInAGuardByMapping() async {
    await #expect(processExitsWith: .exitCode(faultedInGuard)) {
      let pool = try StackPool(stackSize: 64 << 10, guards: .mprotect)
      let (lower, upper) = try neighbours(in: pool)
      expectFault(in: upper, above: lower)
      overflow(upper)
    }
  }

  @Test func wholeGuardFaults() async {
    await #expect(processExitsWith: .exitCode(faultedInGuard)) {
      let (lower, upper) = try neighbours(in: .default)
      expectFault(in: upper, above: lower)
      write(to: upper.limit - StackPool.default.guardSize)
    }
  }

  @Test func readOfTheGuardFaults() async {
    await #expect(processExitsWith: .exitCode(faultedInGuard)) {
      let (lower, upper) = try neighbours(in: .default)
      expectFault(in: upper, above: lower)
      _exit(CInt((upper.limit - 1).load(as: UInt8.self)))
    }
  }

  @Test func lowestStackOfAnArenaHasAGuard() async {
    await #expect(processExitsWith: .exitCode(faultedInGuard)) {
      let (lowest, other) = try neighbours(in: StackPool.shared(stackSize: 64 << 10))
      expectFault(in: lowest, above: other)
      overflow(lowest)
    }
  }

  @Test func trimmedStackIsStillGuarded() async {
    await #expect(processExitsWith: .exitCode(faultedInGuard)) {
      let pool = StackPool.default
      let stacks = try neighbours(in: pool)
      stacks.upper.touch(depth: stacks.upper.size)
      pool.release(stacks.lower)
      pool.release(stacks.upper)
      pool.trim()
      let (lower, upper) = try neighbours(in: pool)
      expectFault(in: upper, above: lower)
      overflow(upper)
    }
  }

  /// An arena whose stacks were all idle loses its guards with its page tables. It must get them back before it
  /// serves again.
  @Test(arguments: guardKinds)
  func recycledArenaIsGuardedAgain(guards: StackPool.Guards) async throws {
    // Arenas of 16, 64, 256 and 1024 slots, the last of which is large enough to be recycled.
    let pool = try StackPool(stackSize: 64 << 10, guards: guards, residentIdle: 0...0)
    let stacks = try (0..<16 + 64 + 256 + 1024).map { _ in try pool.allocate() }
    stacks.forEach(pool.release)
    pool.trim()
    #expect(pool.statistics.idle == 16 + 64 + 256)
    #expect(pool.brokenInvariant() == nil)
    let again = try stacks.map { _ in try pool.allocate() }
    #expect(Set(again) == Set(stacks))
    for stack in again {
      #expect(try !isWritable(stack.limit - 1))
      #expect(try !isWritable(stack.limit - pool.guardSize))
      #expect(try isWritable(stack.limit))
      #expect(try isWritable(stack.top - 1))
    }
    again.forEach(pool.release)
  }

  /// Has the kernel write to the address: where this process would fault, the system call fails.
  private func isWritable(_ address: UnsafeMutableRawPointer) throws -> Bool {
    let zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC)
    try #require(zeros >= 0)
    defer { close(zeros) }
    return read(zeros, address, 1) == 1
  }

  @Test func withoutGuardsOnlyWhenAskedFor() throws {
    let pool = try StackPool(stackSize: 64 << 10, guards: .none)
    let (lower, upper) = try neighbours(in: pool)
    #expect(pool.guardSize == 0)
    #expect(upper.guardRange.isEmpty)
    #expect(try isWritable(upper.limit - 1))
    #expect(pool.statistics.guards == .none)
    pool.release(lower)
    pool.release(upper)
    #expect(pool.brokenInvariant() == nil)
  }
}
