import CoroutineTestSupport
import Testing

@testable import Coroutine

/// Which waiters a descriptor has, in every sequence of events up to a length.
@Suite(.ownThreads) struct ReadinessStateMachineTests {
  private struct Party {
    let model: ModelWaiter
    let node: UnsafeMutablePointer<WaitNode>
    let readiness: Readiness
    let callsAgain: Bool

    init(for readiness: Readiness, callsAgain: Bool) {
      (self.readiness, self.callsAgain) = (readiness, callsAgain)
      model = ModelWaiter()
      node = .allocate(capacity: 1)
      node.initialize(to: WaitNode(model.waiter))
    }
  }

  @Test func eachChangeWakesItsWaitersAndIsNotMissed() {
    // 0, 1: wait to read, to write, having seen the count; 2, 3: the same, having seen the one before; 4, 5, 6:
    // readable, writable, both; 7: the first waiter gives up; 8: close; 9: waits until it is readable; 10: a late report of that;
    // 11: bytes are read ahead.
    everySequence(of: 12, length: amount(5, sanitized: 4)) { events in
      var machine = ReadinessStateMachine()
      var (parties, waiting): ([Party], [Party]) = ([], [])
      defer { for party in parties { party.node.deinitialize(count: 1).deallocate() } }
      func expectWoken(_ woken: ClaimedWaiters, _ readiness: Readiness, isStill: Bool = true) {
        func isConcerned(_ party: Party) -> Bool {
          readiness.contains(party.readiness) && (party.callsAgain || isStill)
        }
        let concerned = waiting.filter(isConcerned)
        let toRead = concerned.filter { $0.readiness == .readable }
        let order =
          toRead.filter(\.callsAgain) + toRead.filter { !$0.callsAgain }
          + concerned.filter { $0.readiness == .writable }
        #expect(woken.nodes == order.map(\.node))
        waiting.removeAll(where: isConcerned)
      }
      for event in events {
        switch event {
        case 0...3:
          let party = Party(for: event.isMultiple(of: 2) ? .readable : .writable, callsAgain: true)
          parties.append(party)
          let count = party.readiness == .readable ? machine.readEvents : machine.writeEvents
          switch machine.wait(party.node, for: party.readiness, seen: event < 2 ? count : count &- 1) {
          case .wait:
            #expect(event < 2 && !machine.isClosed)
            waiting.append(party)
          case .done: #expect(event >= 2 || machine.isClosed)
          case .wake, .wakeAll: Issue.record("a wait wakes no waiter")
          }
        case 4: expectWoken(machine.becomeReady(.readable) { _ in true }, .readable)
        case 5: expectWoken(machine.becomeReady([.writable, .hungUp]) { _ in true }, .writable)
        case 6: expectWoken(machine.becomeReady([.readable, .writable]) { _ in true }, [.readable, .writable])
        case 7 where !waiting.isEmpty:
          let party = waiting.removeFirst()
          #expect(party.model.giveUp())
          machine.withdraw(party.node, from: party.readiness, callsAgain: party.callsAgain)
        case 8:
          let wasClosed = machine.isClosed
          if let woken = machine.close() {
            #expect(!wasClosed)
            expectWoken(woken, [.readable, .writable])
          } else {
            #expect(wasClosed)
          }
        case 9:
          let party = Party(for: .readable, callsAgain: false)
          parties.append(party)
          if case .wait = machine.wait(party.node, for: .readable, seen: nil) {
            waiting.append(party)
          } else {
            #expect(machine.isClosed)
          }
        case 10: expectWoken(machine.becomeReady(.readable) { _ in false }, .readable, isStill: false)
        case 11:
          #expect(machine.bytesAreReadAhead().nodes == waiting.filter { !$0.callsAgain }.map(\.node))
          waiting.removeAll { !$0.callsAgain }
        default: break
        }
        #expect(machine.readers.count + machine.writers.count + machine.readableWaiters.count == waiting.count)
      }
    }
  }
}
