import Context
import CoroutineTestSupport
import Testing

/// Many stacks at once, in a process of its own, since its mappings are counted.
@Suite(.ownThreads) struct StackScaleTests {
  @Test(.enabled(if: hasGuardMarks))
  func manyGuardedStacksTakeFewMappingsAndOnePageEach() async {
    await #expect(processExitsWith: .success) {
      let pool = try StackPool(stackSize: 64 << 10)
      let count = amount(100_000, sanitized: 20_000)
      var stacks: [Stack] = []
      stacks.reserveCapacity(count)
      let mappingsBefore = mappingCount()
      for _ in 0..<count {
        let stack = try pool.allocate()
        stack.touch(depth: 1)
        stacks.append(stack)
      }
      // Of 100,000 some 30 arenas, most of whose mappings have merged.
      #expect(mappingCount() - mappingsBefore < 1000)
      #expect(stacks.allSatisfy { $0.residentBytes == pageSize })
      #expect(pool.statistics.live == count)
      #expect(Set(stacks).count == count)

      stacks.forEach(pool.release)
      let statistics = pool.statistics
      #expect(statistics.live == 0)
      #expect(statistics.residentIdle <= 256 + 64)
      let resident = pool.residency(of: stacks)
      #expect(resident.bytes == resident.idle * pageSize)
      #expect(pool.brokenInvariant() == nil)
    }
  }
}
