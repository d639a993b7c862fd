import CoroutineTestSupport
import Testing

@testable import Coroutine

/// Which thread does which blocking work, and when a thread ends.
@Suite(.ownThreads) struct BlockingStateMachineTests {
  @Test func workThatIsNotWantedLeavesTheQueueByAndBy() {
    var machine = BlockingStateMachine<Int, Int>(limit: 1)
    for number in 0...100 { _ = machine.submit(number) }
    var unwanted: Set<Int> = []
    for number in 1...49 {
      unwanted.insert(number)
      let removed = machine.withdraw { !unwanted.contains($0) }
      #expect(removed.isEmpty && machine.waiting.count == 100)
    }
    unwanted.insert(60)
    let removed = machine.withdraw { !unwanted.contains($0) }
    #expect(removed == Array(1...49) + [60])
    var begun: [Int] = []
    while case .run(let number) = machine.done(0) { begun.append(number) }
    #expect(begun == Array(50...59) + Array(61...100))
  }

  private typealias Machine = BlockingStateMachine<Int, String>

  @Test func theNewestIdleThreadIsTaken() {
    var machine = Machine(limit: 2)
    guard case .start("a") = machine.submit("a"), case .start("b") = machine.submit("b"),
      case .wait = machine.submit("c"), case .run("c") = machine.done(1),
      case .park = machine.done(2), case .park = machine.done(1),
      case .give(1, "d") = machine.submit("d")
    else {
      Issue.record("\(machine)")
      return
    }
    let endedTooEarly = machine.timedOut(1)
    let ended = machine.timedOut(2)
    #expect(!endedTooEarly)
    #expect(ended)
    #expect(machine.threads == 1)
  }

  @Test func noMoreWorkAtATimeThanAllowedAndNoneIsForgotten() {
    // 0: submit, 1: the first busy one ends, 2: the last busy one ends, 3: the oldest idle one gives up, 4 and 5: a
    // limit
    everySequence(of: 6, length: amount(6, sanitized: 5)) { events in
      var machine = BlockingStateMachine<Int, Int>(limit: 2)
      var limit = 2
      var (busy, idle) = ([Int](), [Int]())
      var (submitted, begun, threads) = (0, 0, 0)
      /// Work begins in the order of its submission.
      func begin(_ work: Int, on thread: Int) {
        #expect(work == begun && busy.count < limit)
        busy.append(thread)
        begun += 1
      }
      func perform(_ action: BlockingStateMachine<Int, Int>.SubmitAction) {
        switch action {
        case .give(let thread, let work):
          #expect(thread == idle.popLast())
          begin(work, on: thread)
        case .start(let work):
          #expect(idle.isEmpty)
          threads += 1
          begin(work, on: threads)
        case .wait: #expect(busy.count >= limit)
        }
      }
      for event in events {
        switch event {
        case 0:
          submitted += 1
          perform(machine.submit(submitted - 1))
        case 1 where !busy.isEmpty, 2 where !busy.isEmpty:
          let thread = event == 1 ? busy.removeFirst() : busy.removeLast()
          switch machine.done(thread) {
          case .run(let work): begin(work, on: thread)
          case .park: idle.append(thread)
          case .end: #expect(busy.count + idle.count >= limit)
          }
        case 3 where !idle.isEmpty:
          let ends = machine.timedOut(idle.removeFirst())
          #expect(ends)
        case 4, 5:
          limit = event == 4 ? 1 : 3
          let before = busy.count
          for action in machine.changeLimit(limit) { perform(action) }
          #expect(busy.count <= max(limit, before))
        default: break
        }
        #expect(machine.threads == busy.count + idle.count && machine.idle == idle)
        #expect(begun == submitted || busy.count >= limit, "work waits though a thread could do it")
      }
    }
  }
}
