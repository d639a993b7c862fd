import Coroutine
import CoroutineTestSupport
import Synchronization
import Testing

/// The examples of the documentation comments, word for word.
@Suite(.ownThreads) struct SyncExamplesTests {
  @Test func mutex() async throws {
    let payments = Channel<Int>()
    let accounts = CoroutineMutex([String: Int](), name: "accounts")
    let coroutine = Coroutine {
      try accounts.withLock { balances in
        balances["ann", default: 0] += try payments.receive()  // suspends, and keeps the mutex
      }
    }
    try await payments.send(5)
    try await coroutine.get()
    #expect(try await accounts.withLock { $0 } == ["ann": 5])
  }

  @Test func condition() async throws {
    let queue = CoroutineMutex([Int]())
    let notEmpty = Condition(of: queue, name: "not empty")
    let consumer = Coroutine {
      let first = try queue.withLock { items in
        try notEmpty.wait(&items) { !$0.isEmpty }
        return items.removeFirst()
      }
      #expect(first == 1)
    }
    Coroutine {
      try queue.withLock { $0.append(1) }
      notEmpty.signal()
    }
    try await consumer.get()
  }

  @Test func semaphore() async throws {
    let connections = Semaphore(permits: 8, name: "connections")
    let fetches = (0..<20).map { number in
      Coroutine { try connections.withPermit { number } }
    }
    for (number, fetch) in fetches.enumerated() { #expect(try await fetch.get() == number) }
  }

  @Test func readWriteLock() async throws {
    let routes = ReadWriteLock([String: Int](), name: "routes")
    try await Coroutine {
      try routes.withWriteLock { $0["a"] = 1 }
      #expect(try routes.withReadLock { $0["a"] } == 1)
    }.get()
  }

  @Test func barrier() async throws {
    let step = Barrier(parties: 4, name: "step")
    let swaps = Atomic<Int>(0)
    let parts = (0..<4).map { _ in
      Coroutine {
        var swapped = 0
        for _ in 1...100 {
          if try step.wait() { swapped += 1 }  // one of the four
          try step.wait()
        }
        return swapped
      }
    }
    for part in parts { swaps.add(try await part.get(), ordering: .relaxed) }
    #expect(swaps.load(ordering: .relaxed) == 100)
  }

  @Test func waitGroup() async throws {
    let files = ["a", "b", "c"]
    let indexed = Guarded<Set<String>>([])
    let group = WaitGroup(count: files.count)
    for file in files {
      Coroutine {
        defer { group.done() }
        indexed.withLock { _ = $0.insert(file) }
      }
    }
    try await group.wait()
    #expect(indexed.withLock { $0 } == ["a", "b", "c"])
  }

  @Test func once() async throws {
    let server = Channel<Int>()
    let settings = Once<Int>(name: "settings")
    @Sendable func currentSettings() throws -> Int {
      try settings.get { try server.receive() }  // may suspend
    }
    let users = (0..<3).map { _ in Coroutine { try currentSettings() } }
    try await server.send(7)
    for user in users { #expect(try await user.get() == 7) }
  }

  @Test func restraints() async throws {
    let requests = Channel<Int>()
    let coroutine = Coroutine {
      let cache = Mutex([String: Int]())
      cache.withLock { entries in
        withoutSuspension { entries["key"] = 1 }
      }
      try withThreadPinned { try requests.send(1) }
    }
    #expect(try await requests.receive() == 1)
    try await coroutine.get()
  }
}
