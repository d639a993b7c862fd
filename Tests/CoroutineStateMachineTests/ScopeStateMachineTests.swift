import CoroutineTestSupport
import Testing

@testable import Coroutine

/// A scope alone: every sequence of events up to a length.
@Suite(.ownThreads) struct ScopeStateMachineTests {
  private struct First: Error {}
  private struct Second: Error {}

  @Test func childrenOwnerAndJoinerKeepTheInvariants() {
    // 0: launch, 1: a child ends, 2: a child fails, 3: the body fails (once), 4: join (again after giving up),
    // 5: the owner gives up, 6: close
    everySequence(of: 7, length: amount(6, sanitized: 5)) { events in
      var machine = ScopeStateMachine()
      var model: ModelWaiter?
      let node = UnsafeMutablePointer<WaitNode>.allocate(capacity: 1)
      defer { node.deallocate() }
      var (live, failures, bodyHasFailed, isClosed) = (0, 0, false, false)
      for event in events {
        switch event {
        case 0:
          #expect(machine.launch() == (isClosed ? .refuse : .start))
          if !isClosed { live += 1 }
        case 1 where live > 0, 2 where live > 0:
          live -= 1
          let isFirst = event == 2 && failures == 0 && !bodyHasFailed
          let waits = model != nil && model?.cause == nil
          let result = machine.childEnded(event == 2 ? First() : nil)
          if event == 2 { failures += 1 }
          #expect(result.isFirstFailure == isFirst)
          #expect(result.woken.nodes == (live == 0 && waits ? [node] : []))
        case 3 where !bodyHasFailed:
          machine.bodyFailed(Second())
          bodyHasFailed = true
          #expect(machine.bodyFailure?.isFirst == (failures == 0))
        case 4 where model == nil || model?.cause != nil:
          model = ModelWaiter()
          node.initialize(to: WaitNode(model!.waiter))
          if case .wait = machine.join(node) {
            #expect(live > 0)
          } else {
            #expect(live == 0)
            model = nil
          }
        case 5 where model != nil && model?.cause == nil:
          #expect(model!.giveUp())
          _ = machine.withdraw(node)
          model = nil
        case 6 where model == nil:
          isClosed = machine.close()
          #expect(isClosed == (live == 0))
        default: break
        }
        #expect(machine.checkInvariants())
        #expect(machine.liveCount == live && machine.childFailures.count == failures)
      }
    }
  }

  @Test func launchesAndEndsKeepToTheLimit() {
    // 0: launch, 1: a running child ends, 2: a queued one starts if it may, 3: a queued one ends without a turn
    everySequence(of: 4, length: amount(8, sanitized: 6)) { events in
      var machine = ScopeStateMachine(limit: 2)
      var (running, queued) = (0, 0)
      for event in events {
        switch event {
        case 0:
          let action = machine.launch()
          #expect(action == (running < 2 ? .start : .queue))
          if action == .start { running += 1 } else { queued += 1 }
        case 1 where running > 0:
          machine.giveSlotBack()
          _ = machine.childEnded(nil)
          running -= 1
        case 2 where queued > 0:
          let starts = machine.takeSlot()
          #expect(starts == (running < 2))
          if starts { (running, queued) = (running + 1, queued - 1) }
        case 3 where queued > 0:
          _ = machine.childEnded(nil)
          queued -= 1
        default: break
        }
        #expect(machine.checkInvariants())
        #expect(machine.slotsTaken == running && machine.liveCount == running + queued)
      }
    }
  }

  @Test func childrenThatAreHeldKeepTheInvariants() {
    // 0: launch, 1: launch one that is held, 2: a held one is started, 3: one that runs ends, 4: join, 5: close
    everySequence(of: 6, length: amount(7, sanitized: 5)) { events in
      var machine = ScopeStateMachine()
      let node = UnsafeMutablePointer<WaitNode>.allocate(capacity: 1)
      defer { node.deallocate() }
      var model: ModelWaiter?
      var (running, held, isClosed) = (0, 0, false)
      for event in events {
        switch event {
        case 0:
          #expect(machine.launch() == (isClosed ? .refuse : .start))
          if !isClosed { running += 1 }
        case 1:
          #expect(machine.launchHeld() == !isClosed)
          if !isClosed { held += 1 }
        case 2 where held > 0:
          machine.heldStarts()
          (running, held) = (running + 1, held - 1)
        case 3 where running > 0:
          running -= 1
          let waits = model != nil
          let woken = machine.childEnded(nil).woken
          // Those that are held keep no joiner.
          #expect(woken.nodes == (running == 0 && waits ? [node] : []))
          if running == 0 { model = nil }
        case 4 where model == nil:
          model = ModelWaiter()
          node.initialize(to: WaitNode(model!.waiter))
          if case .wait = machine.join(node) {
            #expect(running > 0)
          } else {
            #expect(running == 0)
            model = nil
          }
        case 5 where !isClosed:
          #expect(machine.onlyHeldLive == (held > 0 && running == 0))
          isClosed = machine.close()
          #expect(isClosed == (held == 0 && running == 0))
        default: break
        }
        #expect(machine.checkInvariants())
        #expect(machine.liveCount == running + held && machine.heldCount == held)
      }
    }
  }
}
