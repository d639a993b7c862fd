// SPDX-License-Identifier: Apache-2.0

import CoroutineTestSupport
import Dispatch
import Synchronization
import Testing

@testable import Coroutine

/// Children that begin when they are started, and what becomes of those that are never started.
@Suite(.ownThreads) struct ScopeLazyTests {
  @Test func aLazyChildBeginsWhenItIsStartedOrWaitedFor() async throws {
    let log = Log()
    try await serially {
      try withScope { scope in
        let first = scope.launch(start: .lazy) { log.add("first") }
        let second = scope.launch(start: .lazy, name: "second") { () -> Int in
          log.add("second")
          return 2
        }
        let third = scope.launch(on: DispatchQueue(label: "other"), start: .lazy) { 3 }
        Coroutine.yield()
        log.add("none has begun")
        #expect(scope.children.map(\.name) == ["", "second", ""])
        log.add("\(first.start()) \(first.start())")
        log.add("\(try second.get() + third.get())")
        #expect(!second.start())
      }
    }
    #expect(log.all == ["none has begun", "true false", "first", "second", "5"])
  }

  @Test func oneThatNobodyStartsIsCancelledAtTheEnd() async throws {
    let log = Log()
    let child = try await serially {
      let child = try withScope { scope in
        let child = scope.launch(start: .lazy) { log.add("ran") }
        child.finally { log.add("finally, \(child.isFinished)") }
        _ = scope.launch(start: .lazy) { log.add("ran without a handle") }
        scope.launch { log.add("another child") }
        log.add("the body's end")
        return child
      }
      log.add("the scope's end: \(child.isFinished), \(child.isCancelled)")
      log.add(outcome { try child.get() })
      return child
    }
    await #expect(throws: CancellationError.self) { try await child.get() }
    while log.all.count < 5 { await Task.yield() }
    #expect(
      Set(log.all) == [
        "the body's end", "another child", "the scope's end: true, true", "cancelled", "finally, true",
      ])
    #expect(log.all.prefix(2) == ["the body's end", "another child"])
  }

  /// The others may still start it behind the body's end: it is not cancelled before they have ended.
  @Test func anotherChildStartsItBehindTheEndOfTheBody() async throws {
    let log = Log()
    try await serially {
      let gate = Channel<Void>()
      let opener = Coroutine { try gate.send(()) }
      try withScope { scope in
        let lazy = scope.launch(start: .lazy) { () -> Int in
          log.add("lazy")
          return 7
        }
        scope.launch {
          try gate.receive()
          log.add("\(try lazy.get())")
        }
        log.add("the body's end")
      }
      log.add("the scope's end")
      try opener.get()
    }
    #expect(log.all == ["the body's end", "lazy", "7", "the scope's end"])
  }

  /// One that ends may have launched more of them; and those that are cancelled are waited for.
  @Test func lazyChildrenOfChildrenEndToo() async throws {
    let ended = Holder(Atomic<Int>(0))
    try await serially {
      try withScope { scope in
        scope.launch(start: .lazy) {}.finally { ended.value.wrappingAdd(1, ordering: .relaxed) }
        scope.launch {
          scope.launch(start: .lazy) {}.finally { ended.value.wrappingAdd(1, ordering: .relaxed) }
          Coroutine.yield()
          scope.launch { _ = scope.launch(start: .lazy) {} }
        }
      }
    }
    while ended.value.load(ordering: .relaxed) < 2 { await Task.yield() }
  }

  @Test func aCancelAndAFailureReachThem() async throws {
    struct Failure: Error {}
    let log = Log()
    try await serially {
      try withScope { scope in
        let lazy = scope.launch(start: .lazy) { log.add("ran") }
        scope.cancel()
        log.add(outcome { try withCancellationShield { try lazy.get() } })
        let late = scope.launch(start: .lazy) { log.add("ran late") }
        log.add(outcome { try withCancellationShield { try late.get() } })
      }
      #expect(throws: Failure.self) {
        try withScope { scope in
          _ = scope.launch(start: .lazy) { log.add("ran after a failure") }
          throw Failure()
        }
      }
      #expect(throws: Failure.self) {
        try withScope { scope in
          _ = scope.launch(start: .lazy) { log.add("ran after a child's failure") }
          scope.launch { throw Failure() }
        }
      }
      // Its own failure is one of the scope.
      #expect(throws: Failure.self) {
        try withScope { scope in
          let lazy = scope.launch(start: .lazy) { throw Failure() }
          lazy.start()
        }
      }
      // A cancel of one is none of the others.
      try withScope { scope in
        let lazy = scope.launch(start: .lazy) { log.add("ran though cancelled") }
        lazy.cancel()
        log.add("\(lazy.start())")
        try scope.launch { log.add("goes on") }.get()
      }
    }
    #expect(log.all == ["cancelled", "cancelled", "false", "goes on"])
  }

  @Test func itTakesItsPlaceAmongALimitWhenItIsStarted() async throws {
    let log = Log()
    try await serially {
      let gate = Channel<Void>()
      try withScope(limit: 1) { scope in
        let lazy = (0..<3).map { number in scope.launch(start: .lazy) { log.add("lazy \(number)") } }
        scope.launch {
          log.add("first")
          try gate.receive()
        }
        Coroutine.yield()
        // Queued; one that is cancelled there ends at once, and has not run.
        #expect(lazy[1].start() && lazy[0].start() && !lazy[0].start())
        Coroutine.yield()
        scope.launch { log.add("plain") }
        lazy[1].cancel()
        log.add(outcome { try lazy[1].get() })
        try gate.send(())
        try lazy[0].get()
        // One that was never started keeps no place: the plain one runs without its end.
      }
    }
    #expect(log.all == ["first", "cancelled", "lazy 0", "plain"])
  }

  @Test func aScopeThatIsAnObjectEndsThemWithItsLastHandle() async throws {
    let log = Log()
    let lazy = try await serially {
      let scope = CoroutineScope(name: "session")
      let lazy = scope.launch(start: .lazy) { log.add("ran") }
      let other = scope.launch(start: .lazy) { log.add("other") }
      scope.launch { log.add("plain") }
      // Neither waits for them, nor ends them.
      try scope.join()
      log.add("joined, \(lazy.isFinished), \(scope.children.count)")
      other.start()
      try scope.join()
      withExtendedLifetime(scope) {}
      return lazy
    }
    await #expect(throws: CancellationError.self) { try await lazy.get() }
    #expect(log.all == ["plain", "joined, false, 2", "other"])
  }

  @Test func aScopeOfAsyncCodeEndsThem() async throws {
    let log = Log()
    let lazy = try await withScope { scope in
      let lazy = scope.launch(start: .lazy) { log.add("ran") }
      let wanted = scope.launch(start: .lazy) { 7 }
      let seven = try await wanted.get()
      #expect(seven == 7)
      return lazy
    }
    #expect(lazy.isFinished && lazy.isCancelled && log.all.isEmpty)
  }

  @Test func anAtomicChildBeginsThoughItsScopeIsCancelled() async throws {
    let log = Log()
    try await serially {
      try withScope { scope in
        let atomic = scope.launch(start: .atomic) {
          log.add("begins")
          try Coroutine.checkCancellation()
          log.add("goes on")
        }
        _ = scope.launch(on: DispatchQueue(label: "other"), start: .atomic, priority: .low) { log.add("elsewhere") }
        scope.cancel()
        withCancellationShield { log.add(outcome { try atomic.get() }) }
      }
    }
    #expect(Set(log.all) == ["begins", "cancelled", "elsewhere"])
  }

  /// A cancel ends what is queued out of turn. One that begins all the same needs its turn.
  @Test func aCancelledScopeKeepsItsLimitForAtomicChildren() async throws {
    let (running, most) = (Holder(Atomic<Int>(0)), Holder(Atomic<Int>(0)))
    let ended = try await Coroutine(on: ThreadPool(threads: 2)) { () -> Int in
      var children: [Coroutine<Void, any Error>] = []
      let wasCancelled = outcome {
        try withScope(limit: 1) { scope in
          for _ in 0..<10 {
            children.append(
              scope.launch(start: .atomic) {
                most.value.max(running.value.add(1, ordering: .relaxed).newValue, ordering: .relaxed)
                withCancellationShield { try? Coroutine.sleep(for: .microseconds(100)) }
                running.value.subtract(1, ordering: .relaxed)
                try Coroutine.checkCancellation()
              })
          }
          scope.cancel()
          try Coroutine.checkCancellation()
        }
      }
      #expect(wasCancelled != "")
      return children.count { $0.isFinished }
    }.get()
    #expect(ended == 10)
    #expect(most.value.load(ordering: .relaxed) == 1)
  }

  /// The first one decides: a child that was started runs, and the scope waits for it; any other never runs.
  @Test func aStartFromOutsideRacesWithTheEndOfTheScope() async throws {
    for round in 0..<amount(1000, sanitized: 150) {
      let ran = Holder(Atomic<Bool>(false))
      let handles = Channel<Coroutine<Void, Never>>(capacity: .buffered(1))
      let starter = Coroutine(on: .pool) { try handles.receive().start() }
      let hasRun = try await Coroutine(on: .pool) {
        try withScope(limit: round % 2 == 0 ? nil : 1) { scope in
          let lazy = scope.launch(start: .lazy) { ran.value.store(true, ordering: .relaxed) }
          try handles.send(lazy)
          if round % 3 == 0 { Coroutine.yield() }
        }
        return ran.value.load(ordering: .relaxed)
      }.get()
      let isStarted = try await starter.get()
      #expect(hasRun == isStarted)
      #expect(ran.value.load(ordering: .relaxed) == hasRun)
    }
  }

  /// Its scheduler is asked to end one that nobody has started, and starts the other two: the second finds no slot.
  @Test func oneThatIsStartedAtTheEndAndQueuedIsNotCancelled() async throws {
    let log = Log()
    try await serially {
      let scheduler = AskedScheduler()
      try withScope(limit: 1) { scope in
        _ = scope.launch(on: scheduler, start: .lazy) { log.add("ran though not started") }
        let others = (1...2).map { number in scope.launch(start: .lazy) { log.add("\(number)") } }
        scheduler.whenAsked { for other in others { other.start() } }
      }
      log.add("the scope's end")
    }
    #expect(log.all == ["1", "2", "the scope's end"])
  }

  /// What its body captured goes with the scope, also where there is no handle any more.
  @Test func nothingOfItIsKeptBehindTheScope() async throws {
    final class Held: Sendable {}
    weak var held: Held?
    func run() async throws {
      let object = Held()
      held = object
      try await serially {
        try withScope { scope in
          _ = scope.launch(start: .lazy) { withExtendedLifetime(object) {} }
        }
        let scope = CoroutineScope()
        _ = scope.launch(start: .lazy) { withExtendedLifetime(object) {} }
      }
    }
    try await run()
    while held != nil { await Task.yield() }
  }
}

/// Calls a function each time that it is given a coroutine, before it takes that on.
private final class AskedScheduler: Scheduler {
  private let function = Guarded<(@Sendable () -> Void)?>(nil)
  private let ready = CoroutineJobQueue()

  func whenAsked(_ function: @escaping @Sendable () -> Void) {
    self.function.withLock { $0 = function }
  }

  func enqueue(_ job: consuming CoroutineJob) {
    if let function = function.withLock({ $0 }) { function() }
    if ready.append(job) { DispatchQueue.global().async { self.turn() } }
  }

  private func turn() {
    if ready.run() { DispatchQueue.global().async { self.turn() } }
  }

  var isCurrent: Bool { false }
  var isSerial: Bool { true }
}
