import CoroutineTestSupport
import Testing

@testable import Coroutine

/// The state machines of promises alone: every sequence of events up to a length, with the invariants checked after
/// each.
@Suite(.ownThreads) struct PromiseStateMachineTests {
  @Test func aPromiseIsSettledOnceAndEachWaiterIsToldOnceInOrder() {
    var checked = 0
    // 0: wait, 1: the first waiter gives up, 2: fulfill, 3: cancel, 4: observe, 5: the first observer withdraws, 6:
    // the observer that is to run is done
    everySequence(of: 7, length: amount(6, debug: 5, sanitized: 4)) { events in
      var machine = PromiseStateMachine()
      var nodes: [UnsafeMutablePointer<WaitNode>] = []
      var waiting: [(model: ModelWaiter, node: UnsafeMutablePointer<WaitNode>)] = []
      var models: [ModelWaiter] = []  // the nodes do not keep them alive
      var registered: [PromiseObserver] = []
      var all: [PromiseObserver] = []
      var running: PromiseObserver?
      var phase = PromiseStateMachine.Phase.pending
      var handlerCount = 1
      defer {
        for node in nodes { node.deinitialize(count: 1).deallocate() }
        // Each coroutine must run to its end.
        for observer in all { observer.schedule() }
      }
      _ = machine.addCancelHandler {}
      func expectNext(_ observer: PromiseObserver?) {
        if phase != .pending, running == nil, !registered.isEmpty {
          #expect(observer === registered.removeFirst())
          running = observer
        } else {
          #expect(observer == nil)
        }
      }
      for event in events {
        switch event {
        case 0:
          let model = ModelWaiter()
          models.append(model)
          let node = UnsafeMutablePointer<WaitNode>.allocate(capacity: 1)
          node.initialize(to: WaitNode(model.waiter))
          nodes.append(node)
          switch machine.wait(node) {
          case .wait:
            #expect(phase == .pending)
            waiting.append((model, node))
          case .done: #expect(phase != .pending && machine.wasObserved)
          case .wake, .wakeAll: Issue.record("a wait wakes no waiter")
          }
        case 1:
          guard phase == .pending, !waiting.isEmpty else { continue }
          let first = waiting.removeFirst()
          #expect(first.model.giveUp())
          let answers = [machine.withdraw(first.node), machine.withdraw(first.node)]
          #expect(answers == [true, false])
        case 2, 3:
          let new = event == 2 ? PromiseStateMachine.Phase.fulfilled : .cancelled
          switch machine.settle(as: new, isCancel: new == .cancelled) {
          case .settled(let waiters, let observer, let handlers):
            #expect(phase == .pending)
            #expect(waiters.nodes == waiting.map(\.node))
            #expect(handlers.count == handlerCount)
            waiting = []
            phase = new
            expectNext(observer)
          case .tooLate: #expect(phase != .pending)
          }
          #expect(machine.phase == phase)
        case 4:
          let observer = PromiseObserver(on: .sharedPool, name: "", stackSize: nil) { _ in }
          all.append(observer)
          registered.append(observer)
          expectNext(machine.observe(observer))
        case 5:
          guard let first = registered.first else { continue }
          let answers = [machine.withdraw(first), machine.withdraw(first)]
          #expect(answers == [true, false])
          registered.removeFirst()
        default:
          guard running != nil else { continue }
          running = nil
          expectNext(machine.observerIsDone())
        }
        if let running {
          let wasQueued = machine.withdraw(running)
          #expect(!wasQueued, "it is the one that runs")
        }
        #expect(machine.checkInvariants())
        switch machine.addCancelHandler({}) {
        case .call: #expect(phase == .cancelled)
        case .none:
          #expect(phase != .cancelled)
          if phase == .pending { handlerCount += 1 }
        }
      }
      checked += 1
    }
    #expect(checked == amount(117_649, debug: 16_807, sanitized: 2401))
  }

  @Test func onlyTheFirstLateSettlementIsWorthAReportAndNoneAfterACancel() {
    func isWorthReporting(_ action: PromiseStateMachine.SettleAction) -> Bool? {
      if case .tooLate(let isWorthReporting) = action { isWorthReporting } else { nil }
    }
    for first in [PromiseStateMachine.Phase.fulfilled, .rejected, .cancelled] {
      var machine = PromiseStateMachine()
      #expect(isWorthReporting(machine.settle(as: first)) == nil)
      #expect(isWorthReporting(machine.settle(as: .rejected)) == (first != .cancelled))
      #expect(isWorthReporting(machine.settle(as: .fulfilled)) == false)
      #expect(machine.phase == first)
    }
  }

  @Test func aBatchIsOverExactlyOnce() {
    // Four promises end in this order, unless they have ended before. Those at odd places fail.
    for goal in [BatchStateMachine.Goal.allEnded, .allSucceeded, .firstEnded, .firstSucceeded] {
      everySequence(of: 8, length: amount(5, sanitized: 4)) { events in
        var machine = BatchStateMachine(4, until: goal)
        let model = ModelWaiter()
        var node = WaitNode(model.waiter)
        withUnsafeMutablePointer(to: &node) { node in
          guard case .wait = machine.wait(node) else {
            Issue.record("nothing has ended")
            return
          }
          var ended: [(index: Int, hasFailed: Bool)] = []
          var wakes = 0
          for event in events {
            let (index, hasFailed) = (event % 4, event >= 4)
            if ended.contains(where: { $0.index == index }) { continue }
            ended.append((index, hasFailed))
            if case .wakeAll(let waiters) = machine.end(index, hasFailed: hasFailed) {
              #expect(waiters.nodes == [node])
              wakes += 1
            }
            let decisive: Int? =
              switch goal {
              case .allEnded: nil
              case .allSucceeded: ended.first { $0.hasFailed }?.index
              case .firstEnded: ended.first?.index
              case .firstSucceeded: ended.first { !$0.hasFailed }?.index
              }
            #expect(machine.decisive == decisive)
            #expect(machine.isOver == (ended.count == 4 || decisive != nil))
            #expect(wakes == (machine.isOver ? 1 : 0))
          }
          if !machine.isOver { _ = machine.withdraw(node) }
        }
      }
    }
  }
}
