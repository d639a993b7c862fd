// SPDX-License-Identifier: Apache-2.0

import CoroutineTestSupport
import Observation
import Testing

@testable import Coroutine

/// `withObservationTracking` has a thread-local, which points into the stack of its caller.
@Suite(.ownThreads) struct PropertyTrackingTests {
  @Observable final class Model {
    var name = ""
    var size = 0
  }

  #if DEBUG
    @Test func waitingInsideOfTrackingTraps() async {
      let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        try await Coroutine(on: ThreadPool(threads: 1), name: "reader") {
          let model = Model()
          withObservationTracking {
            _ = model.name
            Coroutine.yield()
          } onChange: {
          }
        }.get()
      }
      #expect(standardError(of: result).contains("\"reader\" suspends inside withObservationTracking"))
    }
  #endif

  /// One that has ended, and one around the code that a coroutine runs on top of, are not its own.
  @Test func trackingThatLiesElsewhereIsNone() {
    let size = PlainThread {
      let model = Model()
      return withObservationTracking {
        try? runUntilComplete {
          let size = withObservationTracking {
            model.size
          } onChange: {
          }
          Coroutine.yield()
          return size
        }
      } onChange: {
      }
    }.join()
    #expect(size == 0)
  }
}
