import Context
import Testing

/// Many stacks at once. Not beside other tests: it counts the mappings of the process.
@Suite(.serialized) struct StackScaleTests {
  @Test(.enabled(if: hasGuardMarks))
  func hundredThousandGuardedStacksTakeFewMappingsAndOnePageEach() throws {
    let pool = try StackPool(stackSize: 64 << 10)
    let mappingsBefore = mappingCount()
    var stacks: [Stack] = []
    stacks.reserveCapacity(100_000)
    for _ in 0..<100_000 {
      let stack = try pool.allocate()
      stack.touch(depth: 1)
      stacks.append(stack)
    }
    // Some 30 arenas, most of them merged; other tests of this process have mappings too, but not thousands.
    #expect(mappingCount() - mappingsBefore < 4000)
    #expect(stacks.allSatisfy { $0.residentBytes == pageSize })
    #expect(pool.statistics.live == 100_000)
    #expect(Set(stacks).count == 100_000)

    stacks.forEach(pool.release)
    let statistics = pool.statistics
    #expect(statistics.live == 0)
    #expect(statistics.residentIdle <= 256 + 64)
    #expect(stacks.reduce(0) { $0 + $1.residentBytes } == statistics.residentIdle * pageSize)
    #expect(pool.brokenInvariant() == nil)
  }
}
