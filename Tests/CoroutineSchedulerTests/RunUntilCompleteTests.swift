import CoroutineTestSupport
import Dispatch
import Foundation
import Synchronization
import Testing

@testable import Coroutine

@Suite(.ownThreads, .timeLimit(.minutes(30))) struct RunUntilCompleteTests {
  struct Problem: Error {}

  @Test func theBodyAndItsChildrenRunOnThisThreadInOrder() throws {
    let thread = pthread_self()
    var log: [String] = []  // not shared: all coroutines run here
    let value = try runUntilComplete(name: "main") { () throws -> Int in
      #expect(pthread_equal(pthread_self(), thread) != 0)
      let wake = Channel<Int>()
      let others = Log()
      let first = Coroutine { () throws -> Bool in
        others.add("first")
        let value = try wake.receive()
        others.add("first received \(value)")
        return pthread_equal(pthread_self(), thread) != 0
      }
      let second = Coroutine { others.add("second") }
      log.append("body goes on")
      Coroutine.yield()
      try wake.send(1)
      others.add("body sent")
      #expect(try first.get())
      try second.get()
      log += others.all
      return 42
    }
    #expect(value == 42)
    #expect(log == ["body goes on", "first", "second", "body sent", "first received 1"])
  }

  @Test func whatTheBodyThrowsComesOut() {
    #expect(throws: Problem.self) {
      try runUntilComplete {
        Coroutine.yield()
        throw Problem()
      }
    }
    #expect(throws: (any Error).self) { try runUntilComplete(stackSize: .max) {} }
  }

  @Test func aWakeFromAnotherThreadWakesIt() throws {
    for round in 0..<200 {
      let value = try runUntilComplete {
        try withSuspension { resume in
          DispatchQueue.global().async { resume(round) }
        }
      }
      #expect(value == round)
    }
  }

  @Test func thePoolAnswersIt() throws {
    let sum = try runUntilComplete { () throws -> Int in
      let numbers = Channel<Int>()
      let producer = Coroutine(on: .pool) {
        for number in 1...1_000 { try numbers.send(number) }
        numbers.close()
      }
      var sum = 0
      for number in numbers.received { sum += number }
      try producer.get()
      return sum
    }
    #expect(sum == 500_500)
  }

  @Test func whatIsLeftGoesOnElsewhere() throws {
    let release = Channel<Int>()
    let (waiting, ready) = try runUntilComplete {
      let waiting = Coroutine { try release.receive() }
      Coroutine.yield()
      return (waiting, Coroutine { 7 })
    }
    #expect(try ready.getBlocking() == 7)
    try Coroutine(on: .pool) { try release.send(8) }.getBlocking()
    #expect(try waiting.getBlocking() == 8)
  }

  /// What was left on the main thread runs on the main queue.
  @Test func blockingTheMainThreadForWhatWasLeftTraps() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      await MainActor.run {
        @MainActor func wait() throws {
          let left = try runUntilComplete { Coroutine { 7 } }
          _ = try left.getBlocking()
        }
        try? wait()
      }
    }
    #expect(standardError(of: result).contains("blocks the only thread of"))
  }

  private final class Session: Sendable {
    private let ended: @Sendable () -> Void
    init(_ ended: @escaping @Sendable () -> Void) { self.ended = ended }
    deinit {
      Coroutine.yield()
      ended()
    }
  }

  /// The end of a coroutine-local value belongs to the coroutine, and may wait.
  @Test func aValueThatWaitsAsItEndsIsWaitedFor() throws {
    let thread = PlainThread { () -> Bool? in
      let local = CoroutineLocal<Session?>(nil)
      let here = pthread_self()
      let wasHere = Guarded<Bool?>(nil)
      try? runUntilComplete {
        local.value = Session { wasHere.withLock { $0 = pthread_equal(pthread_self(), here) != 0 } }
      }
      return wasHere.withLock { $0 }
    }
    #expect(thread.join() == true)
  }

  @Test func aThreadMayRunOneAfterAnother() throws {
    for round in 0..<50 {
      #expect(try runUntilComplete { try Coroutine { round }.get() } == round)
      #expect(Coroutine.currentID == nil)
    }
  }

  @Test func insideACoroutineItTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      @Sendable func nested() throws { try runUntilComplete {} }
      try await Coroutine { try nested() }.get()
    }
    let text = result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
    #expect(text.contains("runUntilComplete inside a coroutine"))
  }
}
