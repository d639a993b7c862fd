import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

/// Handles of coroutines of different types, and the handle of the running one.
@Suite(.ownThreads, .timeLimit(.minutes(30))) struct AnyCoroutineTests {
  struct Problem: Error {}

  @Test func coroutinesOfDifferentTypesLieInOneArray() async throws {
    let gate = Channel<Int>()
    let number = Coroutine(name: "number") { try gate.receive() }
    let text = Coroutine(on: .pool, name: "text") { "text" }
    let failing = Coroutine { () throws(Problem) -> Void in throw Problem() }
    let all = [AnyCoroutine(number), AnyCoroutine(text), AnyCoroutine(failing)]
    #expect(all.map(\.id) == [number.id, text.id, failing.id])
    #expect(all.map(\.name) == ["number", "text", ""])
    #expect(all.map(\.description) == [number.description, text.description, failing.description])
    #expect(!all[0].isFinished && !all[0].isCancelled && all[0].state != .finished)
    try await gate.send(1)
    for coroutine in all { try await coroutine.join() }
    #expect(all.allSatisfy { $0.isFinished && $0.state == .finished })
    #expect(try await number.get() == 1)
  }

  @Test func aJoinReturnsBehindTheDefersOfWhatItWaitsFor() async throws {
    let log = Log()
    try await serially {
      let (numbers, texts) = (Channel<Int>(), Channel<String>())
      let reader = Coroutine(name: "reader") { () throws -> Int in
        defer {
          log.add("reader unwinds")
          // Cleanup that waits is a part of it.
          withCancellationShield { Coroutine.yield() }
          log.add("reader is done")
        }
        return try numbers.receive()
      }
      let writer = Coroutine(name: "writer") {
        defer { log.add("writer is done") }
        try texts.send("")
      }
      let all = [AnyCoroutine(reader), AnyCoroutine(writer)]
      Coroutine.yield()
      for coroutine in all {
        log.add("cancel \(coroutine.name)")
        coroutine.cancel()
      }
      for coroutine in all {
        try coroutine.join()
        log.add("\(coroutine.name) \(coroutine.state) \(coroutine.isCancelled)")
      }
    }
    let order = log.all
    #expect(order.prefix(2) == ["cancel reader", "cancel writer"])
    #expect(order.last == "writer finished true")
    for expected in [
      ["cancel writer", "reader unwinds", "reader is done", "reader finished true"],
      ["cancel writer", "writer is done", "writer finished true"],
    ] {
      #expect(order.filter(expected.contains) == expected, "\(order)")
    }
  }

  @Test func handlesOfOneCoroutineAreEqual() async throws {
    let first = Coroutine { 1 }
    let second = Coroutine { 1 }
    #expect(AnyCoroutine(first) == AnyCoroutine(first))
    #expect(AnyCoroutine(first) != AnyCoroutine(second))
    #expect(Set([AnyCoroutine(first), AnyCoroutine(second), AnyCoroutine(first)]).count == 2)
  }

  @Test func aHandleCancelsAndWaits() async throws {
    let never = Channel<Int>()
    let waiting = Coroutine { try never.receive() }
    let handle = AnyCoroutine(waiting)
    await #expect(throws: TimeoutError.self) { try await handle.join(timeout: .zero) }
    let watcher = Coroutine { () throws -> Bool in
      do { try handle.join(timeout: .milliseconds(1)) } catch is TimeoutError {}
      handle.cancel(reason: Problem())
      try handle.join()
      return handle.isCancelled && handle.isFinished
    }
    #expect(try await watcher.get())
    await #expect(throws: CancellationError.self) { try await waiting.get() }
  }

  @Test func theRunningCoroutineHandsItselfOn() async throws {
    let handles = Channel<AnyCoroutine?>()
    let never = Channel<Int>()
    let waiting = Coroutine {
      try handles.send(Coroutine.current)
      _ = try never.receive()
    }
    let handle = try #require(try await handles.receive())
    #expect(handle == AnyCoroutine(waiting))
    handle.cancel()
    try await handle.join()
    #expect(waiting.isCancelled)
  }

  @Test func thereIsNoneOutsideOfCoroutinesAndInTasks() async throws {
    #expect(Coroutine.current == nil)
    #expect(PlainThread { Coroutine.current == nil }.join())
    let inside = Coroutine { () throws -> Bool in
      let before = Coroutine.current
      let inTask = try Coroutine.await { () async -> Bool in Coroutine.current == nil }
      return inTask && before != nil && before == Coroutine.current
    }
    #expect(try await inside.get())
  }

  @Test func aGeneratorsBodyBelongsToTheCoroutineThatConsumesIt() async throws {
    let isSame = Coroutine { () -> Bool in
      let handles = Generator<AnyCoroutine?> { yield in try yield(Coroutine.current) }
      return handles.next() == Coroutine.current
    }
    #expect(try await isSame.get())
  }

  @Test func aCoroutineThatJoinsItsOwnHandleTraps() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Coroutine { try Coroutine.current?.join() }.get()
    }
    #expect(standardError(of: result).contains("waits for its own end"))
  }

  @Test func theHandleOfAnActorsCoroutineStopsTheActor() async throws {
    let handles = Channel<AnyCoroutine>(capacity: .buffered(1))
    let actor = MessageActor<Int>(name: "worker") { mailbox in
      try handles.send(Coroutine.current!)
      for _ in mailbox {}
      // Code after the cancel may wait, as after the actor's own `cancel()`.
    }
    let handle = try await handles.receive()
    #expect(!handle.isCancelled)
    handle.cancel()
    #expect(handle.isCancelled)
    try await handle.join()
    try await actor.join()
    guard case .cancelled? = actor.end else { return #expect(Bool(false), "\(actor.end as Any)") }
  }

  @Test func theHandleOfAnActorOutlivesIt() async throws {
    let handles = Channel<AnyCoroutine>(capacity: .buffered(1))
    do {
      let actor = MessageActor<Int> { mailbox in
        try handles.send(Coroutine.current!)
        for _ in mailbox {}
      }
      try await actor.tell(1)
    }
    let handle = try await handles.receive()
    try await handle.join()
    handle.cancel()
    #expect(handle.isFinished && !handle.isCancelled)
  }
}
