import CCoroutine
import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

/// In a serial pool a joiner runs the coroutine that it waits for itself, if nothing else is ready. Only the time
/// that it takes, and the joiner's state meanwhile, may show that.
@Suite(.ownThreads) struct JoinAheadTests {
  /// Without this the other tests here would show nothing.
  @Test func theJoinerIsInTheMiddleOfItsTurnMeanwhile() async {
    await #expect(processExitsWith: .success) {
      let events = try await events { log in
        let (handle, resolver) = Promise<Coroutine<Void, any Error>>.makePromise()
        let joiner = Coroutine {
          let joiner = try handle.get()
          try Coroutine { log.add("\(joiner.state)") }.get()
        }
        resolver.fulfill(joiner)
        try joiner.get()
      }
      #expect(events == ["running"])
    }
  }

  @Test func whomTheChildHasMadeReadyComesBeforeTheJoiner() async {
    await #expect(processExitsWith: .success) {
      let events = try await events { log in
        let child = Coroutine {
          log.add("child")
          Coroutine { log.add("grandchild") }
          log.add("child ends")
        }
        try child.get()
        log.add("joiner")
      }
      #expect(events == ["child", "child ends", "grandchild", "joiner"])
    }
  }

  @Test func othersBeforeTheChildOrBehindItKeepTheirPlace() async {
    await #expect(processExitsWith: .success) {
      let events = try await events { log in
        Coroutine { log.add("before") }
        let child = Coroutine { log.add("child") }
        Coroutine { log.add("behind") }
        try child.get()
        log.add("joiner")
      }
      #expect(events == ["before", "child", "behind", "joiner"])
    }
  }

  @Test func aChildThatSuspendsIsWaitedFor() async {
    await #expect(processExitsWith: .success) {
      let events = try await events { log in
        let channel = Channel<Int>()
        let child = Coroutine { () -> Int in
          log.add("child waits")
          let number = try channel.receive()
          log.add("child goes on")
          return number
        }
        let other = Coroutine {
          try child.join()
          log.add("other sees the end")
        }
        // The child alone is ready when its turn comes. The other one waits for it by then, as its first waiter.
        Coroutine.yield()
        try channel.send(7)
        log.add("joiner gets \(try child.get())")
        try other.get()
      }
      #expect(events == ["child waits", "child goes on", "other sees the end", "joiner gets 7"])
    }
  }

  @Test func oneThatYieldsGoesOnBeforeTheJoiner() async {
    await #expect(processExitsWith: .success) {
      let events = try await events { log in
        let child = Coroutine {
          log.add("1")
          Coroutine.yield()
          log.add("2")
          Coroutine.yield()
          log.add("3")
        }
        try child.get()
        log.add("joiner")
      }
      #expect(events == ["1", "2", "3", "joiner"])
    }
  }

  @Test func anErrorComesOut() async {
    await #expect(processExitsWith: .success) {
      let events = try await events { log in
        do { try Coroutine { throw Mine() }.get() } catch { log.add("\(error)") }
      }
      #expect(events == ["Mine()"])
    }
  }

  @Test func aJoinerThatIsCancelledDoesNotWait() async {
    await #expect(processExitsWith: .success) {
      let events = try await events { log in
        let (handle, resolver) = Promise<Coroutine<Void, any Error>>.makePromise()
        let joiner = Coroutine {
          try handle.get().cancel()
          let child = Coroutine { log.add("child") }
          do { try child.get() } catch { log.add("\(type(of: error))") }
          try withCancellationShield { try child.get() }
        }
        resolver.fulfill(joiner)
        try joiner.get()
      }
      #expect(events == ["CancellationError", "child"])
    }
  }

  @Test func aChildThatCancelsItsJoinerIsDoneAndTheJoinerThrows() async {
    await #expect(processExitsWith: .success) {
      let events = try await events { log in
        let (handle, resolver) = Promise<Coroutine<Void, Never>>.makePromise()
        let joiner = Coroutine {
          let child = Coroutine { try handle.get().cancel() }
          do { try child.get() } catch { log.add("\(type(of: error))") }
          log.add("\(child.isFinished)")
        }
        resolver.fulfill(joiner)
        try joiner.get()
      }
      #expect(events == ["CancellationError", "true"])
    }
  }

  /// Another thread can run the joiner, so no coroutine has to wait for the blocked one.
  @Test func aCancelledJoinerGoesOnThoughTheChildBlocksItsThread() async {
    await #expect(processExitsWith: .success) {
      recordNoTimes()
      let (begun, resolver) = Promise<Void>.makePromise()
      let gate = DispatchSemaphore(value: 0)
      let joiner = Coroutine(on: ThreadPool(threads: 2)) {
        let child = Coroutine {
          resolver.fulfill(())
          gate.wait()
        }
        do { try child.get() } catch is CancellationError {}
        gate.signal()
        try withCancellationShield { try child.get() }
      }
      try await begun.get()
      joiner.cancel()
      try await joiner.get()
    }
  }

  @Test func inWithoutSuspensionItIsNoWay() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      recordNoTimes()
      try await Coroutine(on: ThreadPool(threads: 1)) {
        let child = Coroutine {}
        try withoutSuspension { try child.get() }
      }.get()
    }
    #expect(standardError(of: result).contains("inside withoutSuspension"))
  }

  @Test(.enabled(if: coroutine_thread_state_found() & UInt32(COROUTINE_THREAD_STATE_TASK.rawValue) != 0))
  func insideATaskOnItsStackItIsNoWay() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      recordNoTimes()
      func join(_ child: Coroutine<Void, Never>) { try? child.join() }
      try await Coroutine(on: ThreadPool(threads: 1)) {
        let child = Coroutine {}
        _ = Task.immediate { join(child) }
      }.get()
    }
    #expect(standardError(of: result).contains("Task.immediate"))
  }

  /// Between its turns, a worker looks for jobs of `async` code and for what other threads make ready. A joiner whose
  /// children all run ahead has no such moment.
  @Test func joinsInARowDoNotKeepOthersFromRunning() async {
    await #expect(processExitsWith: .success) {
      recordNoTimes()
      let pool = ThreadPool(threads: 1)
      let isOver = Flag()
      let joiner = Coroutine(on: pool) {
        while !isOver.isSet { try Coroutine {}.get() }
      }
      // The pool's only thread is in that loop.
      await Task(executorPreference: pool) { isOver.set() }.value
      try await joiner.get()

      let isOverToo = Flag()
      let second = Coroutine(on: pool) {
        while !isOverToo.isSet { try Coroutine {}.get() }
      }
      try await Coroutine(on: pool) { isOverToo.set() }.get()
      try await second.get()
    }
  }

  /// Each runs on a stack of its own, whatever has resumed it. A small stack has no room for the child's beginning.
  @Test(arguments: [nil, 64 << 10]) func joinersOfJoinersNeedNoStack(stackSize: Int?) async {
    await #expect(processExitsWith: .success) { [stackSize] in
      recordNoTimes()
      @Sendable func depth(_ levels: Int) throws -> Int {
        levels == 0 ? 0 : try Coroutine(stackSize: stackSize) { try depth(levels - 1) }.get() + 1
      }
      let reached = try await Coroutine(on: ThreadPool(threads: 1)) { try depth(2_000) }.get()
      #expect(reached == 2_000)
    }
  }

  @Test func onePinnedToItsThreadIsSuspendedLikeOthers() async {
    await #expect(processExitsWith: .success) {
      let events = try await events { log in
        try withThreadPinned {
          try Coroutine { log.add("child") }.get()
          log.add("joiner")
        }
      }
      #expect(events == ["child", "joiner"])
    }
  }

  /// The child's thread is also the joiner's, which is in the middle of its turn: the pool needs another thread.
  @Test func aChildThatWaitsPinnedLeavesThePoolToOthers() async {
    await #expect(processExitsWith: .success) {
      let events = try await events { log in
        let gate = Channel<Void>()
        let child = Coroutine {
          Coroutine {
            log.add("grandchild")
            try gate.send(())
          }
          try withThreadPinned {
            log.add("child waits")
            try gate.receive()
            Coroutine.yield()
            log.add("child goes on")
          }
        }
        try child.get()
        log.add("joiner")
        Coroutine.yield()
        log.add("joiner goes on")
      }
      #expect(events == ["grandchild", "child waits", "child goes on", "joiner", "joiner goes on"])
    }
  }

  /// The child may wait for the joiner, which goes on once it is cancelled.
  @Test func aCancelledJoinerIsNotHeldUpByAChildThatWaitsPinned() async {
    await #expect(processExitsWith: .success) {
      let events = try await events { log in
        let joining = Promise<Void>.makePromise()
        let gate = Channel<Void>()
        let joiner = Coroutine {
          let child = Coroutine {
            joining.resolver.fulfill()
            try withThreadPinned { try gate.receive() }
            log.add("child")
          }
          do {
            try child.get()
          } catch {
            log.add("\(type(of: error))")
          }
          try withCancellationShield {
            try gate.send(())
            try child.get()
          }
        }
        try joining.promise.get()
        joiner.cancel()
        try joiner.get()
      }
      #expect(events == ["CancellationError", "child"])
    }
  }

  /// The same where the time is that of the scope that the joiner is a child of.
  @Test func aJoinerInATimedScopeIsNotHeldUpByAChildThatWaitsPinned() async {
    await #expect(processExitsWith: .success) {
      let events = try await events { log in
        let (gate, ended) = (Channel<Void>(), Channel<Void>(capacity: .buffered(1)))
        let begun = Flag()
        var limit = Duration.milliseconds(1)
        repeat {
          // The time may be up before the child begins.
          do {
            try withTimeout(limit) {
              try withScope { scope in
                scope.launch {
                  try Coroutine {
                    begun.set()
                    try withThreadPinned { try gate.receive() }
                    log.add("child")
                    try ended.send(())
                  }.get()
                }
              }
            }
          } catch {
            if begun.isSet { log.add("\(type(of: error))") }
          }
          limit *= 2
        } while !begun.isSet
        try gate.send(())
        try ended.receive()
      }
      #expect(events == ["TimeoutError", "child"])
    }
  }

  /// The child may wait for the joiner, which goes on once its time is up.
  @Test func aJoinerWithATimeLimitIsNotHeldUpByAChildThatWaitsPinned() async {
    await #expect(processExitsWith: .success) {
      let events = try await events { log in
        let gate = Channel<Void>()
        let child = Coroutine {
          try withThreadPinned { try gate.receive() }
          log.add("child")
        }
        do {
          try withTimeout(.milliseconds(1)) { try child.get() }
        } catch {
          log.add("\(type(of: error))")
        }
        try gate.send(())
        try child.get()
      }
      #expect(events == ["TimeoutError", "child"])
    }
  }
}

private struct Mine: Error {}

/// The events of `main`, a coroutine of a serial pool, in their order.
private func events(of main: @escaping @Sendable (Log) throws -> Void) async throws -> [String] {
  recordNoTimes()
  let log = Log()
  try await Coroutine(on: ThreadPool(threads: 1)) { try main(log) }.get()
  return log.all
}

/// No coroutine runs ahead while times are recorded. The tests of CoroutineDebug, in the same program, turn that on,
/// so each test here has a process of its own.
private func recordNoTimes() { coroutine_record_times(false) }
