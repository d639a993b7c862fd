import Coroutine
import CoroutineTestSupport
import Testing

@Suite(.ownThreads) struct ThrowingGeneratorTests {
  struct Problem: Error, Equatable {
    var number = 0
  }

  @Test func theErrorComesOutOnceThenNil() throws {
    let generator = ThrowingGenerator<Int> { yield in
      try yield(1)
      throw Problem(number: 7)
    }
    #expect(try generator.next() == 1)
    #expect(throws: Problem(number: 7)) { try generator.next() }
    #expect(try generator.next() == nil)
    #expect(try generator.next() == nil)
  }

  @Test func withoutAnErrorItEndsAsAnyOther() throws {
    let generator = ThrowingGenerator<String> { yield in
      for word in ["a", "b", "c", "d"] { try yield(word) }
    }
    #expect(try generator.take(2) == ["a", "b"])
    var rest: [String] = []
    while let word = try generator.next() { rest.append(word) }
    #expect(rest == ["c", "d"])
    #expect(try generator.next() == nil)
    #expect(try generator.take(2) == [])
  }

  @Test func aCancelIsNoError() throws {
    let log = Log()
    let generator = ThrowingGenerator<Int> { yield in
      defer { log.add("unwound") }
      for value in 0... { try yield(value) }
    }
    #expect(try generator.next() == 0)
    generator.cancel()
    #expect(log.all == ["unwound"])
    #expect(try generator.next() == nil)
  }

  @Test func anErrorThatIsNotAskedForIsReportedOnce() async throws {
    let reports = Guarded(0)
    await LostErrors.observe { error, origin in
      guard error as? Problem == Problem(number: 30) else { return false }
      reports.withLock { $0 += 1 }
      return true
    } during: {
      func dropped() {
        let generator = ThrowingGenerator<Int> { yield in
          do { for value in 0... { try yield(value) } } catch { throw Problem(number: 30) }
        }
        #expect((try? generator.next()) == 0)
      }
      dropped()
      #expect(reports.withLock { $0 } == 1)
      func asked() {
        let generator = ThrowingGenerator<Int> { _ in throw Problem(number: 30) }
        #expect(throws: Problem.self) { try generator.next() }
      }
      asked()
      #expect(reports.withLock { $0 } == 1)
    }
  }

  @Test func noMemoryForItsStackIsThrown() throws {
    let generator = ThrowingGenerator<Int>(stackSize: .max) { yield in try yield(1) }
    #expect(throws: (any Error).self) { try generator.next() }
    #expect(try generator.next() == nil)
  }

  @Test func theConsumersCancelEndsItsBody() async throws {
    let entered = Channel<Void>()
    let never = Channel<Int>()
    let coroutine = Coroutine { () throws -> String in
      let generator = ThrowingGenerator<Int> { yield in
        try entered.send(())
        try yield(try never.receive())
      }
      do {
        _ = try generator.next()
        return "an element"
      } catch is CancellationError {
        return try generator.next() == nil ? "cancelled" : "goes on"
      }
    }
    try await entered.receive()
    coroutine.cancel()
    #expect(try await coroutine.get() == "cancelled")
  }
}
