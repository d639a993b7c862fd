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

  private func expectTrap(_ result: ExitTest.Result?, _ location: SourceLocation = #_sourceLocation) {
    #expect(
      standardError(of: result).contains("\"reader\" suspends inside withObservationTracking"), sourceLocation: location
    )
  }

  @Test func waitingInsideOfTrackingTraps() async {
    expectTrap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        try await Coroutine(on: ThreadPool(threads: 1), name: "reader") {
          let model = Model()
          withObservationTracking {
            _ = model.name
            try? Coroutine.sleep(for: .milliseconds(1))
          } onChange: {
          }
        }.get()
      })
  }

  /// A turn that passes from one to the next without the worker's loop.
  @Test func yieldingToAnotherInsideOfTrackingTraps() async {
    expectTrap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let pool = ThreadPool(threads: 1)
        let other = Coroutine(on: pool) { for _ in 0..<100 { Coroutine.yield() } }
        let reader = Coroutine(on: pool, name: "reader") {
          Coroutine.yield()
          let model = Model()
          withObservationTracking {
            _ = model.name
            Coroutine.yield()
          } onChange: {
          }
        }
        try await reader.get()
        try await other.get()
      })
  }

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
