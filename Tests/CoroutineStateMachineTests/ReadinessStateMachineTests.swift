import CoroutineTestSupport
import Testing

@testable import Coroutine

/// Which waiters a descriptor has, in every sequence of events up to a length.
@Suite(.ownThreads) struct ReadinessStateMachineTests {
  private struct Party {
    let model: ModelWaiter
    let node: UnsafeMutablePointer<WaitNode>
    let readiness: Readiness

    init(for readiness: Readiness) {
      self.readiness = readiness
      model = ModelWaiter()
      node = .allocate(capacity: 1)
      node.initialize(to: WaitNode(model.waiter))
    }
  }

  @Test func eachChangeWakesItsWaitersAndIsNotMissed() {
    // 0, 1: wait to read, to write, having seen the count; 2, 3: the same, having seen the one before; 4, 5, 6:
    // readable, writable, both; 7: the first waiter gives up; 8: close.
    everySequence(of: 9, length: amount(5, sanitized: 4)) { events in
      var machine = ReadinessStateMachine()
      var (parties, waiting): ([Party], [Party]) = ([], [])
      defer { for party in parties { party.node.deinitialize(count: 1).deallocate() } }
      func expectWoken(_ woken: ClaimedWaiters, _ readiness: Readiness) {
        let concerned = waiting.filter { readiness.contains($0.readiness) }
        let order = concerned.filter { $0.readiness == .readable } + concerned.filter { $0.readiness == .writable }
        #expect(woken.nodes == order.map(\.node))
        waiting.removeAll { readiness.contains($0.readiness) }
      }
      for event in events {
        switch event {
        case 0...3:
          let party = Party(for: event.isMultiple(of: 2) ? .readable : .writable)
          parties.append(party)
          let count = party.readiness == .readable ? machine.readEvents : machine.writeEvents
          switch machine.wait(party.node, for: party.readiness, seen: event < 2 ? count : count &- 1) {
          case .wait:
            #expect(event < 2 && !machine.isClosed)
            waiting.append(party)
          case .done: #expect(event >= 2 || machine.isClosed)
          case .wake, .wakeAll: Issue.record("a wait wakes no waiter")
          }
        case 4: expectWoken(machine.becomeReady(.readable), .readable)
        case 5: expectWoken(machine.becomeReady([.writable, .hungUp]), .writable)
        case 6: expectWoken(machine.becomeReady([.readable, .writable]), [.readable, .writable])
        case 7 where !waiting.isEmpty:
          let party = waiting.removeFirst()
          #expect(party.model.giveUp())
          machine.withdraw(party.node, from: party.readiness)
        case 8:
          let wasClosed = machine.isClosed
          if let woken = machine.close() {
            #expect(!wasClosed)
            expectWoken(woken, [.readable, .writable])
          } else {
            #expect(wasClosed)
          }
        default: break
        }
        #expect(machine.readers.count + machine.writers.count == waiting.count)
      }
    }
  }
}
