import CCoroutine
import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

/// Coroutines that run in an actor's `runUntilComplete` may share its variables: by `assumeIsolated`. As those of the main
/// actor (`MainActorOverlapTests`), they have their accesses open while they are suspended.
@Suite(.ownThreads) struct SharedAccessTests {
  private actor Store {
    var items = [3, 1, 2]
    var others = [1]

    func runs(_ body: @Sendable @escaping () throws -> Void) throws { try runUntilComplete { try body() } }

    nonisolated func waits(_ body: @Sendable () throws -> Void) throws {
      try assumeIsolated { try Self.hold(&$0.items[1], body) }
    }

    nonisolated func changes() { assumeIsolated { $0.items = [] } }
    nonisolated func changesBack() { assumeIsolated { $0.items = [3, 1, 2] } }
    nonisolated func changesOthers() { assumeIsolated { $0.others.append(1) } }

    /// Changes the value after `body`: the compiler may remove an access to a value that is not used.
    @inline(never)
    private static func hold(_ value: inout Int, _ body: () throws -> Void) throws {
      try body()
      value += 1
    }
  }

  private func expectOverlap(_ result: ExitTest.Result?, _ location: SourceLocation = #_sourceLocation) {
    #expect(standardError(of: result).contains("imultaneous accesses"), sourceLocation: location)
  }

  @Test func anotherOneOfTheRunTouchesIt() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let store = Store()
        try await store.runs {
          let gate = Channel<Int>()
          let waiter = Coroutine { try store.waits { _ = try gate.receive() } }
          Coroutine.yield()
          try Coroutine { store.changes() }.get()
          try gate.send(1)
          try waiter.get()
        }
      })
  }

  @Test func oneThatBeginsAtOnceTouchesIt() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let store = Store()
        try await store.runs {
          let gate = Channel<Int>()
          Coroutine.immediate { try store.waits { _ = try gate.receive() } }
          Coroutine.immediate { store.changes() }
        }
      })
  }

  @Test func theOneThatHasBegunItTouchesIt() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let store = Store()
        try await store.runs {
          let gate = Channel<Int>()
          Coroutine.immediate { try store.waits { _ = try gate.receive() } }
          store.changes()
        }
      })
  }

  // MARK: - One that has run on top of others

  @Test func theOneThatAsksTouchesIt() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let store = Store()
        try await store.runs {
          let gate = Channel<Int>()
          let actor = MessageActor<Reply<Int>> { mailbox in
            for reply in mailbox {
              reply.complete(1)
              try store.waits { _ = try gate.receive() }
            }
          }
          // The actor waits for a message then.
          Coroutine.yield()
          _ = try actor.ask { $0 }
          store.changes()
        }
      })
  }

  @Test func theOneThatHasBegunItAtOnceTouchesItOnTopOfAnother() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let store = Store()
        try await store.runs {
          let gate = Channel<Int>()
          Coroutine.immediate {
            Coroutine.immediate { try store.waits { _ = try gate.receive() } }
            store.changes()
          }
        }
      })
  }

  @Test func theOneBelowThoseOnTopTouchesIt() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let store = Store()
        try await store.runs {
          let gate = Channel<Int>()
          Coroutine.immediate {
            Coroutine.immediate { try store.waits { _ = try gate.receive() } }
            Coroutine.yield()
          }
          store.changes()
        }
      })
  }

  /// The accesses of one that waits are attached and taken off again in front of those of the others, which go on.
  @Test func twoAreBegunOnTopOfEachOtherAgainAndAgain() async throws {
    let store = Store()
    try await store.runs {
      let gates = (0..<6).map { _ in Channel<Int>() }
      let variables = gates.map { _ in ExclusivityTests.Variable() }
      // Those that wait in an access of the same variable would overlap: one round after the other.
      for round in gates.indices {
        let waiter = Coroutine { try gates[round].send(round) }
        try variables[round].modify { values in
          Coroutine.immediate {
            Coroutine.immediate { try store.waits { _ = try gates[round].receive() } }
            store.changesOthers()
            Coroutine.yield()
            store.changesOthers()
          }
          store.changesOthers()
          try waiter.get()
          Coroutine.yield()
          values.append(round)
        }
        store.changes()
        store.changesBack()
      }
    }
    #expect(await store.others.count == 19)
  }

  @Test func leavingTheActorInsideOfOneTraps() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let store = Store()
      try await store.runs { try store.waits { on(.pool) {} } }
    }
    #expect(standardError(of: result).contains("leaves its actor or event loop inside an access to a variable"))
  }

  /// Nor is there anything to share without an actor.
  @Test func othersMayLeaveTheirThread() throws {
    final class Variable {
      var value = 1
      func waits(_ body: () -> Void) { Self.hold(&value, body) }

      @inline(never)
      private static func hold(_ value: inout Int, _ body: () -> Void) {
        body()
        value += 1
      }
    }
    let result = try PlainThread {
      Result {
        try runUntilComplete {
          let variable = Variable()
          variable.waits { on(.pool) {} }
          return variable.value
        }
      }
    }.join().get()
    #expect(result == 2)
  }

  @Test func otherVariablesAreNotTouched() async throws {
    let store = Store()
    try await store.runs {
      let gate = Channel<Int>()
      let waiter = Coroutine { try store.waits { _ = try gate.receive() } }
      Coroutine.yield()
      try Coroutine { store.changesOthers() }.get()
      Coroutine.immediate { store.changesOthers() }
      store.changesOthers()
      try gate.send(1)
      try waiter.get()
      store.changes()
    }
    #expect(await store.others.count == 4)
    #expect(await store.items.isEmpty)
  }

  /// They go on on threads of a queue, one after another, in turns that follow each other at once.
  @Test func whatIsLeftOverGoesOnOnOtherThreads() async throws {
    let store = Store()
    let left = Guarded<[Coroutine<Int, any Error>]>([])
    let gates = (0..<4).map { _ in Channel<Int>() }
    try await store.runs {
      for gate in gates {
        let coroutine = Coroutine {
          let variable = ExclusivityTests.Variable()
          for _ in 0..<500 { try variable.modify { $0.append(try gate.receive()) } }
          return variable.values.count
        }
        left.withLock { $0.append(coroutine) }
      }
      Coroutine.yield()
    }
    for number in 0..<500 {
      for gate in gates { try await gate.send(number) }
    }
    for coroutine in left.withLock({ $0 }) { #expect(try await coroutine.get() == 503) }
  }

  /// More than a domain keeps in view, and they go on in another order than that in which they were suspended.
  @Test func veryManyWaitInsideOfAccesses() async throws {
    let store = Store()
    try await store.runs {
      let gates = (0..<200).map { _ in Channel<Int>() }
      let coroutines = gates.map { gate in
        Coroutine {
          let variable = ExclusivityTests.Variable()
          try variable.modify { values in
            Coroutine.yield()
            values.append(try gate.receive())
            Coroutine.yield()
          }
          return variable.values.count
        }
      }
      Coroutine.yield()
      for index in gates.indices { try gates[index * 77 % gates.count].send(index) }
      for coroutine in coroutines { #expect(try coroutine.get() == 4) }
    }
  }
}
