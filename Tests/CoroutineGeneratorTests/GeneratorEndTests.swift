import CCoroutine
import Context
import CoroutineTestSupport
import Foundation
import Synchronization
import Testing

@testable import Coroutine

/// How a generator ends: by its body, by an error, cancelled, or dropped, and what is left of it then.
@Suite(.ownThreads) struct GeneratorEndTests {
  @Test func theBlockForTheSlowWayLooksAsIfItsBodyRan() {
    let block = ControlBlock.alwaysRunning
    #expect(MemoryLayout<ControlBlock>.size <= Int(COROUTINE_ALWAYS_RUNNING_WORDS) * MemoryLayout<UInt>.size)
    #expect(SelectedBackend.isRunning(ControlBlock.link(of: block)))
    #expect(UInt(bitPattern: block) % 64 == 0)
    let generator = Generator<Int> { yield in try yield(1) }
    let storage = generator.storage
    #expect(storage.plainBlock == block)
    // A sanitizer has to be told of each switch, so no generator is resumed in the plain way.
    #expect(generator.next() == 1 && (storage.plainBlock == block) == coroutine_sanitizers_active())
    #expect(generator.next() == nil && storage.plainBlock == block)
  }

  @Test func whatABodyCapturedGoesAtItsEndOrAnEarlyCancel() {
    final class Witness {}
    weak var captured: Witness?
    func make() -> Generator<Int> {
      let witness = Witness()
      captured = witness
      return Generator { yield in try withExtendedLifetime(witness) { try yield(1) } }
    }
    let ended = make()
    #expect(ended.next() == 1 && captured != nil)
    #expect(ended.next() == nil && captured == nil)
    let cancelled = make()
    #expect(captured != nil)
    cancelled.cancel()
    #expect(captured == nil && cancelled.next() == nil)
    do {
      let dropped = make()
      #expect(captured != nil)
      _ = dropped
    }
    #expect(captured == nil)
  }

  @Test func aDroppedGeneratorUnwindsItsBody() {
    final class Witness {}
    let log = Log()
    weak var gone: Witness?
    func run() {
      let generator = Generator<Int> { yield in
        let witness = Witness()
        gone = witness
        defer { log.add("defer") }
        do {
          for value in 0... { try yield(value) }
        } catch {
          log.add("\(type(of: error))")
          throw error
        }
        withExtendedLifetime(witness) {}
      }
      let values = (generator.next(), generator.next())
      #expect(values == (0, 1))
    }
    run()
    #expect(log.all == ["GeneratorCancelled", "defer"])
    #expect(gone == nil)
  }

  @Test func aBodyThatNeverBeganIsReleased() {
    final class Witness {}
    weak var gone: Witness?
    func run() {
      let witness = Witness()
      gone = witness
      let generator = Generator<Int> { yield in withExtendedLifetime(witness) {} }
      let other = Generator<Int> { yield in withExtendedLifetime(witness) {} }
      other.cancel()
      #expect(other.next() == nil)
      withExtendedLifetime(generator) {}
    }
    run()
    #expect(gone == nil)
  }

  @Test func aBodyThatSwallowsTheCancellationIsThrownAtAgain() {
    let log = Log()
    let generator = Generator<Int> { yield in
      for value in 0..<5 {
        do { try yield(value) } catch { log.add("swallowed \(value)") }
      }
    }
    #expect(generator.next() == 0)
    generator.cancel()
    #expect(log.all == (0..<5).map { "swallowed \($0)" })
    #expect(generator.next() == nil)
    generator.cancel()
    #expect(generator.failure == nil)
  }

  @Test(.disabled(if: coroutine_sanitizers_active(), "a million errors take a minute there"))
  func aBodyThatNeverEndsIsGivenUpAndReported() async {
    let reports = Guarded(0)
    await LostErrors.observe { error, origin in
      guard let endless = error as? GeneratorEndless, endless.attempts > 1_000_000, origin == "a generator" else {
        return false
      }
      reports.withLock { $0 += 1 }
      return true
    } during: {
      func run() {
        let generator = Generator<Int> { yield in
          while true { try? yield(1) }
        }
        #expect(generator.next() == 1)
      }
      LeakChecker.ignoring(run)
      #expect(reports.withLock { $0 } == 1)
      LeakChecker.ignoring {
        var handle: Generator<Int>?
        let generator = Generator<Int> { yield in
          try yield(1)
          handle?.cancel()
          while true { try? yield(2) }
        }
        handle = generator
        #expect(generator.next() == 1)
        #expect(generator.next() == nil)
        #expect(generator.next() == nil)
        handle = nil
      }
      #expect(reports.withLock { $0 } == 2)
    }
  }

