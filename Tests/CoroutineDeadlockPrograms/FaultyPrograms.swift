import Coroutine
import CoroutineDebug
import CoroutineIO
import Dispatch
import Foundation

/// What an actor of these programs is asked or told.
private enum Request: Sendable {
  case get(Reply<Int>)
  case pass
}

/// Actors that know each other.
private final class Partners: Sendable {
  private let promises = (0..<2).map { _ in Promise<MessageActor<Request>>.makePromise() }
  func introduce(_ index: Int, _ actor: MessageActor<Request>) { promises[index].resolver.fulfill(actor) }
  func partner(_ index: Int) throws -> MessageActor<Request> { try promises[index].promise.get() }
}

extension FaultyProgram {
  /// The programs that leak come last: what they leave stays. No standstill is ever reported by a kernel that does
  /// not show what threads wait for, as in some sandboxes.
  static let all = cycles + initialisers + (access("/proc/self/syscall", R_OK) == 0 ? standstills : []) + errors + leaks

  // MARK: Each waits for the next

  static let cycles: [FaultyProgram] = [
    FaultyProgram("two mutexes, locked in opposite orders", .cycle(["transfer", "audit"])) { context in
      let (giro, savings) = (CoroutineMutex(0, name: "giro"), CoroutineMutex(0, name: "savings"))
      context.launch("transfer") {
        try giro.withLock { _ in
          Coroutine.yield()
          try savings.withLock { _ in }
        }
      }
      context.launch("audit") {
        try savings.withLock { _ in
          Coroutine.yield()
          try giro.withLock { _ in }
        }
      }
      try context.joinAll()
    },
    FaultyProgram("five philosophers with a fork each", .cycle(["0", "1", "2", "3", "4"])) { context in
      let forks = (0..<5).map { CoroutineMutex(0, name: "fork \($0)") }
      for seat in 0..<5 {
        context.launch("\(seat)") {
          try forks[seat].withLock { _ in
            Coroutine.yield()
            try forks[(seat + 1) % 5].withLock { _ in }
          }
        }
      }
      try context.joinAll()
    },
    FaultyProgram("a reader that reads again behind a writer", .cycle(["reader"])) { context in
      let table = ReadWriteLock(0, name: "table")
      context.launch("reader") {
        try table.withReadLock { _ in
          Coroutine.yield()
          try table.withReadLock { _ in }
        }
      }
      context.launch("writer") { try table.withWriteLock { $0 += 1 } }
      try context.joinAll()
    },
    FaultyProgram("two readers that want to write what the other one reads", .cycle(["first", "second"])) { context in
      let tables = [ReadWriteLock(0, name: "left"), ReadWriteLock(0, name: "right")]
      for (own, name) in ["first", "second"].enumerated() {
        context.launch(name) {
          try tables[own].withReadLock { _ in
            Coroutine.yield()
            try tables[1 - own].withWriteLock { $0 += 1 }
          }
        }
      }
      try context.joinAll()
    },
    FaultyProgram("two coroutines that wait for each other's end", .cycle(["first", "second"])) { context in
      let (known, handle) = Promise<Coroutine<Void, any Error>>.makePromise()
      let first = context.launch("first") { try known.get().get() }
      handle.fulfill(context.launch("second") { try first.get() })
      try context.joinAll()
    },
    FaultyProgram("two that need each other's values, and that of one that has ended", .cycle(["first", "second"])) {
      context in
      let (known, handle) = Promise<Coroutine<Void, any Error>>.makePromise()
      let ended = context.launch("ended") {}
      let first = context.launch("first") {
        try ended.get()
        _ = try values(of: [ended, known.get()])
      }
      handle.fulfill(context.launch("second") { try first.get() })
      try context.joinAll()
    },
    FaultyProgram("two that need the values of each other", .cycle(["first", "second"])) { context in
      let (known, handle) = Promise<Coroutine<Void, any Error>>.makePromise()
      let first = context.launch("first") { _ = try values(of: [known.get()]) }
      handle.fulfill(context.launch("second") { _ = try firstValue(of: [first]) })
      try context.joinAll()
    },
    FaultyProgram("a child that waits for the owner of its scope", .cycle(["parent", "child"])) { context in
      let (known, handle) = Promise<Coroutine<Void, any Error>>.makePromise()
      handle.fulfill(
        context.launch("parent") {
          let parent = try known.get()
          _ = try withScope(name: "family") { scope in
            scope.launch(name: "child") {
              context.enlist()
              try parent.join()
            }
          }
        })
      try context.joinAll()
    },
    FaultyProgram("an ask while holding what the actor needs", .cycle(["bank", "client"])) { context in
      let ledger = CoroutineMutex(0, name: "ledger")
      let bank = MessageActor<Request>(name: "bank") { mailbox in
        for case .get(let reply) in mailbox { reply.complete(try ledger.withLock { $0 }) }
      }
      context.onRescue { bank.cancel() }
      context.launch("client") { try ledger.withLock { $0 += try bank.ask { .get($0) } } }
      try context.joinAll()
    },
    FaultyProgram("two values that need each other to be made", .cycle(["chicken", "egg"])) { context in
      let (chicken, egg) = (Once<Int>(name: "chicken"), Once<Int>(name: "egg"))
      context.launch("chicken") {
        _ = try chicken.get {
          Coroutine.yield()
          return try egg.get { 1 }
        }
      }
      context.launch("egg") {
        _ = try egg.get {
          Coroutine.yield()
          return try chicken.get { 1 }
        }
      }
      try context.joinAll()
    },
    FaultyProgram("a generator's body that waits for its consumer's mutex", .cycle(["consumer", "numbers"])) {
      context in
      let state = CoroutineMutex(1, name: "state")
      let numbers = AsyncGenerator<Int>(name: "numbers") { yield in try yield(state.withLock { $0 }) }
      context.launch("consumer") { try state.withLock { $0 += try numbers.next() ?? 0 } }
      try context.joinAll()
    },
    FaultyProgram("two actors with full mailboxes that tell each other", .cycle(["ping", "pong"])) { context in
      let partners = Partners()
      let actors = ["ping", "pong"].enumerated().map { index, name in
        MessageActor<Request>(name: name, mailbox: .bounded(1)) { mailbox in
          for request in mailbox {
            for _ in 0..<3 { try partners.partner(1 - index).tell(request) }
          }
        }
      }
      for (index, actor) in actors.enumerated() {
        partners.introduce(index, actor)
        context.onRescue { actor.cancel() }
      }
      try actors[0].tell(.pass)
      _ = try actors[0].ask { .get($0) }
    },
  ]

