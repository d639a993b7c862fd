import CoroutineTestSupport
import Dispatch
import Glibc
import Synchronization
import Testing

@testable import Coroutine

@Suite(.ownThreads) struct RestraintTests {
  // MARK: withoutSuspension

  @Test func whatDoesNotWaitMayBeCalledAndTheBanEnds() async throws {
    let log = Log()
    try await serially {
      let semaphore = Semaphore(permits: 2)
      let mutex = CoroutineMutex(0)
      try withoutSuspension {
        try withoutSuspension { try semaphore.acquire() }
        try mutex.withLock { $0 += 1 }
        Coroutine { log.add("launched") }
      }
      log.add("yield")
      Coroutine.yield()
      let waiter = Coroutine { try semaphore.acquire(2) }
      Coroutine.yield()
      semaphore.release()
      try waiter.get()
    }
    #expect(log.all == ["yield", "launched"])
  }

  @Test func outsideOfCoroutinesBothJustRunTheirBody() {
    #expect(withoutSuspension { 1 } == 1 && withThreadPinned { 2 } == 2)
  }

  /// `yield` stays on the thread, so it is allowed. The consumer is inside `withoutSuspension` as long as the body
  /// is.
  @Test func aGeneratorMayYieldInside() async throws {
    try await serially {
      let generator = Generator<Int> { yield in
        try withoutSuspension { for number in 0..<3 { try yield(number) } }
        try yield(3)
      }
      #expect(Array(generator) == [0, 1, 2, 3])
      Coroutine.yield()
    }
  }

