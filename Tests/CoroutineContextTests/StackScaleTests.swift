import Context
import CoroutineTestSupport
import Testing

/// Many stacks at once, in a process of its own, since its mappings are counted.
@Suite(.ownThreads) struct StackScaleTests {
  @Test(.enabled(if: hasGuardMarks))
  func hundredThousandGuardedStacksTakeFewMappingsAndOnePageEach() async {
    await #expect(processExitsWith: .success) {
      let pool = try StackPool(stackSize: 64 << 10)
      var stacks: [Stack] = []
      stacks.reserveCapacity(100_000)
      let mappingsBefore = mappingCount()
      for _ in 0..<100_000 {
        let stack = try pool.allocate()
        stack.touch(depth: 1)
        stacks.append(stack)
      }
      // Some 30 arenas, most of whose mappings have merged.
      #expect(mappingCount() - mappingsBefore < 1000)
      #expect(stacks.allSatisfy { $0.residentBytes == pageSize })
      #expect(pool.statistics.live == 100_000)
      #expect(Set(stacks).count == 100_000)

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
