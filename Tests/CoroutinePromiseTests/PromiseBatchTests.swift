import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

@Suite(.ownThreads) struct PromiseBatchTests {
  struct Problem: Error, Equatable { var number = 0 }

  @Test func valuesComeInInputOrderWhateverEndsFirst() async throws {
    let (number, numberResolver) = Promise.makePromise(of: Int.self)
    let (text, textResolver) = Promise.makePromise(of: String.self)
    let gate = Channel<Void>()
    let coroutine = Coroutine { () -> Double in
      try gate.receive()
      return 2.5
    }
    let all = Coroutine { () -> String in
      let (first, second, third) = try values(of: number, text, coroutine)
      return "\(first) \(second) \(third)"
    }
    let task = Task { try await values(of: text, number) }
    try await gate.send(())
    textResolver.fulfill("text")
    numberResolver.fulfill(1)
    #expect(try await all.get() == "1 text 2.5")
    #expect(try await task.value == ("text", 1))
    #expect(try await values(of: Promise(value: 7)) == 7)
  }

  @Test func anArrayOfAnyLengthNoneIncluded() async throws {
    let pairs = (0..<100).map { _ in Promise.makePromise(of: Int.self) }
    let promises = pairs.map(\.promise)
    let sum = Coroutine { try values(of: promises) }
    let task = Task { try await values(of: promises) }
    for (index, pair) in pairs.enumerated().reversed() { pair.resolver.fulfill(index) }
    #expect(try await sum.get() == Array(0..<100))
    #expect(try await task.value == Array(0..<100))
    #expect(try await values(of: (0..<10).map { number in Coroutine { number } }) == Array(0..<10))
    #expect(try await values(of: [Promise<Int>]()) == [])
    #expect(try await Coroutine { try values(of: [Promise<Int>]()) }.get() == [])
    #expect(try await results(of: [Promise<Int>]()).isEmpty)
  }