  @Test func aSuspensionInsideTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let channel = Channel<Int>()
      _ = try await Coroutine(name: "careless") { try withoutSuspension { try channel.receive() } }.get()
    }
    let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(text.contains("\"careless\" suspends (receive) inside withoutSuspension"))
    let exit1 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Coroutine { withoutSuspension { Coroutine.yield() } }.get()
    }
    #expect(standardError(of: exit1).contains("withoutSuspension"))
    let exit2 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Coroutine {
        let generator = Generator<Int> { yield in try withoutSuspension { try yield(1) } }
        for _ in generator { Coroutine.yield() }
      }.get()
    }
    #expect(standardError(of: exit2).contains("withoutSuspension"))
  }

  // MARK: withThreadPinned

  /// Waits in each of the usual ways. Returns whether the thread was always the same.
  private static func staysOnItsThread(_ log: Log? = nil) throws -> Bool {
    try withThreadPinned {
      let thread = pthread_self()
      var same = true
      for round in 0..<20 {
        let answer = Channel<Int>()
        Coroutine { try answer.send(round) }
        if try answer.receive() != round { return false }
        same = same && pthread_equal(thread, pthread_self()) != 0
        Coroutine.yield()
        try withThreadPinned { try Coroutine.sleep(for: .microseconds(10)) }
        same = same && pthread_equal(thread, pthread_self()) != 0
      }
      return same
    }
  }

  @Test func aPinnedCoroutineComesBackOnItsThread() async throws {
    for threads in 1...3 {
      let pool = ThreadPool(threads: threads)
      let all = (0..<4).map { _ in Coroutine(on: pool) { try Self.staysOnItsThread() } }
      for coroutine in all { #expect(try await coroutine.get()) }
      // The pool has all its threads again.
      let after = (0..<10).map { number in Coroutine(on: pool) { number } }
      for (number, coroutine) in after.enumerated() { #expect(try await coroutine.get() == number) }
    }
    let all = (0..<16).map { _ in Coroutine(on: .pool) { try Self.staysOnItsThread() } }
    for coroutine in all { #expect(try await coroutine.get()) }
  }

  @Test func aSerialPoolStaysSerialAndInOrderAroundAPinnedWait() async throws {
    let pool = ThreadPool(threads: 1)
    final class Witness: Sendable {
      let log = Log()
      private let inside = Atomic<Int>(0)
      func alone(_ entry: String) {
        #expect(inside.add(1, ordering: .relaxed).newValue == 1)
        log.add(entry)
        inside.subtract(1, ordering: .relaxed)
      }
    }
    let witness = Witness()
    let main = Coroutine(on: pool) {
      let gate = Channel<Void>()
      let pinned = Coroutine {
        try withThreadPinned {
          witness.alone("waits")
          try gate.receive()
          witness.alone("goes on")
          Coroutine.yield()
          witness.alone("ends")
        }
        witness.alone("unpinned")
      }
      let other = Coroutine {
        witness.alone("other")
        try gate.send(())
        witness.alone("sent")
        Coroutine.yield()
        witness.alone("other again")
      }
      try pinned.get()
      try other.get()
    }
    try await main.get()
    #expect(witness.log.all == ["waits", "other", "sent", "goes on", "other again", "ends", "unpinned"])
  }

  @Test func aSystemsLockMayBeHeldAcrossAPinnedWait() async throws {
    final class SystemLock: @unchecked Sendable {
      let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
      init() {
        var attributes = pthread_mutexattr_t()
        pthread_mutexattr_init(&attributes)
        // Such a mutex reports an unlock by another thread.
        pthread_mutexattr_settype(&attributes, Int32(PTHREAD_MUTEX_ERRORCHECK))
        pthread_mutex_init(mutex, &attributes)
      }
      deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
      }
    }
    let lock = SystemLock()
    let codes = Guarded<Set<Int32>>([])
    // A thread for each, even with few processors: three may block in the lock while the fourth comes back.
    let pool = ThreadPool(threads: 4)
    let all = (0..<4).map { _ in
      Coroutine(on: pool) {
        for _ in 0..<5 {
          try withThreadPinned {
            _ = pthread_mutex_lock(lock.mutex)
            try Coroutine.sleep(for: .microseconds(100))
            let code = pthread_mutex_unlock(lock.mutex)
            codes.withLock { _ = $0.insert(code) }
          }
        }
      }
    }
    for coroutine in all { try await coroutine.get() }
    #expect(codes.withLock { $0 } == [0])
  }

  @Test func aPinnedWaitOnAQueueBlocksTheQueueAndIsCancelled() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    let channel = Channel<Int>()
    let pinned = Coroutine(on: queue) {
      try withThreadPinned {
        let thread = pthread_self()
        log.add("\(try channel.receive())")
        log.add("\(pthread_equal(thread, pthread_self()) != 0)")
        Coroutine.yield()
        log.add(outcome { _ = try channel.receive() })
        log.add("end")
      }
    }
    let other = Coroutine(on: queue) { log.add("other") }
    try await channel.send(1)
    pinned.cancel()
    try await pinned.get()
    try await other.get()
    #expect(log.all == ["1", "true", "cancelled", "end", "other"])
  }

  @Test func aPinnedWaitInsideOfWhatAnotherCoroutineRunsBlocksBoth() async throws {
    let log = Log()
    let coroutine = Coroutine(on: ThreadPool(threads: 2)) {
      let inner = Coroutine.immediate {
        try withThreadPinned {
          try Coroutine.sleep(for: .milliseconds(1))
          Coroutine.yield()
          log.add("inner")
        }
      }
      log.add("outer")
      try inner.get()
    }
    try await coroutine.get()
    #expect(log.all == ["inner", "outer"])
  }

  @Test func aPinnedWaitOnALentThreadBlocksIt() throws {
    let log = Log()
    try runUntilComplete {
      Coroutine { log.add("other") }
      try withThreadPinned {
        try Coroutine.sleep(for: .milliseconds(1))
        Coroutine.yield()
        log.add("pinned")
      }
      Coroutine.yield()
    }
    #expect(log.all == ["pinned", "other"])
  }

  @Test func aPinnedWaitersStackCanBeSeen() async throws {
    let pool = ThreadPool(threads: 1)
    let channel = Channel<Int>(name: "never")
    let pinned = Coroutine(on: pool) { try withThreadPinned { try channel.receive() } }
    try await Coroutine(on: pool) {}.get()
    var reasons: [String] = []
    try Inspection.visitAll { if $0.id == pinned.id { reasons.append($0.waitsFor) } }
    #expect(reasons.count == 1 && reasons.first?.hasPrefix("receive on channel \"never\"") == true)
    #expect(pinned.state == .suspended)
    try await channel.send(1)
    #expect(try await pinned.get() == 1)
  }

  @Test func movingElsewhereWhilePinnedTraps() async {
    let exit3 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Coroutine { withThreadPinned { on(DispatchQueue.global()) {} } }.get()
    }
    #expect(standardError(of: exit3).contains("moves to another scheduler inside withThreadPinned"))
  }

  @Test func endingWhilePinnedByAGeneratorTrapsByName() async {
    let exit = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let generator = Guarded(
        Generator<Int> { yield in
          try withThreadPinned { try yield(1) }
          try yield(2)
        })
      for _ in 0..<2 { _ = try await Coroutine { generator.withLock { $0.next() } }.get() }
    }
    #expect(standardError(of: exit).contains("has ended inside withThreadPinned"))
  }
}