  @Test func thatItsConsumerWasCancelledIsNotReported() async throws {
    let (begun, never) = (Channel<Void>(), Channel<Int>())
    let lost = Guarded(0)
    try await LostErrors.observe { error, origin in
      guard error is CancellationError, origin == "a generator" else { return false }
      lost.withLock { $0 += 1 }
      return true
    } during: {
      let coroutine = Coroutine { () -> Bool in
        let generator = Generator<Int> { yield in
          try begun.send(())
          try yield(try never.receive())
        }
        return generator.next() == nil && generator.failure is CancellationError
      }
      try await begun.receive()
      coroutine.cancel()
      #expect(try await coroutine.get())
    }
    #expect(lost.withLock { $0 } == 0)
  }

  /// Such a coroutine begins though it was cancelled before, and lets go of what it captured on its own stack.
  @Test func oneOfAnAtomicCoroutineMayWaitInItsCleanup() async throws {
    let (log, gate) = (Log(), Channel<Void>())
    try await serially {
      func launch() -> Coroutine<Void, any Error> {
        // Handed over to the coroutine, which alone uses it from there on.
        nonisolated(unsafe) let generator = Generator<Int> { yield in
          defer {
            withCancellationShield { try? gate.receive() }
            log.add("closed")
          }
          while true { try yield(1) }
        }
        _ = generator.next()
        return Coroutine(start: .atomic) {
          try Coroutine.checkCancellation()
          _ = generator.next()
        }
      }
      let consumer = launch()
      consumer.cancel()
      try gate.send(())
      log.add(outcome { try consumer.get() })
    }
    #expect(log.all == ["closed", "cancelled"])
  }

  @Test func cancellingFromInsideEndsAtTheNextYield() {
    var handle: Generator<Int>?
    let generator = Generator<Int> { yield in
      try yield(1)
      handle?.cancel()
      try yield(2)
    }
    handle = generator
    #expect(generator.next() == 1)
    #expect(generator.next() == nil)
    handle = nil
  }

  @Test func anErrorEndsTheSequenceAndIsKept() async throws {
    let reports = Guarded(0)
    struct Mine: Error {}
    await LostErrors.observe { error, _ in
      if error is Mine { reports.withLock { $0 += 1 } }
      return error is Mine
    } during: {
      let generator = Generator<Int> { yield in
        try yield(1)
        throw Mine()
      }
      #expect(generator.next() == 1)
      #expect(generator.failure == nil)
      #expect(generator.next() == nil)
      #expect(generator.failure is Mine)
      #expect(generator.next() == nil)
    }
    #expect(reports.withLock { $0 } == 1)
  }

  /// One that was cancelled: its `next()` throws.
  private static func makeCancelled() -> TwoWayGenerator<Void, Int, Int> {
    let generator = TwoWayGenerator<Void, Int, Int> { _ in 0 }
    generator.cancel()
    return generator
  }

  @Test func theCancelOfAnotherOneIsAnErrorOfTheBody() async throws {
    let reports = Guarded(0)
    try await LostErrors.observe { error, origin in
      guard error is GeneratorCancelled, origin == "a generator" else { return false }
      reports.withLock { $0 += 1 }
      return true
    } during: { () async throws -> Void in
      let generator = Generator<Int> { yield in
        try yield(1)
        try yield(from: Self.makeCancelled())
        try yield(2)
      }
      #expect(generator.next() == 1)
      #expect(generator.next() == nil)
      #expect(generator.failure is GeneratorCancelled)
      let throwing = ThrowingGenerator<Int> { yield in
        try yield(1)
        while let element = try Self.makeCancelled().next().element { try yield(element) }
      }
      #expect(try throwing.next() == 1)
      let thrown = failure { _ = try throwing.next() }
      #expect(thrown.hasPrefix("the generator was cancelled"))
      #expect(try throwing.next() == nil)
      // No news where the other one is that which consumes this one: the body has called its `yield`.
      let log = Log()
      func drop() {
        let outer = Generator<Int> { yield in
          let inner = Generator<Int> { _ in for value in 0... { try yield(value) } }
          log.add("\(inner.next() == nil) \(inner.failure is GeneratorCancelled)")
        }
        let values = (outer.next(), outer.next())
        #expect(values == (0, 1))
      }
      drop()
      #expect(log.all == ["true true"])
    }
    #expect(reports.withLock { $0 } == 1)
  }