  // MARK: Nothing is left that could wake them

  static let standstills: [FaultyProgram] = [
    FaultyProgram("a receiver without a sender, where sockets have come and gone", .standstill(["main", "receiver"])) {
      context in
      // From here on idle threads sleep in the poller, which has nothing that could wake them.
      var ends: [CInt] = [0, 0]
      guard socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends) == 0 else { return }
      for end in ends {
        let socket = try Descriptor(adopting: end)
        try socket.waitUntilWritable()
        socket.close()
      }
      let jobs = Channel<Int>()
      context.launch("receiver", on: .shared) { _ = try jobs.receive() }
      try context.joinAll()
    },
    FaultyProgram("a rendezvous without a partner", .standstill(["main"])) { _ in
      try Channel<Int>(name: "answers").send(1)
    },
    // Before there is a child: the detector can't know which other processes share a child's eventfd.
    FaultyProgram("a rendezvous without a partner, beside a thread on an eventfd", .standstill(["main"])) { context in
      let event = Outside.makeEvent()
      Thread.detachNewThread {
        Outside.waitForEvent(event)
        close(event)
      }
      context.onRescue { Outside.add(to: event) }
      try Channel<Int>(name: "answers").send(1)
    },
    FaultyProgram("a rendezvous without a partner, beside a child of the process", .standstill(["main"])) { context in
      let child = Outside.makeChild()
      context.onRescue { Outside.end(child) }
      try Channel<Int>(name: "answers").send(1)
    },
    FaultyProgram("a channel that is never closed", .standstill(["main", "consumer"])) { context in
      let numbers = Channel<Int>(name: "numbers")
      let consumer = context.launch("consumer") { for _ in numbers.received {} }
      for number in 0..<3 { try numbers.send(number) }
      try consumer.join()
    },
    FaultyProgram("a wait group with one done too few", .standstill(["main"])) { context in
      let group = WaitGroup(count: 2, name: "workers")
      context.launch("worker") { group.done() }
      try group.wait()
    },
    FaultyProgram("a signal before the wait", .standstill(["main"])) { _ in
      let jobs = CoroutineMutex(0, name: "jobs")
      let arrived = Condition(of: jobs, name: "arrived")
      arrived.signal()
      try jobs.withLock { try arrived.wait(&$0) }
    },
    FaultyProgram("a mutex held while receiving", .standstill(["main", "holder", "sender"])) { context in
      let state = CoroutineMutex(0, name: "state")
      let news = Channel<Int>(name: "news")
      context.launch("holder") { try state.withLock { $0 = try news.receive() } }
      context.launch("sender") { try news.send(state.withLock { $0 }) }
      try context.joinAll()
    },
    FaultyProgram("a promise whose resolver waits for it", .standstill(["main"])) { _ in
      let (answer, resolver) = Promise<Int>.makePromise(name: "answer")
      resolver.fulfill(try answer.get() + 1)
    },
    FaultyProgram("a select whose cases are never served", .standstill(["main"])) { _ in
      let (left, right) = (Channel<Int>(name: "left"), Channel<Int>(name: "right"))
      try select {
        left.onReceive { _ in }
        right.onSend(1) {}
      }
    },
    FaultyProgram("a barrier with a party too few", .standstill(["main", "other"])) { context in
      let start = Barrier(parties: 3, name: "start")
      context.launch("other") { _ = try start.wait() }
      _ = try start.wait()
    },
    FaultyProgram("two full buffers", .standstill(["main", "worker"])) { context in
      let (jobs, results) = (Channel<Int>(capacity: .buffered(1)), Channel<Int>(capacity: .buffered(1)))
      context.launch("worker") { for job in jobs.received { try results.send(job) } }
      for job in 0..<10 { try jobs.send(job) }
      for _ in 0..<10 { _ = try results.receive() }
    },
    FaultyProgram("a broadcast to one that does not receive", .standstill(["main"])) { _ in
      let news = BroadcastChannel<Int>(capacity: 1, name: "news")
      let stories = news.subscribe()
      try withExtendedLifetime(stories) { for story in 0..<2 { try news.send(story) } }
    },
    FaultyProgram("a change that is never made", .standstill(["main"])) { _ in
      try WatchedValue(0, name: "level").wait { $0 > 0 }
    },
    FaultyProgram("a permit asked for twice", .standstill(["main"])) { _ in
      let connections = Semaphore(permits: 1, name: "connections")
      try connections.withPermit { try connections.withPermit {} }
    },
    FaultyProgram("a blocked thread that others need", .standstill(["main", "blocker", "signaller"])) { context in
      let (pool, gate) = (ThreadPool(threads: 1), DispatchSemaphore(value: 0))
      context.launch("blocker", on: pool) { gate.wait() }
      context.launch("signaller", on: pool) { gate.signal() }
      context.onRescue { gate.signal() }
      try context.joinAll()
    },
  ]

  // MARK: Suspended where the Swift runtime keeps a lock of the thread's

  #if DEBUG
    static let initialisers: [FaultyProgram] = []  // such a build traps
  #else
    static let initialisers: [FaultyProgram] = [
      FaultyProgram("a variable whose initialiser waits", .initialiser(["first"])) { context in
        context.launch("first") { print(Rows.count) }
        try context.joinAll()
      }
    ]

    private enum Rows {
      /// Ended by the cancel of the coroutine that has come here first. With a timer nothing stands still besides.
      static let count: Int = (try? Coroutine.sleep(for: .seconds(600))) == nil ? 0 : 1
    }
  #endif

  // MARK: Left behind

  static let leaks: [FaultyProgram] = [
    FaultyProgram("a sender whose receiver had no more time", .leak(["late"])) { context in
      let answers = Channel<Int>(name: "answers")
      context.launch("late") {
        try Coroutine.sleep(for: .milliseconds(5))
        try answers.send(1)
      }
      try select {
        answers.onReceive { _ in }
        onTimeout(.milliseconds(1)) {}
      }
    },
    FaultyProgram("the senders of all answers but the first", .leak(["mirror", "mirror"])) { context in
      let answers = Channel<Int>(name: "answers")
      for number in 0..<3 { context.launch("mirror") { try answers.send(number) } }
      _ = try answers.receive()
    },
    FaultyProgram("a worker whose channel is never closed", .leak(["worker"])) { context in
      let jobs = Channel<Int>(name: "jobs")
      context.launch("worker") { for _ in jobs.received {} }
      try jobs.send(1)
    },
    FaultyProgram("a permit that is not given back", .leak(["waiting"])) { context in
      let connections = Semaphore(permits: 1, name: "connections")
      context.launch("careless") { try connections.acquire() }
      context.launch("waiting") { try connections.withPermit {} }
      Coroutine.yield()
    },
  ]

  // MARK: Told by the runtime itself

  static let errors: [FaultyProgram] = [
    FaultyProgram("a promise whose resolver is gone", .error("PromiseAbandoned")) { _ in
      let promise = Promise<Int>.makePromise().promise
      _ = try promise.get()
    },
    FaultyProgram("a callback that is dropped", .error("SuspensionAbandoned")) { _ in
      try withSuspension { (_: Resumption<Void>) in }
    },
    FaultyProgram("an actor that asks itself", .error("AskCycle")) { context in
      let partners = Partners()
      let actor = MessageActor<Request>(name: "narcissus") { mailbox in
        for case .get(let reply) in mailbox {
          do { reply.complete(try partners.partner(0).ask { .get($0) }) } catch { reply.fail(error) }
        }
      }
      partners.introduce(0, actor)
      context.onRescue { actor.cancel() }
      _ = try actor.ask { .get($0) }
    },
  ]
}
