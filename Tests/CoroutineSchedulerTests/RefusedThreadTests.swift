import CCoroutine
import CCoroutineSystem
import CoroutineTestSupport
import CoroutineTracing
import Glibc
import Synchronization
import Testing

@testable import Coroutine

/// Programs to which the system refuses threads. In processes of their own, as the refusal concerns the whole
/// process.
@Suite(.ownThreads) struct RefusedThreadTests {
  // MARK: A pool

  @Test func aPoolWithoutAThreadTriesAgain() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      let pool = ThreadPool(threads: 2)
      coroutine_system_refuse_threads(3)
      let value = try await Coroutine(on: pool) { 5 }.get()
      #expect(value == 5)
    }
    #expect(standardError(of: result).contains("of a ThreadPool of 2 could not be started: "))
    #expect(standardError(of: result).contains("It is tried again."))
  }

  @Test func aPoolThatNeverGetsAThreadTrapsWithTheReason() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      coroutine_system_refuse_threads(.max)
      _ = try await Coroutine(on: ThreadPool(threads: 1)) { 5 }.get()
    }
    let reason = String(cString: strerror(EAGAIN))
    #expect(standardError(of: result).contains("thread 1 of a ThreadPool of 1 could not be started: \(reason)"))
    #expect(standardError(of: result).contains("make the pool smaller"))
  }

  @Test func aPoolGoesOnWithTheThreadsThatItHas() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      let pool = ThreadPool(threads: 4)
      let (begun, gate) = (Gate(), Gate())
      // The pool has two threads when this one begins, which blocks one of them. What comes next makes the pool want
      // a third.
      let holder = Coroutine(on: pool) {
        coroutine_system_refuse_threads(.max)
        begun.open()
        gate.pass()
      }
      begun.pass()
      let sum = Coroutine(on: pool) {
        let parts = (0..<200).map { part in
          Coroutine(on: pool) {
            Coroutine.yield()
            return part
          }
        }
        return try parts.reduce(0) { $0 + (try $1.get()) }
      }
      let others = (0..<200).map { part in Coroutine(on: pool) { part } }
      let whole = try await sum.get()
      var results: [Int] = []
      for other in others { results.append(try await other.get()) }
      gate.open()
      try await holder.get()
      #expect(whole == 19_900 && results == Array(0..<200))
    }
    let text = standardError(of: result)
    #expect(text.split(separator: "\n").count { $0.contains("could not be started") } == 1, "\(text)")
    #expect(text.contains("The pool goes on with those that it has."))
  }

  @Test func aPoolWhoseThreadIsPinnedGoesOnWithAnother() async {
    await #expect(processExitsWith: .success) {
      let pool = ThreadPool(threads: 2)
      let channel = Channel<Int>()
      let (arrived, holds) = (Channel<Void>(), Gate())
      // Both threads exist.
      let holder = Coroutine(on: pool) { holds.pass() }
      let pinned = Coroutine(on: pool) {
        try withThreadPinned {
          coroutine_system_refuse_threads(1)
          try arrived.send(())
          return try channel.receive()
        }
      }
      try await arrived.receive()
      holds.open()
      try await holder.get()
      let sender = Coroutine(on: pool) { try channel.send(7) }
      try await sender.get()
      let value = try await pinned.get()
      #expect(value == 7)
    }
  }

  @Test func aSerialPoolWhoseThreadIsPinnedTriesAgain() async {
    await #expect(processExitsWith: .success) {
      let pool = ThreadPool(threads: 1)
      let channel = Channel<Int>()
      let pinned = Coroutine(on: pool) {
        try withThreadPinned {
          let sender = Coroutine(on: pool) { try channel.send(7) }
          coroutine_system_refuse_threads(3)
          defer { withExtendedLifetime(sender) {} }
          return try channel.receive()
        }
      }
      let value = try await pinned.get()
      #expect(value == 7)
    }
  }

  @Test func onlyWorkersWithThreadsAreChosenAfterARefusal() {
    var machine = PoolStateMachine(count: 3)
    let first = machine.workArrived()
    let toMonitor = machine.endSearch(moreIsLeft: false)
    let none = machine.startRefused(1, wasSearching: true)
    #expect(first == 0 && toMonitor == 1 && none == nil)
    #expect(machine.searching == 0 && machine.awake == 1 && machine.sleeping == [1, 2])
    let next = machine.workArrived()
    #expect(next == 2)
    guard case .monitor = machine.park(2, wasSearching: true) else {
      Issue.record("\(machine)")
      return
    }
    // The thread of the only busy worker is pinned, so the monitor takes over.
    let substitute = machine.startRefused(0, wasSearching: false)
    #expect(substitute == 2)
    #expect(machine.searching == 1 && machine.awake == 1 && machine.sleeping == [0, 1] && machine.monitor == nil)
  }

  // MARK: Blocking work, timers, traces

  @Test func blockingWorkWaitsForTheThreadThatThereIs() async {
    await #expect(processExitsWith: .success) {
      let threads = BlockingPool(threadLimit: 4)
      let (begun, gate) = (Gate(), Gate())
      let first = Coroutine {
        try blocking(on: threads) {
          begun.open()
          gate.pass()
          return 1
        }
      }
      begun.pass()
      coroutine_system_refuse_threads(.max)
      let second = Coroutine.immediate { try blocking(on: threads) { 2 } }
      #expect(threads.threadCount == 1)
      gate.open()
      let results = (try await first.get(), try await second.get())
      #expect(results == (1, 2))
    }
  }

  @Test func blockingWorkWithoutAnyThreadThrows() async {
    await #expect(processExitsWith: .success) {
      let threads = BlockingPool(threadLimit: 4)
      coroutine_system_refuse_threads(1)
      do {
        _ = try await blocking(on: threads) { 1 }
        exit(3)
      } catch let refusal as ThreadRefused {
        #expect(refusal.code == EAGAIN)
      }
      #expect(threads.threadCount == 0)
      try await Coroutine {}.get()
      let refused = Coroutine.immediate {
        coroutine_system_refuse_threads(.max)
        return try blocking(on: threads) { 1 }
      }
      do {
        _ = try await refused.get()
        exit(4)
      } catch let refusal as ThreadRefused {
        #expect(refusal.code == EAGAIN)
      }
      coroutine_system_refuse_threads(0)
      let value = try await blocking(on: threads) { 3 }
      #expect(value == 3)
    }
  }

  @Test func whatWaitsWithTheRefusedFailsWithIt() {
    var machine = BlockingStateMachine<Int, String>(limit: 3)
    guard case .start("a") = machine.submit("a"), case .start("b") = machine.submit("b"),
      case .wait = machine.startRefused("b"), case .start("b") = machine.submit("c"),
      case .wait = machine.startRefused("b"), case .fail(["a", "b", "c"]) = machine.startRefused("a"),
      case .start("d") = machine.submit("d"), case .park = machine.done(1), case .give(1, "e") = machine.submit("e"),
      case .start("f") = machine.submit("f"), case .park = machine.done(1),
      case .give(1, "f") = machine.startRefused("f")
    else {
      Issue.record("\(machine)")
      return
    }
    #expect(machine.threads == 1)
  }

  @Test func theTimersThreadIsTriedAgain() async {
    await #expect(processExitsWith: .success) {
      try await Coroutine {}.get()
      coroutine_system_refuse_threads(2)
      try await Coroutine.immediate { try Coroutine.sleep(for: .nanoseconds(1)) }.get()
    }
  }

  @Test func aTraceWithoutAThreadThrows() async {
    await #expect(processExitsWith: .success) {
      coroutine_system_refuse_threads(1)
      #expect {
        try CoroutineTrace.start(to: "/dev/null")
      } throws: {
        ($0 as? CoroutineTraceError)?.code == EAGAIN
      }
      _ = try CoroutineTrace.start(to: "/dev/null").stop()
    }
  }

  // MARK: A thread that is lost

  @Test(.disabled(if: coroutine_sanitizers_active(), "ThreadSanitizer itself ends where a fibre's thread is left so"))
  func pthreadExitInACoroutineTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Coroutine(on: ThreadPool(threads: 1), name: "leaver") { () -> Void in
        if Coroutine.isInside { pthread_exit(nil) }
      }.get()
    }
    #expect(standardError(of: result).contains("\"leaver\" has called pthread_exit"))
  }

  @Test(.disabled(if: coroutine_sanitizers_active(), "as above"))
  func pthreadExitInRunUntilCompleteTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      PlainThread { try? runUntilComplete(name: "leaver") { if Coroutine.isInside { pthread_exit(nil) } } }.join()
    }
    #expect(standardError(of: result).contains("\"leaver\" has called pthread_exit"))
  }

  @Test(.disabled(if: coroutine_sanitizers_active(), "as above"))
  func pthreadExitInOneBegunAtOnceTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      PlainThread { _ = Coroutine.immediate(name: "leaver") { if Coroutine.isInside { pthread_exit(nil) } } }.join()
    }
    #expect(standardError(of: result).contains("\"leaver\" has called pthread_exit"))
  }

  @Test(.disabled(if: coroutine_sanitizers_active(), "as above"))
  func pthreadExitInBlockingWorkTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await blocking(on: BlockingPool(threadLimit: 1)) { () -> Void in
        if !Coroutine.isInside { pthread_exit(nil) }
      }
    }
    #expect(standardError(of: result).contains("work in blocking { } has called pthread_exit"))
  }
}
