import CCoroutine
import CCoroutineSystem
import Context
import CoroutineTestSupport
import Dispatch
import Glibc
import Testing

@testable import Coroutine

/// What a child by `fork` may do, and the messages that it gets. In processes of their own, whose other threads work
/// meanwhile.
@Suite(.ownThreads, .disabled(if: coroutine_sanitizers_active(), "a sanitizer's locks are not free in a child"))
struct ForkTests {
  // MARK: What goes on

  @Test func aGeneratorGoesOnInAChildWhateverOtherThreadsDid() async {
    await #expect(processExitsWith: .success) {
      sumOfGenerators()
      let load = Load(threads: 3) { _ = sumOfGenerators() }
      for _ in 0..<forkCount {
        let end = Child { sumOfGenerators() == 2 * 4950 ? 0 : 3 }.end
        #expect(end == .exited(0))
      }
      load.stop()
    }
  }

  @Test func aPoolOfStacksGrowsInAChildWhateverOtherThreadsDid() async {
    await #expect(processExitsWith: .success) {
      growAPoolOfStacks()
      let load = Load(threads: 3) { growAPoolOfStacks() }
      for _ in 0..<forkCount {
        let end = Child {
          growAPoolOfStacks()
          return 0
        }.end
        #expect(end == .exited(0))
      }
      load.stop()
    }
  }

  @Test func aGeneratorGoesOnInAChildThatWasForkedInAFreeze() async {
    await #expect(processExitsWith: .success) {
      sumOfGenerators()
      let load = Load(threads: 1) { try! Inspection.visitAll { _ in } }
      for _ in 0..<forkCount {
        #expect(Child { sumOfGenerators() == 2 * 4950 ? 0 : 3 }.end == .exited(0))
        #expect(Child { (try? Inspection.visitAll { _ in }) == nil ? 3 : 0 }.end == .exited(0))
      }
      load.stop()
    }
  }

  @Test func aGeneratorsLostErrorIsToldInAChild() async {
    await #expect(processExitsWith: .success) {
      @Sendable func lose() {
        let generator = Generator<Int> { yield in
          try yield(1)
          throw Lost()
        }
        for _ in generator {}
      }
      CoroutineErrors.unhandled = { _, _ in }
      lose()
      let load = Load(threads: 2) { CoroutineErrors.unhandled = { _, _ in } }
      for _ in 0..<forkCount {
        let end = Child {
          lose()
          return 0
        }.end
        #expect(end == .exited(0))
      }
      load.stop()
    }
  }

  @Test func whatAChildMakesItselfWorks() async {
    await #expect(processExitsWith: .success) {
      _ = useOwnObjects()
      let shared = Channel<Int>(capacity: .newest(8))
      let load = Load(threads: 2) {
        _ = useOwnObjects()
        _ = shared.trySend(1)
      }
      for _ in 0..<forkCount { #expect(Child { useOwnObjects() ? 0 : 3 }.end == .exited(0)) }
      load.stop()
    }
  }

  @Test func actorsOfAChildAskEachOtherWhateverOtherThreadsDid() async {
    await #expect(processExitsWith: .success) {
      _ = askByActors()
      let load = Load(threads: 3) { _ = askByActors() }
      for _ in 0..<forkCount { #expect(Child { askByActors() == 20 ? 0 : 3 }.end == .exited(0)) }
      load.stop()
    }
  }

  @Test func runUntilCompleteRunsInAChild() async {
    await #expect(processExitsWith: .success) {
      #expect(runFamily() == 5)
      #expect(Child.end { runFamily() == 5 ? 0 : 3 } == .exited(0))
    }
  }

  @Test func aPoolThatAChildMakesHasThreads() async {
    await #expect(processExitsWith: .success) {
      try await Coroutine(on: ThreadPool(threads: 2)) {}.get()
      #expect(Child.end { runOnPoolOfItsOwn() == 5 ? 0 : 3 } == .exited(0))
    }
  }

  @Test func aChildsFirstCoroutineNeedsNoLockOfTheDynamicLinker() async {
    await #expect(processExitsWith: .success) {
      // No coroutine has run in this process.
      #expect(Child { 7 }.end == .exited(7))
      let holder = PlainThread { LinkerLock.hold() }
      LinkerLock.isHeld.wait()
      let child = Child { runFamily() == 5 ? 0 : 3 }
      LinkerLock.isNeededNoMore.signal()
      holder.join()
      #expect(child.end == .exited(0))
    }
  }

  // MARK: What is told

  @Test func aChannelThatAnotherThreadWasUsingTrapsInsteadOfHanging() async {
    await #expect(processExitsWith: .success) {
      let channel = Channel<Int>(capacity: .newest(8))
      for _ in 0..<20 { _ = channel.trySend(1) }
      let load = Load(threads: 3) { _ = channel.trySend(1) }
      for _ in 0..<forkCount {
        let end = Child {
          _ = channel.trySend(2)
          return 0
        }.end
        #expect(end == .exited(0) || end == .trapped)
      }
      load.stop()
    }
  }

  @Test func aLockOfAThreadThatIsNotThereTraps() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      let holder = HeldLock()
      holder.lock.lock()
      let child = Child {
        holder.lock.lock()
        return 0
      }
      #expect(child.end == .trapped)
      // The same in a child with a thread of its own, which could be the one that has the lock.
      let other = Child {
        guard OwnThread.start() else { return 3 }
        holder.lock.lock()
        return 0
      }
      #expect(other.end == .trapped)
      holder.lock.unlock()
    }
    #expect(standardError(of: result).contains("a child of fork waits for a thread that only its parent has"))
  }

  /// The thread of the timers is the parent's.
  @Test func aChildsOwnBlockingPoolMayBeFull() async {
    await #expect(processExitsWith: .success) {
      try await Coroutine { try Coroutine.sleep(for: .microseconds(1)) }.get()
      let end = Child.end {
        let threads = BlockingPool(threadLimit: 1)
        let done = DispatchSemaphore(value: 0)
        for _ in 0..<2 { threads.submit(UnansweredWork { done.signal() }) }
        for _ in 0..<2 { done.wait() }
        return 0
      }
      #expect(end == .exited(0))
    }
  }

  @Test func whatNeedsTheParentsThreadsTraps() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      let pool = ThreadPool(threads: 2)
      try await Coroutine(on: pool) { try Coroutine.sleep(for: .milliseconds(1)) }.get()
      let (promise, resolver) = Promise<Int>.makePromise()
      let queue = DispatchQueue(label: "parent's")
      let kept = Coroutine(on: queue) { try promise.get() }
      let threads = BlockingPool(threadLimit: 1)
      try await blocking(on: threads) {}
      let waiter = Coroutine(on: pool) { try promise.get() }
      while waiter.state != .suspended { sched_yield() }
      let bodies: [@Sendable () -> CInt] = [
        {
          Coroutine(on: pool) {}
          return 0
        },
        {
          // The coroutine that it would wake is on the pool.
          resolver.fulfill(1)
          return 0
        },
        { sleepInRunUntilComplete() },
        {
          Coroutine(on: queue) {}
          return 0
        },
        { blockInRunUntilComplete(on: threads) },
        { (try? promise.getBlocking()) == nil ? 3 : 0 },
        { (try? kept.getBlocking()) == nil ? 3 : 0 },
        { getInRunUntilComplete(promise) },
      ]
      var hangsAllowed = 1
      for body in bodies { #expect(Child.end(hangsAllowed: &hangsAllowed, body) == .trapped) }
      resolver.fulfill(5)
      let values = (try await waiter.get(), try await kept.get())
      #expect(values == (5, 5))
    }
    let text = standardError(of: result)
    for word in [
      "a ThreadPool of 2 has something to run in a child of fork", "a sleep or a timeout begins in a child of fork",
      "queue \"parent's\" has something to run in a child of fork", "a BlockingPool gets work in a child of fork",
      "Call exec or _exit in the child, or",
      "a child of fork waits for a thread that only its parent has",
    ] { #expect(text.contains(word), "\(word)\n\(text)") }
  }

  @Test func aCoroutineThatForksAndSuspendsInTheChildTraps() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      let end = try await Coroutine(on: ThreadPool(threads: 1)) { () -> Child.End in
        let channel = Channel<CInt>()
        // The closure is no body of a coroutine, but runs in one.
        return Child.end { (try? channel.receive()) ?? 0 > 0 ? 0 : 3 }
      }.get()
      #expect(end == .trapped)
    }
    let text = standardError(of: result)
    #expect(text.contains("a coroutine that has called fork, or one after it, suspends in a child"), "\(text)")
  }
}

