import CCoroutine
import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

/// A coroutine that runs on top of other code runs inside that code's accesses. An overlap with one of them traps.
/// When the coroutine goes on elsewhere, they are not its own.
@Suite(.ownThreads) struct LentAccessTests {
  typealias Variable = ExclusivityTests.Variable

  private func expectOverlap(_ result: ExitTest.Result?, _ location: SourceLocation = #_sourceLocation) {
    #expect(standardError(of: result).contains("imultaneous accesses"), sourceLocation: location)
  }

  // MARK: - What traps

  @Test func insideOfRunUntilComplete() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        func run() throws {
          let variable = Variable()
          try variable.modify { _ in try runUntilComplete { variable.append(1) } }
        }
        try run()
      })
  }

  @Test func insideOfRunUntilCompleteInACoroutineOfItsOwn() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        func run() throws {
          let variable = Variable()
          try variable.modify { _ in
            try runUntilComplete {
              try Coroutine {
                Coroutine.yield()
                variable.append(1)
              }.get()
            }
          }
        }
        try run()
      })
  }

  @Test func inACoroutineBegunAtOnce() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let variable = Variable()
        variable.modify { _ in _ = Coroutine.immediate { variable.append(1) } }
      })
  }

  @Test func inOneBegunAtOnceByAnotherAmidAnAccessOfItsOwn() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let (variable, others) = (Variable(), [Variable(), Variable()])
        variable.modify { _ in
          _ = Coroutine.immediate {
            others[0].modify { _ in
              _ = Coroutine.immediate { others[1].modify { _ in variable.append(1) } }
            }
          }
        }
      })
  }

  @Test func inAGeneratorThatACoroutineBegunAtOnceConsumes() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let variable = Variable()
        variable.modify { _ in
          _ = Coroutine.immediate {
            let generator = Generator<Int> { yield in
              try yield(1)
              variable.append(1)
            }
            _ = (generator.next(), generator.next())
          }
        }
      })
  }

  @Test func inOneThatIsJoinedAndRunsAtOnce() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        // As in `JoinAheadTests`: no coroutine runs ahead while times are recorded, which other tests in this program
        // turn on.
        coroutine_record_times(false)
        func run() throws {
          try runUntilComplete {
            let variable = Variable()
            let joined = Coroutine { variable.append(1) }
            try variable.modify { _ in try joined.get() }
          }
        }
        try run()
      })
  }

  @Test func inAnActorThatIsHandedTheThread() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        func run() throws {
          try runUntilComplete {
            let variable = Variable()
            let actor = MessageActor<Reply<Int>> { mailbox in
              for reply in mailbox {
                variable.append(1)
                reply.complete(1)
              }
            }
            // The actor waits for a message then.
            Coroutine.yield()
            try variable.modify { _ in _ = try actor.ask { $0 } }
          }
        }
        try run()
      })
  }

  // MARK: - What doesn't

  @Test func anAccessOpenedInsideEndsElsewhereAfterTheOnesAround() async throws {
    let (around, inside) = (Variable(), Variable())
    let release = Channel<Int>()
    var coroutine: Coroutine<Void, any Error>?
    around.modify { values in
      coroutine = Coroutine.immediate {
        try inside.modify { values in
          values.append(try release.receive())
          // It runs on another thread now, and the outer access has ended.
          around.append(8)
        }
        inside.append(9)
      }
      values.append(7)
    }
    around.append(7)
    try await release.send(4)
    try await coroutine?.get()
    #expect(around.values == [1, 2, 3, 7, 7, 8])
    #expect(inside.values == [1, 2, 3, 4, 9])
  }

  @Test func aCoroutineIsResumedInsideOfOthersAccessesInTurn() throws {
    let (around, own, last) = (Variable(), Variable(), Variable())
    let outside = Channel<Int>()
    try around.modify { values in
      try runUntilComplete {
        try own.modify { values in
          // Several coroutines, one on top of another and one after another, each with open accesses where it
          // suspends.
          let coroutines = (0..<4).map { index in
            Coroutine { () -> Int in
              let (one, other) = (Variable(), Variable())
              for round in 0..<10 {
                one.modify { values in
                  Coroutine.yield()
                  values.append(round)
                  other.modify { values in
                    Coroutine.immediate { last.append(index) }
                    Coroutine.yield()
                    values.append(round)
                  }
                }
                Coroutine.yield()
              }
              return one.values.count + other.values.count
            }
          }
          for coroutine in coroutines { values.append(try coroutine.get()) }
          Coroutine.immediate { _ = try outside.receive() }
          try outside.send(1)
        }
      }
      values.append(4)
    }
    around.append(5)
    own.append(6)
    #expect(around.values == [1, 2, 3, 4, 5])
    #expect(own.values == [1, 2, 3, 26, 26, 26, 26, 6])
    #expect(last.values.count == 43)
  }

  @Test func accessesEndInEitherOrderBelowALentOne() async throws {
    let (around, first, second) = (Variable(), Variable(), Variable())
    let (toFirst, toSecond) = (Channel<Int>(), Channel<Int>())
    var coroutines: [Coroutine<Void, any Error>] = []
    around.modify { _ in
      coroutines.append(
        Coroutine.immediate {
          try first.modify { $0.append(try toFirst.receive()) }
          first.append(9)
        })
      coroutines.append(
        Coroutine.immediate {
          try second.modify { $0.append(try toSecond.receive()) }
          second.append(9)
        })
    }
    try await toSecond.send(5)
    try await coroutines[1].get()
    try await toFirst.send(4)
    try await coroutines[0].get()
    around.append(6)
    #expect(first.values == [1, 2, 3, 4, 9])
    #expect(second.values == [1, 2, 3, 5, 9])
    #expect(around.values == [1, 2, 3, 6])
  }

  @Test func aCoroutineThatEndsInsideLeavesTheAccessesAround() {
    let around = Variable()
    around.modify { values in
      for index in 0..<3 {
        Coroutine.immediate {
          let own = Variable()
          own.modify { $0.append(index) }
        }
      }
      values.append(4)
    }
    around.append(5)
    #expect(around.values == [1, 2, 3, 4, 5])
  }

  @Test func aGeneratorInsideYieldsWithAnAccessOpen() {
    let around = Variable()
    around.modify { values in
      let elements = Guarded<[Int]>([])
      Coroutine.immediate {
        let own = Variable()
        let generator = Generator<Int> { yield in
          try own.modify { values in for value in values { try yield(value) } }
        }
        let all = Array(generator)
        elements.withLock { $0 = all }
        own.append(0)
      }
      values += elements.withLock { $0 }
    }
    #expect(around.values == [1, 2, 3, 1, 2, 3])
  }
}
