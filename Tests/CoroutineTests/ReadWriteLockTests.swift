import CoroutineTestSupport
import Testing

@testable import Coroutine

@Suite(.ownThreads) struct ReadWriteLockTests {
  @Test func readersAreTogetherAndAWriterIsAloneAndNotKeptWaiting() async throws {
    let log = Log()
    try await serially {
      let lock = ReadWriteLock(0, name: "l")
      func read(_ name: String) -> Coroutine<Void, any Error> {
        Coroutine {
          try lock.withReadLock { value in
            log.add("\(name) in \(value)")
            Coroutine.yield()
            log.add("\(name) out")
          }
        }
      }
      let early = [read("a"), read("b")]
      let writer = Coroutine {
        try lock.withWriteLock { value in
          log.add("writer in")
          Coroutine.yield()
          value += 1
          log.add("writer out")
        }
      }
      let late = [read("c"), read("d")]
      for coroutine in early + [writer] + late { try coroutine.get() }
    }
    #expect(
      log.all == [
        "a in 0", "b in 0", "a out", "b out", "writer in", "writer out", "c in 1", "d in 1", "c out", "d out",
      ])
  }

  @Test func aWriterThatGivesUpLetsTheReadersInBehindIt() async throws {
    let log = Log()
    try await serially {
      let lock = ReadWriteLock(0)
      try lock.withReadLock { _ in
        let writer = Coroutine { log.add(outcome { try lock.withWriteLock { $0 += 1 } }) }
        let reader = Coroutine { try lock.withReadLock { log.add("reads \($0)") } }
        Coroutine.yield()
        log.add("\(lock.withReadLockIfAvailable { $0 } as Int?)")
        writer.cancel()
        try writer.get()
        try reader.get()
        // The order of the two ends is not fixed: the writer may have given up before the reader comes.
        let late = Coroutine { outcome { try lock.withWriteLock(timeout: .milliseconds(1)) { $0 += 1 } } }
        let behind = Coroutine { try lock.withReadLock { "reads \($0) too" } }
        log.add(try behind.get())
        log.add(try late.get())
        log.add("\(lock.withWriteLockIfAvailable { $0 } as Int?)")
      }
      log.add("\(lock.withWriteLockIfAvailable { $0 += 1 } != nil) \(lock.withReadLockIfAvailable { $0 } ?? -1)")
    }
    #expect(log.all == ["nil", "cancelled", "reads 0", "reads 0 too", "timed out", "nil", "true 1"])
  }

  /// It has not withdrawn yet, as the reader has kept the turn since.
  @Test func aWriterThatWasCancelledHoldsUpNoReader() async throws {
    let log = Log()
    try await serially {
      let lock = ReadWriteLock(0)
      try lock.withReadLock { _ in
        let writer = Coroutine { log.add(outcome { try lock.withWriteLock { $0 += 1 } }) }
        Coroutine.yield()
        writer.cancel()
        log.add("\(lock.withReadLockIfAvailable { $0 } as Int?)")
        log.add("\(try lock.withReadLock(timeout: .zero) { $0 })")
        try writer.get()
      }
    }
    #expect(log.all == ["Optional(0)", "0", "cancelled"])
  }

  @Test func tasksAndCoroutinesShareIt() async throws {
    let lock = ReadWriteLock([Int](repeating: 0, count: 8))
    let writers = (0..<4).map { number in
      Coroutine {
        for _ in 0..<500 {
          try lock.withWriteLock { values in
            values[number] += 1
            if values[number].isMultiple(of: 20) { Coroutine.yield() }
            values[number + 4] += 1
          }
        }
      }
    }
    let readers = (0..<4).map { _ in
      Task {
        for _ in 0..<500 {
          try await lock.withReadLock { values in
            #expect(values[..<4] == values[4...].prefix(4).reindexed())
            await Task.yield()
          }
        }
      }
    }
    for writer in writers { try await writer.get() }
    for reader in readers { try await reader.value }
    try await lock.withWriteLock { $0[0] = -1 }
    #expect(try await lock.withReadLock { $0[0] } == -1)
    await #expect(throws: CancellationError.self) {
      try await Task {
        withUnsafeCurrentTask { $0?.cancel() }
        try await lock.withReadLock { _ in }
      }.value
    }
  }

  @Test func aHundredThousandWaitsThatWereEndedLeaveNothingBehind() async throws {
    let lock = ReadWriteLock(0)
    try await serially {
      for round in 0..<amount(1_000, sanitized: 100) {
        try lock.withReadLock { _ in
          let waiters = (0..<100).map { number in
            Coroutine {
              _ = outcome {
                try lock.withWriteLock(timeout: (round + number).isMultiple(of: 2) ? .zero : nil) { $0 += 1 }
              }
            }
          }
          Coroutine.yield()
          for waiter in waiters { waiter.cancel() }
          for waiter in waiters { try waiter.get() }
        }
      }
    }
    #expect(lock.withWriteLockIfAvailable { $0 } == 0)
  }

  @Test func writingInsideOnesOwnReadTraps() async {
    let exit = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let lock = ReadWriteLock(0, name: "routes")
      try await Coroutine { try lock.withReadLock { _ in try lock.withWriteLock { $0 += 1 } } }.get()
    }
    #expect(standardError(of: exit).contains("locks read-write lock \"routes\" for writing while it reads"))
  }

  @Test func writingInsideATasksOwnReadTraps() async {
    let exit = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let lock = ReadWriteLock(0, name: "routes")
      try await lock.withReadLock { _ in try await lock.withWriteLock { $0 += 1 } }
    }
    #expect(standardError(of: exit).contains("async code locks read-write lock \"routes\" for writing while it reads"))
  }

  @Test func aReaderThatOthersKeepFromWritingWaitsForThem() async throws {
    let log = Log()
    try await serially {
      let lock = ReadWriteLock(0)
      let gate = Channel<Void>()
      let reader = Coroutine { try lock.withReadLock { _ in try gate.receive() } }
      Coroutine.yield()
      let writer = Coroutine {
        try lock.withReadLock { log.add("reads \($0)") }
        try lock.withWriteLock { value in
          value += 1
          log.add("writes \(value)")
        }
      }
      Coroutine.yield()
      log.add("the other reader ends")
      try gate.send(())
      try reader.get()
      try writer.get()
    }
    #expect(log.all == ["reads 0", "the other reader ends", "writes 1"])
  }

  @Test func lockingInsideOnesOwnWriteTraps() async {
    let exit1 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let lock = ReadWriteLock(0)
      _ = try await Coroutine { try lock.withWriteLock { _ in try lock.withReadLock { _ in } } }.get()
    }
    #expect(standardError(of: exit1).contains("whose writer it is: it would wait for itself for ever"))
    let exit2 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let lock = ReadWriteLock(0)
      try await lock.withWriteLock { _ in try await lock.withWriteLock { _ in } }
    }
    #expect(standardError(of: exit2).contains("whose writer it is: it would wait for itself for ever"))
  }
}

extension ArraySlice {
  /// The same elements with indices from zero, so that two slices can be compared.
  fileprivate func reindexed() -> ArraySlice { ArraySlice(Array(self)) }
}
