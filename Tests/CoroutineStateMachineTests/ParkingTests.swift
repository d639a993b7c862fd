import CoroutineTestSupport
import Glibc
import Synchronization
import Testing

@testable import Coroutine

/// The word by which wakers claim a wait.
@Suite(.ownThreads) struct ParkingTests {
  /// What a waiter and its wakers know of one wait.
  private enum Known: Equatable {
    case awake, suspending, parked
    case claimed(WakeCause)
  }

  /// In every order of steps: a wait is claimed once, by the first, whether it has begun or not. (A claim between the
  /// beginning of a wait and its parking waits for the waiter: below.)
  @Test func everyOrderOfStepsIsClaimedByTheFirstOnly() {
    // 0: begin, 1: begin no more, 2: park, 3: claim, 4: claim early, 5: park what has not begun
    everySequence(of: 6, length: amount(6, sanitized: 5)) { steps in
      let parking = Parking()
      var known = Known.awake
      for (number, step) in steps.enumerated() {
        let cause = WakeCause.selected(number)
        let isRight: Bool
        switch (step, known) {
        case (0, .awake):
          isRight = parking.prepareUnlessClaimed()
          known = .suspending
        case (0, .claimed): isRight = !parking.prepareUnlessClaimed()
        case (1, .suspending):
          parking.abandon()
          (isRight, known) = (true, .awake)
        case (2, .suspending):
          parking.markParked()
          (isRight, known) = (true, .parked)
        case (3, .parked):
          isRight = parking.claim(cause)
          known = .claimed(cause)
        case (3, .awake), (3, .claimed): isRight = !parking.claim(cause)
        case (4, .awake), (4, .parked):
          isRight = parking.claimEarly(cause) == (true, known == .parked)
          known = .claimed(cause)
        case (4, .claimed): isRight = parking.claimEarly(cause) == (false, false)
        case (5, .awake):
          isRight = parking.markParkedUnlessClaimed()
          known = .parked
        case (5, .claimed): isRight = !parking.markParkedUnlessClaimed()
        default: isRight = true
        }
        let isAwake = parking.isAwake
        let isParked = parking.isParked
        let found = parking.cause
        #expect(isRight && isAwake == (known == .awake) && isParked == (known == .parked), "\(steps)")
        if case .claimed(let cause) = known { #expect(found == cause) }
      }
    }
  }

  /// A waiter begins to wait, gives that up, and begins anew, as a select that has to prepare a case again. A waker that came
  /// in between is the only one, and must end the wait, be it before the wait has begun.
  @Test func aWaiterThatBeginsAnewIsClaimedByWhoeverCameBefore() {
    for round in 0..<amount(50, sanitized: 20) {
      let (parking, isThere) = (Holder(Parking()), Holder(Atomic<Bool>(false)))
      parking.value.prepare()
      let waker = PlainThread { () -> (isFirst: Bool, mustWake: Bool) in
        isThere.value.store(true, ordering: .relaxed)
        return parking.value.claimEarly(.cancelled)
      }
      while !isThere.value.load(ordering: .relaxed) { sched_yield() }
      for _ in 0..<20 { sched_yield() }
      parking.value.abandon()
      // In half of the rounds the waker has seen that.
      let claim = round.isMultiple(of: 2) ? waker.join() : nil
      let waits = parking.value.prepareUnlessClaimed()
      if waits { parking.value.markParked() }
      let (isFirst, mustWake) = claim ?? waker.join()
      let cause = parking.value.cause
      #expect(isFirst && mustWake == waits && cause == .cancelled)
    }
  }
}
