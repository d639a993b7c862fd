import CCoroutine
import Coroutine
import CoroutineTestSupport
import Dispatch
import Glibc
import Testing

/// Invariant 4, for accesses: the Swift runtime tracks the open accesses of a thread. They must be those of the code
/// that runs there. With some simpler design each of these tests crashed, trapped without a reason, or hid a real
/// overlap.
@Suite(.ownThreads) struct ExclusivityTests {
  /// A variable whose accesses are checked at run time.
  final class Variable: @unchecked Sendable {
    // Each test uses it from one flow of control at a time.
    var values = [1, 2, 3]
    var isFirst = true

    /// Keeps a modifying access open while `body` runs.
    @inline(never)
    func modify(_ body: (inout [Int]) throws -> Void) rethrows { try Self.hold(&values, body) }

    /// Changes the value after `body`: the compiler may remove an access to a value that is not used.
    @inline(never)
    private static func hold(_ values: inout [Int], _ body: (inout [Int]) throws -> Void) rethrows {
      defer {
        values.append(0)
        values.removeLast()
      }
      try body(&values)
    }

    @inline(never)
    func append(_ value: Int) { values.append(value) }
  }

  @Test func accessesOfTwoCoroutinesInterleaveOnOneThread() async throws {
    let queue = DispatchQueue(label: "serial")
    let coroutines = (0..<4).map { index in
      Coroutine(on: queue) { () -> [Int] in
        let variable = Variable()
        for round in 0..<10 {
          variable.modify { values in
            Coroutine.yield()
            values.append(round)
            Coroutine.yield()
          }
        }
        variable.append(index)
        return variable.values
      }
    }
    for (index, coroutine) in coroutines.enumerated() {
      #expect(try await coroutine.get() == [1, 2, 3] + Array(0..<10) + [index])
    }
  }

  @Test func anAccessBegunOnOneThreadEndsOnAnother() async throws {
    let queues = (0..<2).map { DispatchQueue(label: "thread \($0)") }
    let coroutine = Coroutine { () throws -> ([Int], Int) in
      let variable = Variable()
      var threads: Set<UInt> = [UInt(pthread_self())]
      for round in 0..<20 {
        try variable.modify { values in
          // Wakes it from a thread that was busy until then. The pool has several.
          try withSuspension { resume in queues[round % 2].async { resume() } }
          threads.insert(UInt(pthread_self()))
          values.append(round)
        }
      }
      return (variable.values, threads.count)
    }
    let (values, threads) = try await coroutine.get()
    #expect(values == [1, 2, 3] + Array(0..<20))
    #expect(threads >= 1)
  }

  @Test func manyAccessesMigrateAtOnce() async throws {
    let coroutines = (0..<200).map { index in
      Coroutine { () -> Int in
        let (outer, inner) = (Variable(), Variable())
        for round in 0..<20 {
          outer.modify { a in
            inner.modify { b in
              Coroutine.yield()
              a.append(round)
              b.append(index)
            }
            Coroutine.yield()
          }
        }
        return outer.values.count + inner.values.count
      }
    }
    for coroutine in coroutines { #expect(try await coroutine.get() == 46) }
  }

  @Test func anAccessBegunInsideATaskEndsOutsideOfIt() async throws {
    let release = Channel<Int>()
    let coroutine = await Task {
      Coroutine.immediate { () throws -> [Int] in
        let variable = Variable()
        try variable.modify { values in values.append(try release.receive()) }
        return variable.values
      }
    }.value
    try await release.send(4)
    #expect(try await coroutine.get() == [1, 2, 3, 4])
  }

  @Test func anAccessBegunOutsideATaskEndsWhileOneRuns() async throws {
    let release = Channel<Int>()
    let variable = Variable()
    let coroutine = Coroutine(on: DispatchQueue(label: "outside")) { () throws -> [Int] in
      try variable.modify { values in values.append(try release.receive()) }
      return variable.values
    }
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<4 {
        group.addTask {
          let own = Variable()
          own.modify { $0.append(1) }
        }
      }
    }
    try await release.send(4)
    #expect(try await coroutine.get() == [1, 2, 3, 4])
  }

  @Test func anAbandonedAccessIsEndedBeforeItsStackIsReused() {
    for round in 0..<200 {
      let variable = Variable()
      func drop() {
        let generator = Generator<Int> { yield in
          try variable.modify { values in
            values.append(round)
            try yield(values.count)
          }
        }
        #expect(generator.next() == 4)
      }
      drop()
      // The variable is still exclusive: with the body's access open this would trap.
      variable.append(0)
      #expect(variable.values == [1, 2, 3, round, 0])
    }
  }

  @Test func aGeneratorAndItsConsumerNestTheirAccesses() {
    let (mine, its) = (Variable(), Variable())
    let generator = Generator<Int> { yield in
      for value in 0..<3 {
        try its.modify { values in
          values.append(value)
          try yield(value)
        }
      }
    }
    var sum = 0
    while true {
      var element: Int?
      mine.modify { values in
        element = generator.next()
        values.append(element ?? -1)
      }
      guard let element else { break }
      sum += element
    }
    #expect(sum == 3)
    #expect(mine.values == [1, 2, 3, 0, 1, 2, -1])
  }

