import CoroutineTestSupport
import Testing

@testable import Coroutine

/// When the next tick is due.
@Suite(.ownThreads) struct TickScheduleTests {
  @Test func aScheduleKeepsToTheMultiplesHoweverLateEachLook() {
    // How late each look is, in quarters of the period.
    everySequence(of: 10, length: amount(5, sanitized: 4)) { quarters in
      var schedule = TickSchedule(every: 40, from: 1_000)
      for late in quarters {
        let (before, now) = (schedule.due, schedule.due + UInt64(late) * 10)
        schedule.advance(past: now)
        #expect((schedule.due - 1_000).isMultiple(of: 40))
        #expect(schedule.due > now && schedule.due - now <= 40 && schedule.due > before)
      }
    }
    var last = TickSchedule(every: .max / 2, from: .max / 2)
    last.advance(past: last.due)
    #expect(last.due == .max)
  }
}
