// SPDX-License-Identifier: Apache-2.0

#if COROUTINE_INTERLEAVINGS
  import Context
  import Coroutine
  import Synchronization

  /// Words that the threads of a run write by turns. (Only one runs at a time.)
  // Unchecked: see above.
  private final class Notes: @unchecked Sendable {
    var values: [Int] = []
    var count = 0
    var failures: [String] = []
    func add(_ value: Int) { values.append(value) }
  }

  /// Runs `body` in a coroutine on the calling thread, in a pool of its own.
  private func coroutine(_ notes: Notes, _ body: () throws -> Void) {
    do { try runUntilComplete(body) } catch { notes.failures.append("\(error)") }
  }

  private struct Question: Sendable {
    let number: Int
    let reply: Reply<Int>
  }

  /// A pipe as the kernel has it, and a reader's calls, as CoroutineIO makes them.
  private final class Pipe: Sendable {
    private final class Bytes: Sendable {
      let count = InterleavedAtomic<Int>(0)
    }

    private let bytes: Bytes
    let waits: ReadinessStorage

    init() {
      let bytes = Bytes()
      self.bytes = bytes
      waits = ReadinessStorage(name: "a pipe") { _ in bytes.count.load(ordering: .acquiring) > 0 }
    }

    var byteCount: Int { bytes.count.load(ordering: .acquiring) }

    /// A byte is there, and then the kernel reports the change, once.
    func receive() {
      bytes.count.wrappingAdd(1, ordering: .acquiringAndReleasing)
      waits.becomeReady(.readable)
    }

    /// The count, the call, which is refused where there is nothing, and the wait. False: it is closed. One reader at a time.
    func read() throws -> Bool {
      let core = CoroutineCore.running(for: "read")
      while !waits.isClosed {
        let seen = waits.events(for: .readable)
        if byteCount > 0 {
          bytes.count.wrappingSubtract(1, ordering: .acquiringAndReleasing)
          return true
        }
        try waits.wait(core, .read, seen: seen, until: WaitDeadline.never).check()
      }
      return false
    }

    /// A look, and the wait.
    func waitUntilReadable() throws {
      let core = CoroutineCore.running(for: "waitUntilReadable")
      try waits.wait(core, .read, seen: nil, until: WaitDeadline.never).check()
    }
  }

  let scenarios: [Scenario] = [
    Scenario("a lock, taken twice by each of two threads") { begin in
      final class Guarded: Sendable {
        let lock = Lock()
      }
      let (guarded, notes) = (Guarded(), Notes())
      let body: () -> Void = {
        begin()
        for _ in 0..<2 {
          guarded.lock.lock()
          let old = notes.count
          // An access inside: the other thread may come while the lock is held.
          _ = guarded.lock.tryLock()
          notes.count = old + 1
          guarded.lock.unlock()
        }
      }
      return .init(bodies: [body, body]) { notes.count == 4 ? nil : "counted \(notes.count)" }
    },

    Scenario("a send meets a receive") { begin in
      let (channel, notes) = (Channel<Int>(), Notes())
      return .init(bodies: [
        {
          coroutine(notes) {
            begin()
            try channel.send(1)
          }
        },
        {
          coroutine(notes) {
            begin()
            notes.add(try channel.receive())
          }
        },
      ]) { notes.failures.isEmpty && notes.values == [1] ? nil : "\(notes.values), \(notes.failures)" }
    },

    Scenario("two sends through a buffer of one") { begin in
      let (channel, notes) = (Channel<Int>(capacity: .buffered(1)), Notes())
      return .init(bodies: [
        {
          coroutine(notes) {
            begin()
            for value in 1...3 { try channel.send(value) }
          }
        },
        {
          coroutine(notes) {
            begin()
            for _ in 1...3 { notes.add(try channel.receive()) }
          }
        },
      ]) { notes.failures.isEmpty && notes.values == [1, 2, 3] ? nil : "\(notes.values), \(notes.failures)" }
    },

    Scenario("a receiver is cancelled while a thread sends") { begin in
      let (channel, notes) = (Channel<Int>(), Notes())
      let handle = Slot<Coroutine<Int, any Error>>()
      return .init(bodies: [
        {
          coroutine(notes) {
            let receiver = Coroutine { try channel.receive() }
            handle.value = receiver
            begin()
            do { notes.add(try receiver.get()) } catch is CancellationError { notes.add(-1) }
          }
        },
        {
          begin()
          handle.value?.cancel()
        },
        {
          begin()
          if channel.trySend(1) == .sent { notes.add(100) }
        },
      ]) {
        // Sent and received, or neither.
        notes.failures.isEmpty && [[1, 100], [-1]].contains(notes.values.sorted().filter { $0 != 0 })
          ? nil : "\(notes.values), \(notes.failures)"
      }
    },

    Scenario("a close against a send and a receive") { begin in
      let (channel, notes) = (Channel<Int>(), Notes())
      return .init(bodies: [
        {
          coroutine(notes) {
            begin()
            do {
              try channel.send(1)
              notes.add(100)
            } catch is ChannelClosed<Int> {}
          }
        },
        {
          coroutine(notes) {
            begin()
            do { notes.add(try channel.receive()) } catch is ChannelClosed<Int> {}
          }
        },
        {
          begin()
          channel.close()
        },
      ]) {
        notes.failures.isEmpty && [[], [1, 100]].contains(notes.values.sorted())
          ? nil : "\(notes.values), \(notes.failures)"
      }
    },

    Scenario("a promise is settled twice while two wait") { begin in
      let (promise, resolver) = Promise<Int>.makePromise()
      let notes = Notes()
      return .init(bodies: [
        {
          coroutine(notes) {
            begin()
            notes.add(try promise.get())
          }
        },
        {
          begin()
          _ = resolver.fulfill(1)
        },
        {
          begin()
          resolver.fulfill(2)
        },
      ]) {
        notes.failures.isEmpty && notes.values.count == 1 ? nil : "\(notes.values), \(notes.failures)"
      }
    },

    Scenario("the end of a coroutine against its joiners") { begin in
      let notes = Notes()
      let handle = Slot<Coroutine<Int, any Error>>()
      let gate = Channel<Void>()
      return .init(bodies: [
        {
          coroutine(notes) {
            let worker = Coroutine { () throws -> Int in
              try gate.receive()
              return 7
            }
            handle.value = worker
            Coroutine.yield()
            begin()
            try gate.send(())
            notes.add(try worker.get())
          }
        },
        {
          coroutine(notes) {
            begin()
            if let worker = handle.value { notes.add(try worker.get()) }
          }
        },
      ]) { notes.failures.isEmpty && notes.values == [7, 7] ? nil : "\(notes.values), \(notes.failures)" }
    },

    Scenario("a select of two channels, both of which are sent to") { begin in
      let (first, second, notes) = (Channel<Int>(), Channel<Int>(), Notes())
      return .init(bodies: [
        {
          coroutine(notes) {
            begin()
            for _ in 0..<2 {
              notes.add(
                try select {
                  first.onReceive { $0 }
                  second.onReceive { $0 }
                })
            }
          }
        },
        {
          coroutine(notes) {
            begin()
            try first.send(1)
          }
        },
        {
          coroutine(notes) {
            begin()
            try second.send(2)
          }
        },
      ]) { notes.failures.isEmpty && notes.values.sorted() == [1, 2] ? nil : "\(notes.values), \(notes.failures)" }
    },

    Scenario("a select finds one of two channels ready that are never empty at the same time") { begin in
      let (first, second) = (Channel<Int>(capacity: .buffered(1)), Channel<Int>(capacity: .buffered(1)))
      let notes = Notes()
      _ = second.trySend(1)
      return .init(bodies: [
        {
          coroutine(notes) {
            begin()
            notes.add(
              try selectBiased {
                first.onReceive { $0 }
                second.onReceive { $0 }
                otherwise { 0 }
              })
          }
        },
        {
          coroutine(notes) {
            begin()
            _ = first.trySend(1)
            _ = second.tryReceive()
          }
        },
      ]) { notes.failures.isEmpty && notes.values == [1] ? nil : "\(notes.values), \(notes.failures)" }
    },

    Scenario("two selects of the same two channels meet") { begin in
      let (first, second, notes) = (Channel<Int>(), Channel<Int>(), Notes())
      return .init(bodies: [
        {
          coroutine(notes) {
            begin()
            try select {
              first.onSend(1) { notes.add(1) }
              second.onReceive { notes.add(-$0) }
            }
          }
        },
        {
          coroutine(notes) {
            begin()
            try select {
              second.onSend(2) { notes.add(2) }
              first.onReceive { notes.add(-$0) }
            }
          }
        },
      ]) {
        notes.failures.isEmpty && notes.values.reduce(0, +) == 0 && notes.values.count == 2
          ? nil : "\(notes.values), \(notes.failures)"
      }
    },

    Scenario("a mutex of coroutines") { begin in
      let (mutex, notes) = (CoroutineMutex(0), Notes())
      let body: () -> Void = {
        coroutine(notes) {
          begin()
          for _ in 0..<2 {
            try mutex.withLock { value in
              let old = value
              Coroutine.yield()
              value = old + 1
            }
          }
        }
      }
      return .init(bodies: [body, body]) {
        let sum = (try? runUntilComplete { try mutex.withLock { $0 } }) ?? -1
        return notes.failures.isEmpty && sum == 4 ? nil : "\(sum), \(notes.failures)"
      }
    },

    Scenario("a message is told to an actor that is about to wait") { begin in
      let notes = Notes()
      let actor = Slot<MessageActor<Int>>()
      return .init(bodies: [
        {
          coroutine(notes) {
            let done = Channel<Void>(capacity: .buffered(2))
            actor.value = MessageActor<Int> { mailbox in
              while let message = mailbox.next() {
                notes.add(message)
                try done.send(())
              }
            }
            begin()
            try done.receive()
            try done.receive()
          }
        },
        {
          begin()
          try? actor.value?.tell(1)
          try? actor.value?.tell(2)
        },
      ]) { notes.failures.isEmpty && notes.values == [1, 2] ? nil : "\(notes.values), \(notes.failures)" }
    },

    Scenario("a wait group comes to zero while one begins to wait") { begin in
      let (group, notes) = (WaitGroup(count: 2), Notes())
      return .init(bodies: [
        {
          coroutine(notes) {
            begin()
            try group.wait()
            notes.add(1)
          }
        },
        {
          begin()
          group.done()
        },
        {
          begin()
          group.done()
        },
      ]) { notes.failures.isEmpty && notes.values == [1] ? nil : "\(notes.values), \(notes.failures)" }
    },

    Scenario("a callback resumes a coroutine that is about to suspend, and is cancelled") { begin in
      let notes = Notes()
      let handle = Slot<Coroutine<Void, any Error>>()
      let callback = Slot<Resumption<Int>>()
      return .init(bodies: [
        {
          coroutine(notes) {
            let waiter = Coroutine {
              do {
                notes.add(try withSuspension { callback.value = $0 })
              } catch is CancellationError { notes.add(-1) }
            }
            handle.value = waiter
            Coroutine.yield()
            begin()
            try waiter.get()
          }
        },
        {
          begin()
          callback.value?.returning(5)
        },
        {
          begin()
          handle.value?.cancel()
        },
      ]) { notes.failures.isEmpty && [[5], [-1]].contains(notes.values) ? nil : "\(notes.values), \(notes.failures)" }
    },

    Scenario("a thread blocks for what another one sends") { begin in
      let (channel, notes) = (Channel<Int>(), Notes())
      return .init(bodies: [
        {
          begin()
          do { notes.add(try channel.receiveBlocking()) } catch { notes.failures.append("\(error)") }
        },
        {
          begin()
          do { try channel.sendBlocking(3) } catch { notes.failures.append("\(error)") }
        },
      ]) { notes.failures.isEmpty && notes.values == [3] ? nil : "\(notes.values), \(notes.failures)" }
    },

    Scenario("two workers of a pool sleep, wake and steal", isRepeatable: false) { begin in
      let notes = Notes()
      return .init(bodies: [
        {
          begin()
          let (pool, channel) = (ThreadPool(threads: 2), Channel<Int>())
          let receivers = (0..<2).map { _ in Coroutine(on: pool) { try channel.receive() } }
          let senders = (1...2).map { value in Coroutine(on: pool) { try channel.send(value) } }
          do {
            for sender in senders { try sender.getBlocking() }
            for receiver in receivers { notes.add(try receiver.getBlocking()) }
          } catch { notes.failures.append("\(error)") }
        }
      ]) { notes.failures.isEmpty && notes.values.sorted() == [1, 2] ? nil : "\(notes.values), \(notes.failures)" }
    },

    Scenario("work comes from outside while the last worker falls asleep", isRepeatable: false) { begin in
      let notes = Notes()
      let pool = Slot<ThreadPool>()
      let body: () -> Void = {
        let coroutines = pool.value!
        begin()
        for value in 1...2 {
          do { notes.add(try Coroutine(on: coroutines) { value }.getBlocking()) } catch {
            notes.failures.append("\(error)")
          }
        }
      }
      pool.value = ThreadPool(threads: 2)
      return .init(bodies: [
        body,
        {
          body()
          pool.value = nil
        },
      ]) {
        notes.failures.isEmpty && notes.values.sorted() == [1, 1, 2, 2] ? nil : "\(notes.values), \(notes.failures)"
      }
    },

    Scenario("an actor is asked by two coroutines, of its own thread and of another") { begin in
      let (done, notes) = (Channel<Void>(capacity: .buffered(1)), Notes())
      let actor = Slot<MessageActor<Question>>()
      return .init(bodies: [
        {
          coroutine(notes) {
            let doubler = MessageActor<Question> { mailbox in
              while let question = mailbox.next() { question.reply.complete(2 * question.number) }
            }
            actor.value = doubler
            begin()
            notes.add(try doubler.ask { Question(number: 1, reply: $0) })
            // The actor runs on this thread.
            try done.receive()
          }
        },
        {
          coroutine(notes) {
            begin()
            notes.add(try actor.value!.ask { Question(number: 2, reply: $0) })
            try done.send(())
          }
        },
      ]) { notes.failures.isEmpty && notes.values.sorted() == [2, 4] ? nil : "\(notes.values), \(notes.failures)" }
    },

    Scenario("a permit is given back while one that waits for it is cancelled") { begin in
      let (semaphore, notes) = (Semaphore(permits: 1), Notes())
      let handle = Slot<Coroutine<Void, any Error>>()
      return .init(bodies: [
        {
          coroutine(notes) {
            try semaphore.acquire()
            let waiter = Coroutine {
              do {
                try semaphore.acquire()
                notes.add(1)
                semaphore.release()
              } catch is CancellationError { notes.add(-1) }
            }
            handle.value = waiter
            Coroutine.yield()
            begin()
            semaphore.release()
            try waiter.get()
          }
        },
        {
          begin()
          handle.value?.cancel()
        },
      ]) {
        notes.failures.isEmpty && [[1], [-1]].contains(notes.values) && semaphore.tryAcquire()
          ? nil : "\(notes.values), \(notes.failures)"
      }
    },

    Scenario("a descriptor becomes ready while one is refused by it, and another looks at it") { begin in
      let (pipe, notes) = (Pipe(), Notes())
      return .init(bodies: [
        {
          coroutine(notes) {
            begin()
            for _ in 0..<2 where try pipe.read() { notes.add(1) }
          }
        },
        {
          coroutine(notes) {
            begin()
            try pipe.waitUntilReadable()
            notes.add(10)
          }
        },
        {
          begin()
          // One more than are read: it stays readable.
          for _ in 0..<3 { pipe.receive() }
        },
      ]) { notes.failures.isEmpty && notes.values.sorted() == [1, 1, 10] ? nil : "\(notes.values), \(notes.failures)" }
    },

    Scenario("an event, a close and a cancel end the same wait for a descriptor") { begin in
      let (pipe, notes) = (Pipe(), Notes())
      let handle = Slot<Coroutine<Bool, any Error>>()
      return .init(bodies: [
        {
          coroutine(notes) {
            let reader = Coroutine { try pipe.read() }
            handle.value = reader
            begin()
            do { notes.add(try reader.get() ? 1 : -2) } catch is CancellationError { notes.add(-1) }
          }
        },
        {
          begin()
          pipe.receive()
        },
        {
          begin()
          if !pipe.waits.closeWaits() { notes.failures.append("closed twice") }
        },
        {
          begin()
          handle.value?.cancel()
        },
      ]) {
        // The byte was read, or is there. It has no waiter any more, and lets no reader wait.
        pipe.waits.becomeReady(.readable)
        coroutine(notes) { notes.add(try pipe.read() ? 1 : -20) }
        return notes.failures.isEmpty && [[-20, -2], [-20, -1], [-20, 1]].contains(notes.values.sorted())
          && pipe.byteCount == (notes.values.contains(1) ? 0 : 1) ? nil : "\(notes.values), \(notes.failures)"
      }
    },

    Scenario("a timeout, an event and a cancel end the same wait") { begin in
      let (channel, notes) = (Channel<Int>(), Notes())
      let service = TimerService(startingAt: 0)
      let handle = Slot<Coroutine<Void, any Error>>()
      return .init(bodies: [
        {
          service.withVirtualTime {
            coroutine(notes) {
              let waiter = Coroutine {
                do { notes.add(try channel.receive(timeout: .nanoseconds(10))) } catch is CancellationError {
                  notes.add(-1)
                } catch is TimeoutError { notes.add(-2) }
              }
              handle.value = waiter
              Coroutine.yield()
              begin()
              try waiter.get()
            }
          }
        },
        {
          begin()
          if channel.trySend(1) == .sent { notes.add(100) }
        },
        {
          begin()
          service.advance(to: 10)
        },
        {
          begin()
          handle.value?.cancel()
        },
      ]) {
        notes.failures.isEmpty && [[1, 100], [-1], [-2]].contains(notes.values.sorted())
          ? nil : "\(notes.values), \(notes.failures)"
      }
    },
  ]

  /// Written by one thread before `begin`, read by others after it.
  // Unchecked: see above.
  private final class Slot<Value>: @unchecked Sendable {
    var value: Value?
  }
#endif
