import Coroutine
import CoroutineDebug
import CoroutineIO
import Dispatch
import Foundation

private enum Inquiry: Sendable {
  case report(MessageActor<Reply<Int>>, Reply<Int>)
  case detail(Reply<Int>)
}

extension HealthyProgram {
  /// Each runs in a process of its own, since after it any eventfd could be shared. By the names on the command line.
  static let alone: [String: HealthyProgram] = [
    "aio": HealthyProgram("an eventfd to which asynchronous I/O adds") { _ in
      try waitForEvent { Outside.addLaterByKernel(to: $0, after: longMoment) }
    },
    "ring": HealthyProgram("an eventfd to which an io_uring adds") { _ in
      try waitForEvent { Outside.addLaterByRing(to: $0, after: longMoment) }
    },
    "orphan": HealthyProgram("an eventfd that an orphan has too") { _ in
      try waitForEvent { Outside.addLaterByOrphan(to: $0, after: longMoment) }
    },
    "child": HealthyProgram("an eventfd that a child has too") { _ in
      try waitForEvent {
        _ = Outside.addLater(to: $0, after: longMoment)
        return true
      }
    },
    "parent": HealthyProgram("an eventfd that the parent has too") { _ in
      try waitForEvent(Outside.parentsEvent) { _ in Outside.tellParent() }
    },
  ]

  /// Waits for an eventfd to which `arrange` has another process or the kernel add. Does not wait if `arrange` fails.
  private static func waitForEvent(
    _ event: CInt = Outside.makeEvent(), _ arrange: @escaping @Sendable (CInt) -> Bool
  ) throws {
    let (answer, resolver) = Promise<Int>.makePromise()
    Thread.detachNewThread {
      if arrange(event) { Outside.waitForEvent(event) }
      resolver.fulfill(1)
    }
    _ = try answer.get()
    close(event)
  }

  /// Long enough for the detector to look several times.
  private static let moment: UInt32 = 15_000  // microseconds
  /// The same for the beginning, when the process does everything for the first time.
  static let longMoment: UInt32 = 200_000
  private static let pause = Duration.milliseconds(15)

