import CoroutineTestSupport
import Testing

@testable import Coroutine

/// A deadline that is moved while its time comes.
@Suite(.ownThreads) struct DeadlineStateMachineTests {
  /// All sequences of what two movers, the timer and the owner do.
  @Test func theMachineKeepsTheLastMoveAndOneEnd() {
    everySequence(of: 7, length: amount(6, sanitized: 5)) { events in
      var machine = DeadlineStateMachine(0)
      machine.begin(at: 1)
      var looks: [DeadlineStateMachine<Int>.Look?] = [nil, nil]
      var (isArmed, isEnded, moment, next) = (true, false, 1, 10)
      for event in events {
        switch event {
        case 0, 1:
          looks[event] = machine.look
          #expect((looks[event] == nil) == (machine.phase != .ahead))
        case 2, 3:
          guard let look = looks[event - 2] else { continue }
          next += 1
          switch machine.move(since: look) {
          case .takeTimerBack:
            #expect(!isEnded && look.moment == moment)
            if isArmed {
              #expect(machine.moved(to: next) == moment)
              moment = next
            } else {
              machine.foundPassed()
              #expect(machine.phase == .passed)
            }
          case .lookAgain: #expect(look.moment != moment && machine.phase == .ahead)
          case .tooLate: #expect(machine.phase != .ahead)
          }
        case 4: isArmed = false
        case 5:
          let wasAhead = machine.phase == .ahead
          #expect((machine.end() == .takeTimerBack) == wasAhead)
          isEnded = true
        default: machine.foundPassed()
        }
        #expect(machine.moment == moment && (machine.phase == .over) == isEnded)
      }
    }
  }
}