/// Few enough to be quick, and so many that nearly each test meets a lock that was owned at the fork.
private let forkCount = 150

private struct Lost: Error {}

/// The lock under which the dynamic linker goes through the loaded libraries. The C library leaves it as it is in a child.
private enum LinkerLock {
  static let isHeld = DispatchSemaphore(value: 0)
  static let isNeededNoMore = DispatchSemaphore(value: 0)

  private typealias Visit = @convention(c) (UnsafeRawPointer?, Int, UnsafeMutableRawPointer?) -> CInt
  private typealias VisitLibraries = @convention(c) (Visit, UnsafeMutableRawPointer?) -> CInt

  static func hold() {
    // The C library has a function of this name and type, which Swift does not import.
    let visitLibraries = unsafeBitCast(dlsym(nil, "dl_iterate_phdr"), to: VisitLibraries.self)
    let result = visitLibraries({ _, _, _ in LinkerLock.wait() }, nil)
    #expect(result == 1)
  }

  private static func wait() -> CInt {
    isHeld.signal()
    isNeededNoMore.wait()
    return 1
  }
}

/// A thread that a child starts, and that does nothing.
private enum OwnThread {
  static func start() -> Bool {
    coroutine_system_start_thread(
      { _ in
        while true { pause() }
      }, nil) == 0
  }
}