  static let all: [HealthyProgram] = [
    // MARK: The waker is outside the process, and invisible
    //
    // These come before Dispatch has threads: once it has, nothing counts as a standstill.
    HealthyProgram("a signal's handler that lets a thread go on") { _ in
      let (answer, resolver) = Promise<Int>.makePromise()
      Thread.detachNewThread {
        Outside.waitForAlarm()
        resolver.fulfill(1)
      }
      Outside.setAlarm(after: longMoment)
      _ = try answer.get()
    },

    // MARK: The waker is outside the process
    HealthyProgram("a socket to which a peer writes") { _ in
      var ends: [CInt] = [0, 0]
      guard socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends) == 0 else { return }
      let (socket, peer) = (try Descriptor(adopting: ends[0], name: "socket"), ends[1])
      Thread.detachNewThread {
        usleep(longMoment)
        write(peer, "x", 1)
      }
      try socket.waitUntilReadable()
      close(peer)
    },
    HealthyProgram("a sender that sleeps") { context in
      let answers = Channel<Int>()
      context.launch("sleeper") {
        try Coroutine.sleep(for: pause)
        try answers.send(1)
      }
      _ = try answers.receive()
    },
    HealthyProgram("a promise that a foreign thread settles") { _ in
      let (answer, resolver) = Promise<Int>.makePromise()
      Thread.detachNewThread {
        usleep(moment)
        resolver.fulfill(1)
      }
      _ = try answer.get()
    },
    HealthyProgram("a promise that async code settles") { _ in
      let (answer, resolver) = Promise<Int>.makePromise()
      Task {
        try await Task.sleep(for: pause)
        resolver.fulfill(1)
      }
      _ = try answer.get()
    },
    HealthyProgram("a channel into which a Dispatch queue sends") { _ in
      let answers = Channel<Int>(capacity: .buffered(1))
      DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(15)) { _ = answers.trySend(1) }
      _ = try answers.receive()
    },
    HealthyProgram("an event of a Dispatch source") { _ in
      let ticks = Channel<Int>(capacity: .buffered(1))
      let source = DispatchSource.makeTimerSource(queue: .global())
      source.schedule(deadline: .now() + .milliseconds(15))
      source.setEventHandler { _ = ticks.trySend(1) }
      source.resume()
      _ = try ticks.receive()
      source.cancel()
    },
    HealthyProgram("an event loop that waits for a pipe") { _ in
      let (pipe, bytes) = (Pipe(), Channel<Int>(capacity: .buffered(1)))
      let source = DispatchSource.makeReadSource(fileDescriptor: pipe.fileHandleForReading.fileDescriptor)
      source.setEventHandler { _ = bytes.trySend(Int(source.data)) }
      source.resume()
      let child = Process()
      child.executableURL = URL(fileURLWithPath: "/bin/sh")
      child.arguments = ["-c", "sleep 0.02; echo"]
      child.standardOutput = pipe
      try child.run()
      _ = try bytes.receive()
      source.cancel()
      child.waitUntilExit()
    },
    HealthyProgram("work that blocks its thread") { _ in
      try blocking { _ = usleep(moment) }
    },
    HealthyProgram("a thread that computes") { context in
      let answers = Channel<Int>()
      context.launch("computing", on: .shared) {
        let end = ContinuousClock.now + pause
        while ContinuousClock.now < end {}
        try answers.send(1)
      }
      _ = try answers.receive()
    },

    // MARK: A cycle that opens by itself
    HealthyProgram("two mutexes in opposite orders, with a timeout") { context in
      let (one, other) = (CoroutineMutex(0), CoroutineMutex(0))
      for (first, second) in [(one, other), (other, one)] {
        context.launch("patient") {
          try first.withLock { _ in
            Coroutine.yield()
            do { try second.withLock(timeout: pause) { _ in } } catch is TimeoutError {}
          }
        }
      }
      try context.joinAll()
    },
    HealthyProgram("two mutexes in opposite orders, inside withTimeout") { context in
      let (one, other) = (CoroutineMutex(0), CoroutineMutex(0))
      for (first, second) in [(one, other), (other, one)] {
        context.launch("patient") {
          try first.withLock { _ in
            Coroutine.yield()
            do { try withTimeout(pause) { try second.withLock { _ in } } } catch is TimeoutError {}
          }
        }
      }
      try context.joinAll()
    },
    HealthyProgram("a scope that is cancelled in time") { context in
      let (one, other) = (CoroutineMutex(0), CoroutineMutex(0))
      do {
        try withTimeout(pause) {
          try withScope { scope in
            for (first, second) in [(one, other), (other, one)] {
              scope.launch {
                try first.withLock { _ in
                  Coroutine.yield()
                  try second.withLock { _ in }
                }
              }
            }
          }
        }
      } catch is TimeoutError {}
    },
    HealthyProgram("a reader that reads again behind a writer with a timeout") { context in
      let table = ReadWriteLock(0)
      context.launch("reader") {
        try table.withReadLock { _ in
          Coroutine.yield()
          try table.withReadLock { _ in }
        }
      }
      context.launch("writer") {
        do { try table.withWriteLock(timeout: pause) { $0 += 1 } } catch is TimeoutError {}
      }
      try context.joinAll()
    },
    HealthyProgram("a loop over a ticker") { _ in
      for _ in zip(Ticker(every: pause), 0..<2) {}
    },
    HealthyProgram("an actor that answers later, and asks meanwhile") { context in
      let replies = Channel<Reply<Int>>(capacity: .unbounded)
      let state = CoroutineMutex(0)
      let clerk = MessageActor<Reply<Int>>(name: "clerk") { mailbox in for reply in mailbox { try replies.send(reply) }
      }
      context.launch("late") {
        let reply = try replies.receive()
        try Coroutine.sleep(for: pause)
        reply.complete(1)
      }
      try state.withLock { $0 = try clerk.ask { $0 } }
      clerk.cancel()
    },

    HealthyProgram("an actor that hands a reply on, and asks back") { context in
      let (handed, details) = (Channel<Reply<Int>>(capacity: .unbounded), Channel<Int>())
      let manager = MessageActor<Inquiry>(name: "manager") { mailbox in
        for inquiry in mailbox {
          switch inquiry {
          case .report(let clerk, let reply): reply.complete(try clerk.ask { $0 })
          case .detail(let reply): reply.complete(1)
          }
        }
      }
      let clerk = MessageActor<Reply<Int>>(name: "clerk") { mailbox in
        for reply in mailbox {
          try handed.send(reply.handedOn())
          try details.send(try manager.ask { .detail($0) })
        }
      }
      context.launch("late") {
        let reply = try handed.receive()
        try Coroutine.sleep(for: pause)
        reply.complete(2)
      }
      _ = try manager.ask { .report(clerk, $0) }
      _ = try details.receive()
      manager.cancel()
      clerk.cancel()
    },

    // MARK: Busy, but in order
    HealthyProgram("a long computation that holds a mutex") { context in
      let state = CoroutineMutex(0)
      for _ in 0..<3 {
        context.launch("waiting", on: .shared) {
          try state.withLock {
            $0 += 1
            _ = usleep(moment / 3)
          }
        }
      }
      try context.joinAll()
    },
    HealthyProgram("two mutexes in one order, by many") { context in
      let (one, other) = (CoroutineMutex(0), CoroutineMutex(0))
      for _ in 0..<16 {
        context.launch("careful", on: .shared) {
          for _ in 0..<100 {
            try one.withLock { _ in
              try other.withLock { _ in Coroutine.yield() }
            }
          }
        }
      }
      try context.joinAll()
    },
    HealthyProgram("two mutexes that are handed over in turns") { context in
      let (one, other) = (CoroutineMutex(0), CoroutineMutex(0))
      for (first, second) in [(one, other), (other, one)] {
        context.launch("alternating", on: .shared) {
          for _ in 0..<300 {
            try first.withLock { _ in Coroutine.yield() }
            try second.withLock { _ in Coroutine.yield() }
          }
        }
      }
      try context.joinAll()
    },
    HealthyProgram("readers and writers, by many") { context in
      let table = ReadWriteLock(0)
      for number in 0..<16 {
        context.launch("user", on: .shared) {
          for _ in 0..<100 {
            if number % 4 == 0 {
              try table.withWriteLock { $0 += 1 }
            } else {
              try table.withReadLock { _ in Coroutine.yield() }
            }
          }
        }
      }
      try context.joinAll()
    },
    HealthyProgram("a scope whose children wait for each other in a row") { context in
      try withScope { scope in
        var last = scope.launch { try Coroutine.sleep(for: pause) }
        for _ in 0..<10 {
          let before = last
          last = scope.launch { try before.get() }
        }
      }
    },
  ]
}
