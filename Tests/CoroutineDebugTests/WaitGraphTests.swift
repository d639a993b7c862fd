import Coroutine
import CoroutineTestSupport
import Testing

@testable import CoroutineDebug

@Suite(.ownThreads) struct WaitGraphTests {
  private func graph(_ wakers: [Wakers], children: [UInt: [UInt64]] = [:]) -> WaitGraph {
    let nodes = wakers.enumerated().map { WaitGraph.Node(id: UInt64($0.offset), resource: 0, wakers: $0.element) }
    return WaitGraph(nodes, children: children)
  }

  /// Whether a waiter with these wakers waits for ever, if exactly the coroutines `stuck` never wake it.
  private func lasts(_ wakers: Wakers, _ stuck: Set<UInt64>) -> Bool {
    switch wakers {
    case .unknown: false
    case .coroutine(let id): stuck.contains(id)
    case .all(let ids): !stuck.isDisjoint(with: ids)
    case .any(let choices): choices.allSatisfy { lasts($0, stuck) }
    case .scope, .readers: false
    }
  }

  @Test func ofEverySmallGraphTheLargestStuckSetIsFound() {
    var choices: [Wakers] = [.unknown]
    choices += (0..<4).map { .coroutine(UInt64($0)) }
    for (left, right) in [(0, 1), (1, 2), (2, 0), (0, 9)] as [(UInt64, UInt64)] {
      choices += [.all([left, right]), .any([.coroutine(left), .coroutine(right)])]
    }
    everySequence(of: choices.count, length: 3) { picked in
      let wakers = picked.map { choices[$0] }
      // Coroutine 3 waits for nothing, and coroutine 9 does not exist.
      let graph = graph(wakers)
      // The largest set whose members all wait for ever because of other members: the union of all such sets.
      var expected: Set<UInt64> = []
      for bits in 0..<8 {
        let set = Set((0..<3).filter { bits & 1 << $0 != 0 }.map { UInt64($0) })
        if set.allSatisfy({ lasts(wakers[Int($0)], set) }) { expected.formUnion(set) }
      }
      #expect(graph.stuck == expected)
      // Each stuck coroutine is in a cycle or waits for one. In a cycle each waits for the next.
      let cycles = graph.cycles
      #expect(Set(cycles.flatMap { $0.members + $0.waiting }) == expected)
      #expect(cycles.flatMap { $0.members + $0.waiting }.count == expected.count)
      for cycle in cycles {
        for (index, member) in cycle.members.enumerated() {
          let next = cycle.members[(index + 1) % cycle.members.count]
          #expect("\(wakers[Int(member)])".contains("\(next)"))
        }
      }
    }
  }

  private func everySequence(of count: Int, length: Int, _ check: ([Int]) -> Void) {
    var total = 1
    for _ in 0..<length { total *= count }
    for number in 0..<total {
      var rest = number
      check(
        (0..<length).map { _ in
          defer { rest /= count }
          return rest % count
        })
    }
  }

  @Test func oneThatIsFreeAfterAllFreesThoseThatWaitForItAlone() {
    // 0 and 1 wait for each other, 2 for 0, 3 for 4, 4 for itself.
    var graph = graph([.coroutine(1), .coroutine(0), .coroutine(0), .coroutine(4), .coroutine(4)])
    #expect(graph.cycles.map(\.members) == [[0, 1], [4]])
    #expect(graph.cycles.map(\.waiting) == [[2], [3]])
    graph.free(1)
    #expect(graph.stuck == [3, 4])
  }

  @Test func aScopeLastsAsLongAsOneChildDoes() {
    let children: [UInt: [UInt64]] = [7: [1, 2], 8: [2]]
    #expect(graph([.scope(7), .coroutine(0), .unknown], children: children).stuck == [0, 1])
    #expect(graph([.scope(8), .coroutine(0), .unknown], children: children).stuck == [])
  }

  @Test func aReadersLockCountsOnlyIfNoWaiterCanGiveUp() {
    #expect(graph([.readers([0], queued: 1)]).stuck == [0])
    #expect(graph([.readers([0], queued: 2)]).stuck == [])
    #expect(graph([.readers([0], queued: 2), .readers([0], queued: 2)]).stuck == [0, 1])
    #expect(graph([.readers([5], queued: 1)]).stuck == [])
  }

  @Test func aLongRowTakesLinearTime() {
    let count: UInt64 = 20_000
    let row = (0..<count).map { Wakers.coroutine($0 + 1) }
    #expect(graph(row).stuck.isEmpty)
    let cycle = graph(row + [.coroutine(0)])
    #expect(cycle.cycles == [WaitGraph.Cycle(members: Array(0...count), waiting: [])])
  }
}
