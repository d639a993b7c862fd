import CoroutineTestSupport
import Testing

@testable import Coroutine

/// The state machines alone: every sequence of events up to a length, with the invariants checked after each.
@Suite(.ownThreads) struct StateMachineTests {
  @Test func aCompletionWakesEachJoinerOnceUnlessItGaveUp() {
    // 0: join, 1: complete (the first counts), 2: the first joiner gives up and withdraws
    everySequence(of: 3, length: 7) { events in
      var machine = CompletionStateMachine()
      var joiners: [(model: ModelWaiter, node: UnsafeMutablePointer<WaitNode>)] = []
      var waiting: [UnsafeMutablePointer<WaitNode>] = []
      defer { for joiner in joiners { joiner.node.deinitialize(count: 1).deallocate() } }
      for event in events {
        switch event {
        case 0:
          let model = ModelWaiter()
          let node = UnsafeMutablePointer<WaitNode>.allocate(capacity: 1)
          node.initialize(to: WaitNode(model.waiter))
          joiners.append((model, node))
          switch machine.join(node) {
          case .wait:
            #expect(!machine.isFinished)
            waiting.append(node)
          case .done: #expect(machine.isFinished)
          case .wake, .wakeAll: Issue.record("a join wakes no waiter")
          }
        case 1 where !machine.isFinished:
          #expect(machine.complete().nodes == waiting)
          waiting = []
        case 2:
          guard let first = joiners.first(where: { $0.model.cause == nil && waiting.contains($0.node) }) else {
            continue
          }
          #expect(first.model.giveUp())
          _ = machine.withdraw(first.node)
          waiting.removeFirst()
        default: break
        }
      }
    }
  }

  @Test func aSuspensionHasOneOutcome() {
    // 0: wait (once), 1: settle, 2: give up and withdraw
    everySequence(of: 3, length: 6) { events in
      var machine = SuspensionStateMachine<Int>()
      let model = ModelWaiter()
      var node = WaitNode(model.waiter)
      var (hasWaited, hasWithdrawn) = (false, false)
      var settled: Int?
      for (number, event) in events.enumerated() {
        switch event {
        case 0 where !hasWaited:
          hasWaited = true
          withUnsafeMutablePointer(to: &node) {
            switch machine.wait($0) {
            case .done: #expect(settled != nil)
            case .wait: #expect(settled == nil)
            case .wake, .wakeAll: Issue.record("a wait wakes no waiter")
            }
          }
        case 1:
          switch machine.settle(.success(number)) {
          case .none: #expect(settled == nil && !hasWaited)
          case .wake: #expect(settled == nil && hasWaited && !hasWithdrawn)
          case .tooLate:
            #expect(settled != nil || hasWithdrawn)
            continue
          }
          settled = number
        case 2 where hasWaited && !hasWithdrawn && settled == nil:
          #expect(model.giveUp())
          _ = machine.withdraw()
          // From here on the node may be gone.
          node = WaitNode(ModelWaiter().waiter)
          hasWithdrawn = true
        default: break
        }
      }
      if hasWaited, !hasWithdrawn, let settled {
        let outcome = try? machine.take()?.get()
        #expect(outcome == settled)
        if case .tooLate = machine.settle(.success(-1)) {} else { Issue.record("settled again after the end") }
      }
    }
  }
}