  @Test func aRealOverlapOfAGeneratorAndItsConsumerTraps() async {
    await #expect(processExitsWith: .failure) {
      let variable = Variable()
      let generator = Generator<Int> { yield in
        try variable.modify { values in
          try values.sort {
            try yield($0)
            return $0 < $1
          }
        }
      }
      _ = generator.next()
      variable.append(4)
    }
  }

  @Test func aRealOverlapInsideACoroutineTraps() async {
    await #expect(processExitsWith: .failure) {
      let coroutine = Coroutine {
        let variable = Variable()
        variable.modify { values in
          Coroutine.yield()
          variable.append(1)
          values.append(2)
        }
      }
      try await coroutine.get()
    }
  }

  /// Its frames never end, and so the variable may be half changed for ever: the next one that accesses it would not be told,
  /// since the access is in the list of the coroutine that dropped it.
  @Test(.disabled(if: coroutine_sanitizers_active(), "a million errors take a minute there"))
  func givingABodyUpInsideAnAccessTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      forgetThrownErrors()
      let variable = Variable()
      try await Coroutine {
        let generator = Generator<Int> { yield in
          variable.modify { _ in while true { try? yield(1) } }
        }
        _ = generator.next()
      }.get()
      variable.append(4)
    }
    #expect(standardError(of: result).contains("given up inside an access to a variable"))
  }

  @Test func resumingAnOpenAccessOnAnotherThreadTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let variable = Variable()
      let generator = Generator<Int> { yield in
        try variable.modify { _ in
          try yield(1)
          try yield(2)
        }
      }
      _ = generator.next()
      nonisolated(unsafe) let moved = generator
      let done = DispatchSemaphore(value: 0)
      DispatchQueue(label: "another thread").async {
        _ = moved.next()
        done.signal()
      }
      blockingWait(done)
    }
    let message = result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
    #expect(message.contains("access to a variable open"))
  }

  /// The C library gives an ended thread's `pthread_t` to the next one, whose list has no such access.
  @Test func anOpenAccessOfAnEndedThreadIsNotTheNextOnes() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let variable = Variable()
      nonisolated(unsafe) let generator = Generator<Int> { yield in
        try variable.modify { _ in
          try yield(1)
          try yield(2)
        }
      }
      PlainThread { _ = generator.next() }.join()
      PlainThread { while generator.next() != nil {} }.join()
    }
    #expect(result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) }?.contains("variable open") == true)
  }

  /// Nor is an ended task's address its own for ever.
  @Test func threadsAndTasksHaveNumbersOfTheirOwn() async {
    let threads = (0..<3).map { _ in PlainThread { coroutine_thread_number() }.join() }
    #expect(Set(threads).count == 3 && !threads.contains(0))
    #expect(PlainThread { coroutine_thread_number() == coroutine_thread_number() }.join())
    #expect(PlainThread { coroutine_task_number() }.join() == 0)
    var tasks = [coroutine_task_number()]
    for _ in 0..<20 {
      let number = await Task.detached {
        let number = coroutine_task_number()
        await Task.yield()
        return number == coroutine_task_number() ? number : 0
      }.value
      tasks.append(number)
    }
    #expect(Set(tasks).count == 21 && !tasks.contains(0))
  }

  @Test func anAccessOnTheStackOfAnInnerGeneratorPinsTheOuterOne() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let variable = Variable()
      nonisolated(unsafe) let outer = Generator<Int> { outer in
        let inner = Generator<Int> { _ in
          try variable.modify { _ in
            try outer(1)
            try outer(2)
          }
        }
        _ = inner.next()
      }
      try await Coroutine { _ = outer.next() }.get()
      try await Coroutine { _ = outer.next() }.get()
    }
    #expect(result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) }?.contains("variable open") == true)
  }

  @Test func resumingAnOpenAccessInAnotherCoroutineTraps() async {
    await #expect(processExitsWith: .failure) {
      let variable = Variable()
      nonisolated(unsafe) let generator = Generator<Int> { yield in
        try variable.modify { _ in
          try yield(1)
          try yield(2)
        }
      }
      try await Coroutine { _ = generator.next() }.get()
      try await Coroutine { _ = generator.next() }.get()
    }
  }

  @Test func aConsumedGeneratorsOpenAccessPinsItsConsumersBody() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let variable = Variable()
      nonisolated(unsafe) let outermost = Generator<Int> { yield in
        let outer = Generator<Int> { yield in
          let inner = Generator<Int> { yield in try variable.modify { _ in try yield(1) } }
          try yield(inner.next() ?? 0)
          // In another coroutine, which does not see the access of the inner one.
          variable.append(2)
          exit(EXIT_SUCCESS)
        }
        for value in outer { try yield(value) }
      }
      try await Coroutine { _ = outermost.next() }.get()
      try await Coroutine { _ = outermost.next() }.get()
    }
    #expect(result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) }?.contains("variable open") == true)
  }

  @Test func aConsumedGeneratorThatHasEndedPinsNoBody() async throws {
    let variable = Variable()
    nonisolated(unsafe) let outer = Generator<Int> { yield in
      for _ in 0..<2 {
        let inner = Generator<Int> { yield in
          try variable.modify { _ in try yield(1) }
          try yield(2)
        }
        _ = inner.next()
        // Once it leaves the access by its next element, once by its end.
        if variable.isFirst { _ = inner.next() } else { inner.cancel() }
        try yield(3)
        withExtendedLifetime(inner) {}
      }
    }
    for expected in [3, 3, nil] {
      #expect(try await Coroutine { outer.next() }.get() == expected)
      variable.isFirst = false
    }
  }

  @Test func anOpenAccessOfTheConsumersOwnDoesNotPinAGenerator() {
    let variable = Variable()
    let generator = Generator<Int> { yield in for value in 0..<4 { try yield(value) } }
    variable.modify { values in values.append(generator.next()!) }
    nonisolated(unsafe) let moved = generator
    #expect(DispatchQueue(label: "another thread").sync { moved.next() } == 1)
    #expect(generator.next() == 2)
  }
}