  @Test func theFirstErrorIsThrownAtOnceAndCancelsTheRest() async throws {
    let log = Log()
    let (first, firstResolver) = Promise.makePromise(of: Int.self)
    firstResolver.onCancel { log.add("first stopped") }
    let (second, secondResolver) = Promise.makePromise(of: Int.self)
    let never = Channel<Int>()
    let third = Coroutine { try never.receive() }
    let done = Promise(value: 1)
    let batch = Coroutine { () -> Int in
      let (a, b, c, d) = try values(of: first, second, third, done)
      return a + b + c + d
    }
    secondResolver.reject(Problem(number: 2))
    await #expect(throws: Problem(number: 2)) { try await batch.get() }
    #expect(log.all == ["first stopped"])
    #expect(first.isCancelled && third.isCancelled && done.isFulfilled)
    #expect(firstResolver.isCancelled)
    await #expect(throws: CancellationError.self) { try await third.get() }

    let (other, otherResolver) = Promise.makePromise(of: Int.self)
    await #expect(throws: Problem(number: 3)) {
      try await values(of: [other, Promise(error: Problem(number: 3))])
    }
    #expect(other.isCancelled && otherResolver.isCancelled)
  }

  @Test func eachResultIsKeptWhereTheCallerSaysSo() async throws {
    let (slow, resolver) = Promise.makePromise(of: Int.self)
    let batch = Coroutine { () -> String in
      let (first, second, third) = try results(
        of: Promise<Int>(error: Problem(number: 1)), slow, Coroutine { () throws -> String in throw Problem(number: 3) }
      )
      return "\(first) \(second) \(third)"
    }
    let task = Task { try await results(of: [slow, Promise(error: Problem(number: 1))]) }
    #expect(slow.isPending)
    resolver.fulfill(2)
    let text = try await batch.get()
    #expect(text.contains("number: 1") && text.contains("success(2)") && text.contains("number: 3"))
    let outcomes = try await task.value
    #expect((try? outcomes[0].get()) == 2 && (try? outcomes[1].get()) == nil)
  }

  @Test func aCancelledCallerLeavesTheOthersAlone() async throws {
    let queue = DispatchQueue(label: "serial")
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let gate = Channel<Int>()
    let coroutine = Coroutine { try gate.receive() }
    let batch = Coroutine(on: queue) { () -> Int in
      let (a, b) = try values(of: promise, coroutine)
      return a + b
    }
    try await Coroutine(on: queue) {}.get()
    batch.cancel()
    await #expect(throws: CancellationError.self) { try await batch.get() }
    let task = Task { try await results(of: promise, coroutine) }
    task.cancel()
    await #expect(throws: CancellationError.self) { _ = try await task.value }
    #expect(promise.isPending && !coroutine.isFinished && !coroutine.isCancelled)
    resolver.fulfill(1)
    try await gate.send(2)
    #expect(try await values(of: promise, coroutine) == (1, 2))
  }

  @Test func aCancelledCallerGetsTheOutcomesThatHadCome() async throws {
    let queue = DispatchQueue(label: "serial")
    let pairs = (0..<3).map { _ in Promise.makePromise(of: Int.self) }
    let promises = pairs.map(\.promise)
    pairs[1].resolver.fulfill(10)
    @Sendable func name(_ outcome: Result<Int, any Error>) -> String {
      switch outcome {
      case .success(let value): "\(value)"
      case .failure(is CancellationError): "cancelled"
      case .failure(let error): "\(error)"
      }
    }
    let listed = Coroutine(on: queue) { try results(of: promises).map(name) }
    let named = Coroutine(on: queue) { () throws -> [String] in
      let (first, second, third) = try results(of: promises[0], promises[1], promises[2])
      return [first, second, third].map(name)
    }
    try await Coroutine(on: queue) {}.get()
    pairs[2].resolver.reject(Problem(number: 2))
    listed.cancel()
    named.cancel()
    #expect(try await listed.get() == ["cancelled", "10", "\(Problem(number: 2))"])
    #expect(try await named.get() == ["cancelled", "10", "\(Problem(number: 2))"])
    let task = Task { try await results(of: promises).map(name) }
    task.cancel()
    #expect(try await task.value == ["cancelled", "10", "\(Problem(number: 2))"])
    #expect(promises[0].isPending)
    withExtendedLifetime(pairs) {}
  }

  @Test func theFirstToEndIsTakenAndTheOthersAreCancelled() async throws {
    let pairs = (0..<3).map { _ in Promise.makePromise(of: Int.self) }
    let promises = pairs.map(\.promise)
    let first = Coroutine { try firstValue(of: promises) }
    pairs[1].resolver.fulfill(10)
    #expect(try await first.get() == 10)
    #expect(promises[0].isCancelled && promises[2].isCancelled)
    withExtendedLifetime(pairs) {}
    let failing = (0..<2).map { _ in Promise.makePromise(of: Int.self) }
    failing[0].resolver.reject(Problem(number: 1))
    await #expect(throws: Problem(number: 1)) { try await firstValue(of: failing.map(\.promise)) }
    #expect(failing[1].promise.isCancelled)
    withExtendedLifetime(failing) {}
  }

  @Test func theFirstToSucceedIsTakenAndErrorsArePassedOver() async throws {
    let pairs = (0..<4).map { _ in Promise.makePromise(of: Int.self) }
    let promises = pairs.map(\.promise)
    let first = Coroutine { try firstSuccess(of: promises) }
    let task = Task { try await firstSuccess(of: promises) }
    pairs[0].resolver.reject(Problem(number: 0))
    pairs[3].promise.cancel()
    #expect(!first.isFinished && promises[1].isPending)
    pairs[2].resolver.fulfill(2)
    #expect(try await first.get() == 2)
    #expect(try await task.value == 2)
    #expect(promises[1].isCancelled)

    let never = Channel<Int>()
    let coroutines = [Coroutine { try never.receive() }, Coroutine { () throws -> Int in throw Problem() }]
    let mirror = Coroutine { try firstSuccess(of: coroutines) }
    try await never.send(3)
    #expect(try await mirror.get() == 3)
    withExtendedLifetime(pairs) {}
  }

  @Test func whereAllFailEachErrorIsThereInTheirOrder() async throws {
    let pairs = (0..<3).map { _ in Promise.makePromise(of: Int.self) }
    let first = Coroutine { try firstSuccess(of: pairs.map(\.promise)) }
    for index in [2, 0, 1] { pairs[index].resolver.reject(Problem(number: index)) }
    let failure = await #expect(throws: AllFailed.self) { try await first.get() }
    #expect(failure?.errors.map { $0 as? Problem } == [Problem(number: 0), Problem(number: 1), Problem(number: 2)])
    #expect("\(failure as Any)".contains("all 3 failed: ["))
    let none = await #expect(throws: AllFailed.self) { try await firstSuccess(of: [Promise<Int>]()) }
    #expect(none?.errors.isEmpty == true)
  }

  @Test func aWaiterForASuccessThatGivesUpLeavesTheOthersAlone() async throws {
    let queue = DispatchQueue(label: "serial")
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let first = Coroutine(on: queue) { try firstSuccess(of: [promise, Promise(error: Problem())]) }
    try await Coroutine(on: queue) {}.get()
    first.cancel()
    await #expect(throws: CancellationError.self) { try await first.get() }
    #expect(promise.isPending)
    resolver.fulfill(1)
    #expect(try await firstSuccess(of: [promise]) == 1)
  }

  @Test func theSameOneTwiceIsTwoValues() async throws {
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let both = Coroutine { () -> [Int] in
      let (first, second) = try values(of: promise, promise)
      return [first, second]
    }
    resolver.fulfill(4)
    #expect(try await both.get() == [4, 4])
  }

  @Test func aTypeOfOnesOwnTakesPart() async throws {
    struct Download: Awaitable {
      let page: Promise<String>
      var ending: Ending<String> { page.ending }
    }
    let (page, length) = try await values(of: Download(page: Promise(value: "page")), Promise(value: 4))
    #expect(page.count == length)
  }

  @Test func endsThatRaceWithCancelsAndWithEachOtherNeverHang() async throws {
    for round in 0..<500 {
      let pairs = (0..<4).map { _ in Promise.makePromise(of: Int.self) }
      let promises = pairs.map(\.promise)
      let batch = Coroutine { try values(of: promises) }
      let task = Task { try await results(of: promises) }
      await withTaskGroup(of: Void.self) { group in
        for (index, pair) in pairs.enumerated() {
          group.addTask {
            if index == round % 5 { pair.resolver.reject(Problem()) } else { pair.resolver.fulfill(index) }
          }
        }
        if round.isMultiple(of: 3) { group.addTask { batch.cancel() } }
        if round.isMultiple(of: 7) { group.addTask { task.cancel() } }
      }
      _ = try? await batch.get()
      _ = try? await task.value
      #expect(promises.allSatisfy { !$0.isPending })
    }
  }

  @Test func theOnlySuccessAmongRacingErrorsIsFound() async throws {
    for round in 0..<200 {
      let pairs = (0..<4).map { _ in Promise.makePromise(of: Int.self) }
      let promises = pairs.map(\.promise)
      let first = Coroutine { try firstSuccess(of: promises) }
      let task = Task { try await firstSuccess(of: promises) }
      let success = round % 5
      await withTaskGroup(of: Void.self) { group in
        for (index, pair) in pairs.enumerated() {
          group.addTask {
            if index == success { pair.resolver.fulfill(index) } else { pair.resolver.reject(Problem(number: index)) }
          }
        }
      }
      if success < 4 {
        #expect(try await first.get() == success)
        #expect(try await task.value == success)
      } else {
        await #expect(throws: AllFailed.self) { try await first.get() }
        await #expect(throws: AllFailed.self) { try await task.value }
      }
    }
  }

  @Test func outsideACoroutineAndWithNothingToWaitForItTraps() async {
    let outside = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      func wait() throws { _ = try values(of: Promise(value: 1), Promise(value: 2)) }
      try wait()
    }
    #expect(standardError(of: outside).contains("values(of:) suspends the running coroutine, but no coroutine runs"))
    let empty = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = try await firstValue(of: [Promise<Int>]())
    }
    #expect(standardError(of: empty).contains("firstValue(of:) needs one source at least"))
  }

  @Test func waitingForOneselfAmongOthersTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let gate = Gate()
      let mine = Guarded<Coroutine<Int, any Error>?>(nil)
      let coroutine = Coroutine(name: "selfish") { () throws -> Int in
        gate.pass()
        return try firstValue(of: [mine.withLock { $0 }!])
      }
      mine.withLock { $0 = coroutine }
      gate.open()
      _ = try await coroutine.get()
    }
    #expect(standardError(of: result).contains("\"selfish\" waits for its own end among others"))
  }
}