  @Test func anImpossibleStackSizeEndsItWithAnError() async {
    await LostErrors.observe { error, _ in
      error is StackError
    } during: {
      let generator = Generator<Int>(stackSize: .max) { yield in try yield(1) }
      #expect(generator.next() == nil)
      #expect(generator.failure != nil)
      // With room for a large element on top the sum must not trap either.
      let large = Generator<InlineArray<2000, UInt64>>(stackSize: .max) { _ in }
      for _ in large { Issue.record("an element without a stack") }
      #expect(large.failure != nil)
    }
  }

  @Test func manyDroppedHalfWayLeaveNothingBehind() {
    final class Witness {
      nonisolated(unsafe) static var live = 0  // used by this test's one thread
      init() { Witness.live += 1 }
      deinit { Witness.live -= 1 }
    }
    func one(_ index: Int) -> Int {
      let generator = Generator<Int> { yield in
        let witness = Witness()
        defer { withExtendedLifetime(witness) {} }
        for value in index... { try yield(value) }
      }
      return generator.next()!
    }
    let count = amount(100_000, sanitized: 10_000)
    var sum = 0
    for index in 0..<count { sum &+= one(index) }
    #expect(sum == count * (count - 1) / 2)
    #expect(Witness.live == 0)
  }

  // In processes of their own, since both numbers are the whole process's.

