import CoroutineTestSupport
import Dispatch
import Synchronization
import Testing

@testable import Coroutine

@Suite(.ownThreads) struct StartTests {
  @Test func aLazyCoroutineRunsOnceWhenItIsWanted() async throws {
    let log = Log()
    try await serially {
      let lazy = Coroutine(on: DispatchQueue(label: "other"), start: .lazy) { () -> Int in
        log.add("runs")
        return 7
      }
      Coroutine.yield()
      log.add("before \(lazy.state)")
      log.add("\(try lazy.get()) \(try lazy.get())")
      log.add("\(lazy.start())")
    }
    #expect(log.all == ["before ready", "runs", "7 7", "false"])
  }

  @Test func eachWayToWaitStartsIt() async throws {
    @Sendable func make() -> Coroutine<Int, any Error> { Coroutine(start: .lazy) { () throws -> Int in 3 } }
    #expect(try await make().get() == 3)
    let inCoroutine = Coroutine { () throws -> [Int] in
      var all = [try make().get(), try make().get(timeout: .seconds(1000))]
      all.append(try select { make().onValue { $0 } })
      all.append(try values(of: make(), make()).0)
      let started = make()
      all.append(started.start() ? try started.get() : 0)
      return all
    }
    #expect(try await inCoroutine.get() == [3, 3, 3, 3, 3])
    #expect(await make().result.map { $0 + 1 }.get(default: 0) == 4)
  }

  @Test func oneThatIsNotWantedGoesWithItsLastHandle() async throws {
    final class Held: Sendable {
      let ended: Atomic<Int>
      init(_ value: Int) { ended = Atomic(value) }
    }
    weak var held: Held?
    let before = Coroutine.statistics.liveCoroutines
    func makeAndDrop() {
      let object = Held(1)
      held = object
      _ = Coroutine(start: .lazy) { object.ended.load(ordering: .relaxed) }
    }
    makeAndDrop()
    #expect(held == nil)
    _ = before
  }

  @Test func whatComesAfterOneThatIsNotWantedRunsWhenItGoes() async throws {
    let log = Log()
    let queue = DispatchQueue(label: "serial")
    func makeAndDrop() {
      Coroutine(on: queue, start: .lazy) { log.add("ran") }
        .finally { log.add("first") }
        .finally { log.add("second") }
    }
    makeAndDrop()
    try await Coroutine(on: queue) {}.get()
    #expect(log.all == ["first", "second"])
  }

  @Test func aLazyOneThatIsCancelledEndsWithoutHavingRun() async throws {
    let log = Log()
    let lazy = Coroutine(start: .lazy) { log.add("ran") }
    lazy.cancel()
    await #expect(throws: CancellationError.self) { try await lazy.get() }
    #expect(log.all == [] && lazy.isFinished && !lazy.start())
  }

  @Test func aStartRacesWithACancelAndAnother() async throws {
    for _ in 0..<amount(1_000, sanitized: 100) {
      let runs = Atomic<Int>(0)
      let lazy = Coroutine(start: .lazy) { _ = runs.add(1, ordering: .relaxed) }
      let starts = (0..<2).map { _ in Coroutine { lazy.start() } }
      async let _: Void = lazy.cancel()
      var started = 0
      for start in starts where await start.get(default: false) { started += 1 }
      let ran = (try? await lazy.get()) != nil
      #expect(started <= 1 && runs.load(ordering: .relaxed) == (ran ? 1 : 0))
    }
  }

  @Test func anAtomicStartBeginsThoughItWasCancelledBefore() async throws {
    let log = Log()
    try await serially {
      let never = Channel<Int>()
      let atomic = Coroutine(start: .atomic) {
        log.add("begins, cancelled: \(Coroutine.isCancelled)")
        log.add(outcome { _ = try never.receive() })
      }
      let plain = Coroutine { log.add("plain") }
      atomic.cancel()
      plain.cancel()
      try atomic.get()
      log.add(outcome { try plain.get() })
    }
    #expect(log.all == ["begins, cancelled: true", "cancelled", "cancelled"])
  }
}

extension Coroutine {
  fileprivate func get(default value: Success) async -> Success { (try? await get()) ?? value }
}

extension Result {
  fileprivate func get(default value: Success) -> Success { (try? get()) ?? value }
}
