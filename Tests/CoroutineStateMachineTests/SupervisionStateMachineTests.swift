import CoroutineTestSupport
import Testing

@testable import Coroutine

/// What a supervisor decides about a failure, by its strategy and by how many there were.
@Suite(.ownThreads) struct SupervisionStateMachineTests {
  @Test func restartsCountWithinTheWindowOnly() {
    var machine = SupervisionStateMachine(Supervision(restarts: 2, within: .nanoseconds(100), beyondLimit: .escalate))
    let times: [(UInt64, Supervision.Directive)] = [
      (0, .restart), (99, .restart), (99, .escalate), (100, .restart), (101, .escalate), (199, .restart),
    ]
    for (time, directive) in times {
      #expect(machine.failed(.restart, at: time) == .init(directive: directive, others: .none))
    }
    #expect(machine.failed(.resume, at: 200).directive == .resume)
    #expect(machine.failed(.stop, at: 200).directive == .stop)
  }

  @Test func noWindowEverHasMoreRestartsThanTheLimit() {
    // 0, 1, 2: a failure to restart after, this much later than the last event; 3: a failure without a restart
    let steps: [UInt64] = [0, 40, 100]
    for limit in 0...2 {
      everySequence(of: 4, length: 6) { events in
        var machine = SupervisionStateMachine(
          Supervision(restarts: limit, within: .nanoseconds(100), beyondLimit: .escalate))
        var (now, restarts) = (UInt64(1_000), [UInt64]())
        for event in events {
          guard event < 3 else {
            #expect(machine.failed(.resume, at: now).directive == .resume)
            continue
          }
          now += steps[event]
          let isAllowed = restarts.count { now - $0 < 100 } < limit
          #expect(machine.failed(.restart, at: now).directive == (isAllowed ? .restart : .escalate))
          if isAllowed { restarts.append(now) }
          // Expired failures are removed when they are half of the list.
          #expect(machine.restarts.count <= 2 * limit)
        }
      }
    }
  }

  @Test func whatConcernsTheOthers() {
    let strategies: [(Supervision.Strategy, SupervisionStateMachine.Others)] = [
      (.oneForOne, .none), (.oneForAll, .all), (.restForOne, .later),
    ]
    for (strategy, others) in strategies {
      for directive: Supervision.Directive in [.resume, .restart, .stop, .escalate] {
        var machine = SupervisionStateMachine(Supervision(strategy))
        let others = directive == .restart || directive == .stop ? others : .none
        #expect(machine.failed(directive, at: 0) == .init(directive: directive, others: others))
      }
    }
  }
}
