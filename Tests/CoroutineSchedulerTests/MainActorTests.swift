import CoroutineTestSupport
import Dispatch
import Foundation
import Testing

@testable import Coroutine

/// Coroutines that code of the main actor launches. That this file compiles is half of the test.
@Suite(.ownThreads, .timeLimit(.minutes(30))) struct MainActorTests {
  struct Problem: Error, Equatable {}

  @MainActor
  final class Counter {
    var count = 0
    let stored: @MainActor () -> Int = { DispatchQueue.main.isCurrent ? 3 : 0 }
    let storedThrowing: @MainActor () throws -> Int = { throw Problem() }

    func launch(_ numbers: Channel<Int>) -> Coroutine<Int, any Error> {
      Coroutine {
        self.count += try numbers.receive()
        MainActor.assumeIsolated { self.count += 1 }  // resumed on the main queue, too
        return self.count
      }
    }

    func launchWithoutSuspending() -> Coroutine<Bool, Never> {
      Coroutine {
        self.count += 1
        return DispatchQueue.main.isCurrent
      }
    }

    func launchInside() async throws -> Int {
      let first = Coroutine { self.count += 10 }
      await Task.yield()
      try await first.get()
      let second = Coroutine { () throws(Problem) -> Int in
        self.count += 10
        if self.count < 0 { throw Problem() }
        return self.count
      }
      return try await second.get()
    }

    func launchOne() throws -> Coroutine<Bool, any Error> {
      Coroutine {
        // A child of main-actor code stays on the main queue; one on another scheduler does not.
        let child = Coroutine { () -> Bool in
          self.count += 1
          return DispatchQueue.main.isCurrent
        }
        let elsewhere = Coroutine(on: .pool) { DispatchQueue.main.isCurrent }
        return try child.get() && !elsewhere.get()
      }
    }

    nonisolated func launchElsewhere() -> Coroutine<Bool, Never> {
      Coroutine { DispatchQueue.main.isCurrent }
    }
  }

  /// The page on coobjc says this.
  @Test func oneThatBeginsAtOnceOnTheMainThreadGoesOnOnThePool() async throws {
    // A list for each: which of the two sleeps ends first is not promised.
    let plainOnMain = Guarded<[Bool]>([])
    let isolatedOnMain = Guarded<[Bool]>([])
    @Sendable func note(in list: Guarded<[Bool]>) {
      list.withLock { $0.append(DispatchQueue.main.isCurrent) }
    }
    let (plain, isolated) = await MainActor.run {
      (
        Coroutine.immediate {
          note(in: plainOnMain)
          try Coroutine.sleep(for: .milliseconds(1))
          note(in: plainOnMain)
        },
        Coroutine.immediate { @MainActor in
          note(in: isolatedOnMain)
          try Coroutine.sleep(for: .milliseconds(1))
          note(in: isolatedOnMain)
        }
      )
    }
    try await plain.get()
    try await isolated.get()
    #expect(plainOnMain.withLock { $0 } == [true, false])
    #expect(isolatedOnMain.withLock { $0 } == [true, true])
  }

  @Test func aMethodsBodyRunsOnTheMainQueue() async throws {
    let counter = Counter()
    let immediate = await counter.launchWithoutSuspending()
    #expect(try await immediate.get())
    let numbers = Channel<Int>()
    let coroutine = await counter.launch(numbers)
    try await numbers.send(40)
    #expect(try await coroutine.get() == 42)
    #expect(await counter.count == 42)
  }

  @Test func anAsyncMethodsBodyDoesToo() async throws {
    #expect(try await Counter().launchInside() == 20)
  }

  @Test func soDoChildrenAndNotThoseElsewhere() async throws {
    let counter = Counter()
    let one = try await counter.launchOne()
    #expect(try await one.get())
    #expect(await counter.count == 1)
    let isOnMainThread = try await counter.launchElsewhere().get()
    #expect(!isOnMainThread)
  }

  @MainActor
  @Test func aStoredClosureDoesToo() async throws {
    let counter = Counter()
    #expect(try await Coroutine(counter.stored).get() == 3)
    await #expect(throws: Problem.self) { try await Coroutine(counter.storedThrowing).get() }
  }

  /// Closures and methods that a promise, a scope, … run, which are declared as the main actor's.
  @MainActor
  final class Screen {
    var shown: [String] = []

    func show(_ number: Int) {
      // This traps on another thread.
      MainActor.assumeIsolated { shown.append("\(number)") }
    }

    func showEnd() { show(0) }

    func derive(_ promise: Promise<Int>) -> [Promise<Void>] {
      [
        promise.then(show),
        promise.then { @MainActor in self.show($0 + 1) },
        promise.then { @MainActor number in Promise(value: self.show(number + 2)) },
        promise.then { _ in throw Problem() }.catch { @MainActor _ in self.show(4) },
        Promise<Int>(error: Problem()).catch { @MainActor _ in
          self.show(5)
          return 5
        }.then { _ in },
        Promise<Int>(error: Problem()).catch { @MainActor _ in
          self.show(6)
          return Promise(value: 6)
        }.then { _ in },
        promise.finally(showEnd).finally { @MainActor in self.show(7) }.then { _ in },
      ]
    }

    /// These closures name no actor, and run on the pool.
    func deriveOthers(_ promise: Promise<Int>) -> [Promise<Bool>] {
      let failed = Promise<Bool>(error: Problem())
      return [
        promise.then { _ in DispatchQueue.main.isCurrent },
        promise.then { _ in Promise(value: DispatchQueue.main.isCurrent) },
        failed.catch { _ in DispatchQueue.main.isCurrent },
        failed.catch { _ in Promise(value: DispatchQueue.main.isCurrent) },
        failed.catch { error in
          guard error is Problem else { throw error }
          return DispatchQueue.main.isCurrent
        },
      ]
    }

    nonisolated func launch(_ go: Channel<Void>) throws {
      try withScope { scope in
        scope.launch(showEnd)
        scope.launch { @MainActor in
          try go.receive()
          self.show(1)
        }
      }
      try Coroutine.immediate { @MainActor in
        self.show(2)
        try go.receive()
        self.show(3)
      }.get()
      try Coroutine.detached { @MainActor in self.show(4) }.get()
      let actor = MessageActor<Int> { @MainActor mailbox in
        for number in mailbox.prefix(1) { self.show(number) }
      }
      try actor.tell(5)
      try actor.join()
      let parent = Supervisor().launch { @MainActor (mailbox: Mailbox<Int>) in
        self.show(6)
        let child: MessageActor<Int> = mailbox.launch { @MainActor _ in self.show(7) }
        try child.join()
      }
      try parent.join()
    }

    func add(_ sum: inout Int, _ number: Int) {
      sum += number
      show(sum)
    }

    /// Actors that are made of a state and a function, and generators.
    nonisolated func launchOthers() throws {
      let actor = MessageActor(state: { 10 }, handle: add)
      try actor.send(1).get()
      let other = Supervisor().launch(state: { 20 }, handle: { @MainActor sum, number in self.add(&sum, number) })
      try other.send(1).get()
      let parent = MessageActor<Int> { mailbox in
        let child = mailbox.launch(state: { 30 }, handle: self.add)
        try child.send(1).get()
      }
      try parent.join()
      let numbers = AsyncGenerator<Int> { @MainActor yield in
        self.show(41)
        try yield(42)
      }
      while let number = try numbers.next() { try Coroutine.immediate { @MainActor in self.show(number) }.get() }
    }

    /// These closures name no actor, and run on the pool.
    nonisolated func launchMore() throws -> [Bool] {
      let actor = MessageActor<Reply<Bool>>(
        state: { 0 }, handle: { _, reply in reply.complete(DispatchQueue.main.isCurrent) })
      let generator = AsyncGenerator<Bool> { yield in try yield(DispatchQueue.main.isCurrent) }
      return try [actor.ask { $0 }] + generator.take(1)
    }
  }

  @Test func closuresOfTheMainActorRunThereThoughThePoolCallsThem() async throws {
    let screen = Screen()
    let (promise, resolver) = Promise<Int>.makePromise()
    let derived = await screen.derive(promise)
    resolver.fulfill(1)
    for promise in derived { try await promise.get() }
    for promise in await screen.deriveOthers(promise) { #expect(try await !promise.get()) }
    #expect(await screen.shown.sorted() == ["0", "1", "2", "3", "4", "5", "6", "7"])

    let other = Screen()
    let go = Channel<Void>(capacity: .unbounded)
    let coroutine = Coroutine(on: .pool) { try other.launch(go) }
    for _ in 0..<2 { try await go.send(()) }
    try await coroutine.get()
    #expect(await other.shown == ["0", "1", "2", "3", "4", "5", "6", "7"])

    let third = Screen()
    try await Coroutine(on: .pool) { try third.launchOthers() }.get()
    #expect(await third.shown == ["11", "21", "31", "41", "42"])
    #expect(try await Coroutine(on: .pool) { try third.launchMore() }.get() == [false, false])
  }

  @Test func inRunUntilCompleteTheyRunInTheMainQueuesPlace() async throws {
    try await MainActor.run {
      @MainActor func run() throws {
        let screen = Screen()
        try runUntilComplete { try Promise(value: 1).then { @MainActor number in screen.show(number) }.get() }
        #expect(screen.shown == ["1"])
      }
      try run()
    }
  }

  @Test func nonisolatedCodeLaunchesOnThePool() async throws {
    func launch() -> Coroutine<Bool, Never> { Coroutine { ThreadPool.shared.isCurrent } }
    #expect(try await launch().get())
    #expect(try await Coroutine { ThreadPool.shared.isCurrent }.get())
  }

  /// An object that is not `Sendable`, passed to a scheduler that is named.
  private final class Box {
    var value = 1
  }

  @Test func whatIsNotSendableCanBeHandedOver() async throws {
    let box = Box()
    let coroutine = Coroutine(on: .pool) { () -> Int in
      box.value += 1
      return box.value
    }
    #expect(try await coroutine.get() == 2)
  }

  @Test func onTheMainThreadTheyStayInRunUntilComplete() async throws {
    try await MainActor.run {
      @MainActor func run() throws {
        var count = 0
        let counter = Counter()
        try runUntilComplete {
          let isOnMainThread = try counter.launchWithoutSuspending().get()
          #expect(isOnMainThread)
          count = counter.count
        }
        #expect(count == 1)
      }
      try run()
    }
  }

  /// It traps where the coroutine is made: none of these ever begins.
  @Test(arguments: ["plain", "start", "priority", "finally"])
  func anotherActorTrapsByName(_ form: String) async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) { [form] in
      actor Other {
        var count = 0
        func launch(_ form: String, after gate: Coroutine<Void, any Error>) {
          switch form {
          case "plain": Coroutine { self.count += 1 }
          case "start": _ = Coroutine(start: .lazy) { self.count += 1 }
          case "priority": Coroutine(priority: .high) { self.count += 1 }
          default: gate.finally { self.count += 1 }
          }
        }
      }
      let never = Channel<Void>()
      await Other().launch(form, after: Coroutine { try never.receive() })
    }
    #expect(standardError(of: result).contains("it can run on the main actor only"))
  }

  @Test func blockingTheMainThreadForItsOwnQueueTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await MainActor.run {
        let coroutine = Coroutine(on: DispatchQueue.main, name: "later") { 1 }
        _ = try coroutine.getBlocking()
      }
    }
    #expect(standardError(of: result).contains("\"later\" runs: it would wait for ever. Use 'await'"))
  }

  /// A label is no proof: any queue may have it.
  @Test func aQueueWithTheMainQueuesLabelIsNotTheMainQueue() async throws {
    let queue = DispatchQueue(label: DispatchQueue.main.label)
    #expect(!queue.isSerial && DispatchQueue.main.isSerial)
    let isThere = try await Coroutine(on: queue) {
      Coroutine.detached { @MainActor in DispatchQueue.main.isCurrent }
    }.get().get()
    #expect(isThere)
  }

  @Test func aMoveOffTheMainActorInsideAnAccessTraps() async {
    let exit = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      @MainActor final class Model { var count = 0 }
      func increase(_ value: inout Int) { on(.pool) { value += 1 } }
      try await Coroutine { @MainActor in
        let model = Model()
        increase(&model.count)
      }.get()
    }
    #expect(standardError(of: exit).contains("leaves the main actor inside an access to a variable"))
  }

  /// The access is the caller's, which goes on where it is.
  @Test func aMoveInsideAnAccessOfTheCallerIsFine() async throws {
    @MainActor final class Model { var items = Items() }
    struct Items {
      var job: Coroutine<Int, Never>?
      mutating func refresh() { job = Coroutine.immediate(on: .main) { on(.pool) { 5 } } }
    }
    let number = try await Coroutine { @MainActor in
      let model = Model()
      model.items.refresh()
      return try model.items.job?.get()
    }.get()
    #expect(number == 5)
  }

  @Test func aMoveOffTheMainActorOutsideOfAccessesIsFine() async throws {
    let sum = try await Coroutine { @MainActor in
      var sum = 1
      func increase(_ value: inout Int) { on(.pool) { value += 1 } }
      increase(&sum)
      return sum
    }.get()
    #expect(sum == 2)
  }
}
