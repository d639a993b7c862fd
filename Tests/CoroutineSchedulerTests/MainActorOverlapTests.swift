import CCoroutine
import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

/// Coroutines of the main actor share what belongs to it. One that suspends inside an access to a variable has it open all the
/// same, and what another one does to the variable meanwhile traps. (The compiler allows no such thing around an `await`.)
@Suite(.ownThreads) struct MainActorOverlapTests {
  @MainActor final class Model {
    var items = [1, 2, 3]
    var others = [1]

    func waits(_ body: () throws -> Void) rethrows { try Self.hold(&items[1], body) }
    func othersWait(_ body: () throws -> Void) rethrows { try Self.hold(&others[0], body) }

    /// Changes the value after `body`: the compiler may remove an access to a value that is not used.
    @inline(never)
    private static func hold(_ value: inout Int, _ body: () throws -> Void) rethrows {
      try body()
      value += 1
    }
  }

  private func expectOverlap(_ result: ExitTest.Result?, _ location: SourceLocation = #_sourceLocation) {
    #expect(standardError(of: result).contains("imultaneous accesses"), sourceLocation: location)
  }

  // MARK: - What another one does for the one that waits

  @Test func whatIsJoined() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        try await Coroutine { @MainActor in
          let model = Model()
          let other = Coroutine { @MainActor in model.items = [] }
          try model.waits { try other.get() }
        }.get()
      })
  }

  @Test func whatIsAsked() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        try await Coroutine { @MainActor in
          let model = Model()
          let actor = MessageActor<Reply<Int>> { @MainActor mailbox in
            for reply in mailbox {
              model.items = []
              reply.complete(1)
            }
          }
          try model.waits { _ = try actor.ask { $0 } }
        }.get()
      })
  }

  /// A task does not see the accesses of coroutines: the wait itself traps.
  @Test func whatIsAwaited() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Coroutine { @MainActor in
        let model = Model()
        try Coroutine.await { @MainActor in model.items = [0, 1] }  // not inside an access
        try model.waits { _ = try Coroutine.await { 1 } }  // of no actor
        try model.waits { try Coroutine.await { @MainActor in model.items = [] } }
      }.get()
    }
    #expect(standardError(of: result).contains("waits for code of the main actor inside an access to a variable"))
  }

  @Test func aScopesChild() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        try await Coroutine { @MainActor in
          let model = Model()
          try model.waits {
            try withScope { scope in scope.launch { @MainActor in model.items = [] } }
          }
        }.get()
      })
  }

  @Test func anAsyncGeneratorsBody() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        try await Coroutine { @MainActor in
          let model = Model()
          let generator = AsyncGenerator<Int> { @MainActor yield in
            try yield(1)
            model.items = []
          }
          _ = try generator.next()
          try model.waits { _ = try generator.next() }
        }.get()
      })
  }

  /// The coroutines that are left over run one after the other in one turn of the main queue.
  @Test func whatIsLeftOverByRunUntilComplete() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        @MainActor func run() throws -> [Coroutine<Void, any Error>] {
          let model = Model()
          let gate = Channel<Void>(capacity: .buffered(2))
          return try runUntilComplete {
            // They belong to the runtime's pool on this thread, and are ready when this ends.
            let first = Coroutine { @MainActor in
              try gate.receive()
              model.waits { Coroutine.yield() }
            }
            let second = Coroutine { @MainActor in
              try gate.receive()
              model.items = []
            }
            while gate.waitingReceiverCount < 2 { Coroutine.yield() }
            try gate.send(())
            try gate.send(())
            return [first, second]
          }
        }
        for left in try await run() { try await left.get() }
      })
  }

  /// One that is joined runs on top of its joiner, and suspends inside of an access. The joiner passes its turn on to another one.
  @Test func whatFollowsOnOneThatIsJoined() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        // As in `JoinAheadTests`: none is run ahead while times are recorded, which other tests in this program turn on.
        coroutine_record_times(false)
        @MainActor func run() throws {
          let model = Model()
          try runUntilComplete {
            let (gate, end) = (Channel<Int>(), Channel<Int>())
            let other = Coroutine { @MainActor in
              _ = try gate.receive()
              model.items = []
              try end.send(1)
            }
            Coroutine.yield()
            let waiter = Coroutine { @MainActor in
              try model.waits {
                try gate.send(1)
                _ = try end.receive()
              }
            }
            try waiter.get()
            try other.get()
          }
        }
        // Not in a task: there turns are not passed on.
        await withCheckedContinuation { ended in
          DispatchQueue.main.async {
            MainActor.assumeIsolated { try? run() }
            ended.resume()
          }
        }
      })
  }

  @Test func whatRunsInRunUntilComplete() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        @MainActor func run() throws {
          let model = Model()
          try runUntilComplete {
            let gate = Channel<Int>()
            let waiter = Coroutine { @MainActor in try model.waits { _ = try gate.receive() } }
            Coroutine.yield()
            let other = Coroutine { @MainActor in model.items = [] }
            try other.get()
            try gate.send(1)
            try waiter.get()
          }
        }
        try await run()
      })
  }

  // MARK: - What begins at once

  @Test func oneThatBeginsAtOnceInsideOfAnAccess() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        await MainActor.run {
          let model = Model()
          model.waits { _ = Coroutine.immediate { @MainActor in model.items = [] } }
        }
      })
  }

  @Test func oneThatBeginsAtOnceWhileAnotherWaits() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let (model, gate) = (Model(), Channel<Int>())
        _ = await MainActor.run {
          Coroutine.immediate { @MainActor in try model.waits { _ = try gate.receive() } }
        }
        await MainActor.run { _ = Coroutine.immediate { @MainActor in model.items = [] } }
      })
  }

  @Test func theOneThatBeganItAtOnce() async {
    expectOverlap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        try await Coroutine { @MainActor in
          let (model, gate) = (Model(), Channel<Int>())
          Coroutine.immediate { @MainActor in try model.waits { _ = try gate.receive() } }
          model.items = []
        }.get()
      })
  }

  // MARK: - What is none

  @Test func accessesToOtherVariablesAreNone() async throws {
    let count = try await Coroutine { @MainActor in
      let (model, gate) = (Model(), Channel<Int>())
      let waiters = (0..<3).map { _ in
        let own = Model()
        return Coroutine { @MainActor in
          try own.waits {
            Coroutine.yield()
            try own.othersWait { _ = try gate.receive() }
            Coroutine.yield()
            model.items.append(1)
          }
          own.items.append(4)
          return own.items.count
        }
      }
      try model.othersWait {
        for _ in 0..<4 {
          model.waits { Coroutine.yield() }
          model.items.append(1)
        }
        for _ in waiters { try gate.send(1) }
        for waiter in waiters { model.items.append(try waiter.get()) }
      }
      model.others.append(1)
      return model.items.count
    }.get()
    #expect(count == 13)
  }

  @Test func accessesThatHaveEndedAreNone() async throws {
    let items = try await Coroutine { @MainActor in
      let (model, gate) = (Model(), Channel<Int>())
      let waiter = Coroutine.immediate { @MainActor in try model.waits { _ = try gate.receive() } }
      Coroutine.yield()
      try gate.send(1)
      try waiter.get()
      Coroutine.immediate { @MainActor in model.items.append(4) }
      model.items.append(5)
      return model.items
    }.get()
    #expect(items == [1, 3, 3, 4, 5])
  }

  @MainActor private static func begin(_ gate: Channel<Int>, _ inside: Guarded<[Coroutine<Int, any Error>]>) {
    Coroutine.immediate { @MainActor in
      let (middle, own) = (Model(), Model())
      middle.waits {
        let coroutine = Coroutine.immediate { @MainActor in
          try own.waits { _ = try gate.receive() }
          return own.items[1]
        }
        inside.withLock { $0.append(coroutine) }
        Coroutine.immediate { @MainActor in middle.others.append(1) }
      }
      middle.items.append(1)
    }
  }

  @Test func oneBegunAtOnceInsideOfAnotherLeavesTheOthersTheirOwn() async throws {
    let gate = Channel<Int>()
    let inside = Guarded<[Coroutine<Int, any Error>]>([])
    await Self.begin(gate, inside)
    try await Coroutine { @MainActor in
      let outer = Model()
      outer.waits {
        Self.begin(gate, inside)
        Coroutine.yield()
      }
      Self.begin(gate, inside)
      outer.waits { Coroutine.yield() }
      outer.items.append(1)
    }.get()
    await MainActor.run {
      let last = Model()
      last.waits { Coroutine.immediate { @MainActor in last.others.append(1) } }
      last.items.append(1)
    }
    let all = inside.withLock { $0 }
    for _ in all { try await gate.send(1) }
    for coroutine in all { #expect(try await coroutine.get() == 3) }
    #expect(all.count == 3)
  }

  @Test func tasksInBetweenKeepTheirs() async throws {
    let (model, gate) = (Model(), Channel<Int>())
    let waiters = await MainActor.run {
      (0..<8).map { _ in
        let own = Model()
        return Coroutine { @MainActor in
          try own.waits { _ = try gate.receive() }
          return own.items[1]
        }
      }
    }
    for round in 0..<8 {
      await MainActor.run {
        model.waits { Coroutine.immediate { @MainActor in model.others.append(round) } }
        _ = Coroutine.immediate { @MainActor in
          model.waits { Coroutine.yield() }
        }
      }
      await Task { @MainActor in model.others.append(round) }.value
    }
    for waiter in waiters {
      try await gate.send(1)
      _ = waiter
    }
    for waiter in waiters { #expect(try await waiter.get() == 3) }
    #expect(await model.others.count == 17)
  }

  @Test func manyThatWaitInsideOfAccessesGoOn() async throws {
    let counts = try await Coroutine { @MainActor in
      let coroutines = (0..<100).map { index in
        Coroutine { @MainActor in
          let model = Model()
          for _ in 0..<20 {
            try model.waits {
              try Coroutine.checkCancellation()
              Coroutine.yield()
              model.othersWait { if index.isMultiple(of: 3) { Coroutine.yield() } }
            }
            model.items.append(index)
          }
          return model.items.count + model.items[1]
        }
      }
      return try coroutines.map { try $0.get() }
    }.get()
    #expect(counts == Array(repeating: 45, count: 100))
  }

  // MARK: - A generator in a task

  /// A body that yields inside of an access to one variable, and not to another.
  @MainActor private static func numbers(of model: Model) -> Generator<Int> {
    Generator { yield in
      try yield(0)
      try model.waits {
        try yield(1)
        try yield(2)
      }
      try yield(3)
    }
  }

  @Test func aTaskThatAwaitsBetweenElements() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      await Task { @MainActor in
        let model = Model()
        let numbers = Self.numbers(of: model)
        while let number = numbers.next() {
          if number == 1 { await Task { @MainActor in model.items = [] }.value }
        }
      }.value
    }
    #expect(standardError(of: result).contains("has awaited while the body of its Generator"))
  }

  @Test func aTaskThatAwaitsBeforeItDropsOne() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      await Task { @MainActor in
        let model = Model()
        var numbers: Generator? = Self.numbers(of: model)
        while let number = numbers?.next(), number < 2 {}
        await Task { @MainActor in model.items = [] }.value
        withExtendedLifetime(numbers) {}  // an optimised build lets go of it at its last use
        numbers = nil
      }.value
    }
    #expect(standardError(of: result).contains("has awaited while the body of its Generator"))
  }

  @Test func aTaskMayAwaitBehindACancel() async {
    let items = await Task { @MainActor in
      let model = Model()
      let numbers = Self.numbers(of: model)
      while let number = numbers.next(), number < 2 {}
      numbers.cancel()
      await Task { @MainActor in model.items = [7] }.value
      #expect(numbers.next() == nil)
      return model.items
    }.value
    #expect(items == [7])
  }

  @Test func aTaskMayAwaitWhereNoAccessIsOpen() async {
    for _ in 0..<100 {
      let (all, value) = await Task { @MainActor in
        let model = Model()
        let numbers = Self.numbers(of: model)
        var all: [Int] = []
        while let number = numbers.next() {
          all.append(number)
          if number == 0 || number == 3 { await Task { @MainActor in model.items.append(number) }.value }
        }
        return (all, model.items)
      }.value
      #expect(all == [0, 1, 2, 3] && value == [1, 3, 3, 0, 3])
    }
  }
}