  @Test func aHundredThousandInThousandsLeaveNoStackAndNoMemory() async {
    await #expect(processExitsWith: .success) {
      Self.expectNothingLeft { index in
        let generator = Generator<Int>(stackSize: 64 << 10) { yield in for value in index... { try yield(value) } }
        return (generator, generator.next() == index && generator.next() == index + 1)
      }
    }
  }

  @Test func norDoThoseThatAreGivenSomething() async {
    await #expect(processExitsWith: .success) {
      Self.expectNothingLeft { index in
        let generator = TwoWayGenerator<String, String, Int>(stackSize: 64 << 10) { yield in
          var input = "\(index)"
          while true { input = try yield("what was put into number \(index) is \(input)") }
        }
        let isRight = (try? generator.next("nothing")) != nil && (try? generator.next("much"))?.element?.last == "h"
        return (generator, isRight)
      }
    }
  }

  @Test func norDoThoseThatYieldFromAnother() async {
    await #expect(processExitsWith: .success) {
      Self.expectNothingLeft(levels: 2) { index in
        let generator = Generator<String>(stackSize: 64 << 10) { yield in
          try yield(
            from: Generator<String>(stackSize: 64 << 10) { yield in
              for value in index... { try yield("too long for the word of a switch: \(value)") }
            })
        }
        return (generator, generator.next() != nil && generator.next()?.hasSuffix(" \(index + 1)") == true)
      }
    }
  }

  /// Makes 100,000 generators, a thousand at a time, and drops them. Compares the memory and stacks in use with those
  /// before.
  ///
  /// - Parameters:
  ///   - levels: how many generators one call of `make` makes, each of which yields from the next.
  ///   - make: makes a generator and takes elements from it. Also returns whether they were right.
  private static func expectNothingLeft<Made>(levels: Int = 1, _ make: (Int) -> (generator: Made, isRight: Bool)) {
    forgetThrownErrors()
    // An `#expect` would keep some memory, too, so the results are checked at the end.
    var wrong = 0
    func batch(_ number: Int) {
      let made = (0..<1000 / levels).map { make(number * 1000 + $0) }
      // Otherwise the optimiser would drop them after their last use.
      withExtendedLifetime(made) {
        wrong += made.count { !$0.isRight }
        if Coroutine.statistics.stacksInUse != 1000 { wrong += 1 }
      }
    }
    func inUse() -> (stacks: Int, bytes: Int) { (Coroutine.statistics.stacksInUse, heapInUse()) }
    // Memory that is allocated once and kept.
    for number in 0..<3 { batch(number) }
    let before = inUse()
    for number in 0..<amount(100, sanitized: 5) { batch(number) }
    let after = inUse()
    #expect(wrong == 0)
    #expect(before.stacks == 0 && after.stacks == 0)
    // Half a byte left by each would be more than this. A sanitizer has a heap of its own.
    let growth = after.bytes - before.bytes
    if !coroutine_sanitizers_active() { #expect(abs(growth) < 32 << 10, "\(growth) bytes") }
  }

  @Test func noStackIsLeftBehindByThoseThatLiveAtOnce() throws {
    // A pool of its own: nothing else in the process has stacks of this size.
    let size = 23 * 4096 + (4 << 20)
    let pool = try StackPool.shared(stackSize: size)
    let before = pool.statistics.live
    var made: [Int] = []
    for _ in 0..<5 {
      let generators = (0..<300).map { index in
        Generator<Int>(stackSize: size) { yield in for value in index... { try yield(value) } }
      }
      for (index, generator) in generators.enumerated() { #expect(generator.next() == index) }
      #expect(pool.statistics.live == before + 300)
      for generator in generators.prefix(100) { generator.cancel() }
      #expect(pool.statistics.live == before + 200)
      made.append(pool.statistics.live + pool.statistics.idle)
      withExtendedLifetime(generators) {}
    }
    #expect(pool.statistics.live == before)
    #expect(Set(made).count == 1)
  }

  /// Only the reference count orders the last use before the end. ThreadSanitizer must see that.
  @Test func droppedOnAnotherThreadThanTheLastUseItUnwindsWithoutARace() {
    // Unchecked: each of two threads has one holder.
    final class Holder: @unchecked Sendable {
      var generator: Generator<Int>?
      init(_ generator: Generator<Int>) { self.generator = generator }
    }
    let isUsed = Atomic(false)
    let unwound = Guarded(0)
    for _ in 0..<20 {
      isUsed.store(false, ordering: .relaxed)
      let holders = {
        let generator = Generator<Int> { yield in
          var numbers = [0]
          defer { unwound.withLock { $0 += numbers.count } }
          while true {
            try yield(numbers.count)
            numbers.append(1)
          }
        }
        return (Holder(generator), Holder(generator))
      }()
      let user = PlainThread {
        while holders.0.generator!.next()! < 3 {}
        holders.0.generator = nil
        isUsed.store(true, ordering: .relaxed)
      }
      let last = PlainThread {
        while !isUsed.load(ordering: .relaxed) { sched_yield() }
        holders.1.generator = nil
      }
      user.join()
      last.join()
    }
    #expect(unwound.withLock { $0 } == 60)
  }

  @Test func takingLessThanNothingTrapsByName() async {
    let plain = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = Generator<Int> { yield in try yield(1) }.take(-1)
    }
    #expect(standardError(of: plain).contains("take(-1) of a generator"))
    let throwing = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = try ThrowingGenerator<Int> { yield in try yield(1) }.take(-1)
    }
    #expect(standardError(of: throwing).contains("take(-1) of a generator"))
    let asynchronous = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = try await AsyncGenerator<Int> { yield in try yield(1) }.take(-1)
    }
    #expect(standardError(of: asynchronous).contains("take(-1) of a generator"))
  }
}

/// AddressSanitizer's leak checker, where there is one.
private enum LeakChecker {
  typealias Function = @convention(c) () -> Void

  /// What `body` allocates may leak on purpose.
  static func ignoring(_ body: () -> Void) {
    // The types that <sanitizer/lsan_interface.h> declares.
    let disable = dlsym(nil, "__lsan_disable").map { unsafeBitCast($0, to: Function.self) }
    let enable = dlsym(nil, "__lsan_enable").map { unsafeBitCast($0, to: Function.self) }
    disable?()
    body()
    enable?()
  }
}