private final class HeldLock: Sendable {
  let lock = Lock()
}

/// Two generators, one inside the other.
@discardableResult
private func sumOfGenerators() -> Int {
  let inner = Generator<Int> { yield in
    for number in 0..<100 { try yield(number) }
  }
  let outer = Generator<Int> { yield in
    for number in inner { try yield(2 * number) }
  }
  return outer.reduce(0, +)
}

/// Takes more stacks than the pool has at first.
private func growAPoolOfStacks() {
  guard let pool = try? StackPool.shared(stackSize: 96 << 10) else { return }
  let stacks = (0..<200).map { _ in try! pool.allocate() }
  for stack in stacks { pool.release(stack) }
  pool.trim()
}

/// An actor asks another one, all on this thread.
@Sendable private func askByActors() -> Int {
  let sum = try? runUntilComplete { () throws -> Int in
    let inner = MessageActor<Reply<Int>> { mailbox in for reply in mailbox { reply.complete(1) } }
    let outer = MessageActor<Reply<Int>> { mailbox in
      for reply in mailbox { reply.complete(try inner.ask { $0 }) }
    }
    defer {
      outer.cancel()
      inner.cancel()
    }
    var sum = 0
    for _ in 0..<20 { sum += try outer.ask { $0 } }
    return sum
  }
  return sum ?? -1
}

private func useOwnObjects() -> Bool {
  let channel = Channel<Int>(capacity: .buffered(2))
  guard case .sent = channel.trySend(1) else { return false }
  let (promise, resolver) = Promise<Int>.makePromise()
  let waiter = PlainThread { (try? promise.getBlocking()) ?? 0 }
  resolver.fulfill(4)
  guard case .received(1) = channel.tryReceive() else { return false }
  return waiter.join() == 4
}

private func runFamily() -> Int {
  do {
    return try runUntilComplete {
      let channel = Channel<Int>()
      let sender = Coroutine { try channel.send(5) }
      defer { withExtendedLifetime(sender) {} }
      return try channel.receive()
    }
  } catch { return -1 }
}

private func runOnPoolOfItsOwn() -> Int {
  (try? Coroutine(on: ThreadPool(threads: 2)) { 5 }.getBlocking()) ?? -1
}

private func getInRunUntilComplete(_ promise: Promise<Int>) -> CInt {
  (try? runUntilComplete { try promise.get() }) == nil ? 3 : 0
}

private func sleepInRunUntilComplete() -> CInt {
  do {
    try runUntilComplete { try Coroutine.sleep(for: .seconds(3600)) }
  } catch { return 3 }
  return 0
}

private func blockInRunUntilComplete(on threads: BlockingPool) -> CInt {
  do {
    return try runUntilComplete { try blocking(on: threads) { 0 } }
  } catch { return 3 }
}
