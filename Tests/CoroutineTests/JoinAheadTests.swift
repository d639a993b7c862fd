import Coroutine
import Synchronization
import Testing

/// In a serial pool a joiner runs the coroutine that it waits for itself, if nobody else is ready: nothing but the time it
/// takes may tell.
@Suite struct JoinAheadTests {
  private struct Mine: Error {}

  /// What happens on `main`, a coroutine of a serial pool, in its order.
  private func events(of main: @escaping @Sendable (Log) throws -> Void) async throws -> [String] {
    let log = Log()
    try await Coroutine(on: ThreadPool(threads: 1)) { try main(log) }.get()
    return log.all
  }

  @Test func whomTheChildHasMadeReadyComesBeforeTheJoiner() async throws {
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

  @Test func whoIsReadyBeforeTheChildOrBehindItKeepsItsPlace() async throws {
    let events = try await events { log in
      Coroutine { log.add("before") }
      let child = Coroutine { log.add("child") }
      Coroutine { log.add("behind") }
      try child.get()
      log.add("joiner")
    }
    #expect(events == ["before", "child", "behind", "joiner"])
  }

  @Test func aChildThatSuspendsIsWaitedFor() async throws {
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
      // The child alone is ready when its turn has come; the other one waits for it by then, first in its line.
      Coroutine.yield()
      try channel.send(7)
      log.add("joiner gets \(try child.get())")
      try other.get()
    }
    #expect(events == ["child waits", "child goes on", "other sees the end", "joiner gets 7"])
  }

  @Test func oneThatYieldsGoesOnBeforeTheJoiner() async throws {
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

  @Test func anErrorComesOut() async throws {
    let events = try await events { log in
      do { try Coroutine { throw Mine() }.get() } catch { log.add("\(error)") }
    }
    #expect(events == ["Mine()"])
  }

  @Test func aJoinerThatIsCancelledDoesNotWait() async throws {
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

  @Test func aChildThatCancelsItsJoinerIsDoneAndTheJoinerThrows() async throws {
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

  @Test func inWithoutSuspensionItIsNoWay() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Coroutine(on: ThreadPool(threads: 1)) {
        let child = Coroutine {}
        try withoutSuspension { try child.get() }
      }.get()
    }
    #expect(standardError(of: result).contains("inside withoutSuspension"))
  }

  /// Jobs of `async` code, and what other threads make ready, are looked at between the turns of a worker: a joiner whose
  /// children all run ahead has none.
  @Test func joinsInARowDoNotKeepOthersFromRunning() async throws {
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

  /// Each on a stack of its own, whoever has resumed it; but one that is small has no room for the child's beginning.
  @Test(arguments: [nil, 16 << 10]) func joinersOfJoinersNeedNoStack(stackSize: Int?) async throws {
    @Sendable func depth(_ levels: Int) throws -> Int {
      levels == 0 ? 0 : try Coroutine(stackSize: stackSize) { try depth(levels - 1) }.get() + 1
    }
    #expect(try await Coroutine(on: ThreadPool(threads: 1)) { try depth(2_000) }.get() == 2_000)
  }

  @Test func onePinnedToItsThreadIsSuspendedLikeOthers() async throws {
    let events = try await events { log in
      try withThreadPinned {
        try Coroutine { log.add("child") }.get()
        log.add("joiner")
      }
    }
    #expect(events == ["child", "joiner"])
  }
}

private final class Flag: Sendable {
  private let value = Atomic<Bool>(false)

  var isSet: Bool { value.load(ordering: .acquiring) }

  func set() { value.store(true, ordering: .releasing) }
}
