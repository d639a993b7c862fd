// SPDX-License-Identifier: Apache-2.0

import CoroutineTestSupport
import Testing

/// `withObservationTracking` has a thread-local, which points into the stack of its caller. `CoroutineTrackingPrograms` does what
/// must not be done there, in processes of their own, and what may.
@Suite(.ownThreads) struct PropertyTrackingTests {
  @Test(arguments: [
    ("wait", "\"reader\" suspends"), ("yield", "\"reader\" suspends"), ("body", "\"reader\" suspends"),
    ("element", "a Generator's body yields"), ("outer", "a Generator's body yields"),
  ])
  func whatLeavesTrackingBehindTraps(_ program: String, _ what: String) async {
    let (ended, output) = await TestProgram.run("CoroutineTrackingPrograms", [program], .failure)
    #expect(ended && output.contains("\(what) inside withObservationTracking"), "\(output)")
  }

  @Test func trackingThatLiesElsewhereIsNone() async {
    let (ended, output) = await TestProgram.run("CoroutineTrackingPrograms", ["healthy"], .success)
    #expect(ended, "\(output)")
  }
}
