import Coroutine
import CoroutineTestSupport
import Testing

/// A generator's body belongs to the main actor where code of that has made it, also where it unwinds.
@Suite(.ownThreads) struct GeneratorActorTests {
  @MainActor final class Owner {
    private static var unwound = 0
    private var generator: Generator<Int>?

    /// An object that has a generator of `count` elements, of which it has taken some.
    static func make(_ count: Int, taken: Int) -> Guarded<Owner?> {
      let owner = Owner()
      owner.generator = Generator { yield in
        defer { unwound += 1 }
        for number in 0..<count { try yield(number) }
      }
      for _ in 0..<taken { _ = owner.generator?.next() }
      return Guarded(owner)
    }

    /// An object that has a generator of no actor's, whose body is at the first of two elements of one of the main actor's.
    static func makeAround() -> Guarded<Owner?> {
      let inner = Generator<Int> { yield in
        defer { unwound += 1 }
        for number in 0..<2 { try yield(number) }
      }
      let owner = Owner()
      owner.generator = Generator<Int>(isolation: nil) { yield in try yield(from: inner) }
      _ = owner.generator?.next()
      return Guarded(owner)
    }

    func cancel() { generator?.cancel() }
  }

  /// A body that is code of no actor, in a generator that code of the main actor makes.
  nonisolated private static func numbers(_ yield: Generator<Int>.Yield) throws {
    for number in 0..<10 { try yield(number) }
  }

  @MainActor private static func startOnAPool() -> Coroutine<Int, any Error> {
    let generator = Generator<Int>(numbers)
    return Coroutine(on: ThreadPool(threads: 1)) {
      for number in generator where number > 2 { return number }
      return -1
    }
  }

  private static func drop<Owner>(_ owner: Guarded<Owner?>) async throws {
    try await Coroutine(on: ThreadPool(threads: 1)) { owner.withLock { $0 = nil } }.get()
  }

  @Test func oneUnderWayThatIsDroppedOffTheMainActorTraps() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Self.drop(await Owner.make(2, taken: 1))
    }
    #expect(standardError(of: result).contains("dropped elsewhere while its body is under way"))
  }

  @Test func oneThatAnotherYieldsFromTrapsWithThat() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Self.drop(await Owner.makeAround())
    }
    #expect(standardError(of: result).contains("dropped elsewhere while its body is under way"))
  }

  @Test func oneThatAnotherYieldsFromMayGoOnItsActor() async throws {
    let cancelled = await Owner.makeAround()
    await MainActor.run { cancelled.withLock { $0?.cancel() } }
    try await Self.drop(cancelled)
    let dropped = await Owner.makeAround()
    await MainActor.run { dropped.withLock { $0 = nil } }
  }

  @Test func oneThatBeganElsewhereMayGoThere() async throws {
    let number = try await Self.startOnAPool().get()
    #expect(number == 3)
  }

  @Test func oneThatHasNotBegunOrHasEndedMayGoAnywhere() async throws {
    try await Self.drop(await Owner.make(2, taken: 0))
    try await Self.drop(await Owner.make(2, taken: 3))
    let cancelled = await Owner.make(2, taken: 1)
    await MainActor.run { cancelled.withLock { $0?.cancel() } }
    try await Self.drop(cancelled)
  }

  @Test func oneUnderWayMayGoOnItsActor() async throws {
    let owner = await Owner.make(2, taken: 1)
    await MainActor.run { owner.withLock { $0 = nil } }
    let another = await Owner.make(2, taken: 1)
    try await Coroutine(on: .main) { another.withLock { $0 = nil } }.get()
    let third = await Owner.make(2, taken: 1)
    try await Coroutine { @MainActor in
      Coroutine.yield()
      third.withLock { $0 = nil }
    }.get()
  }
}
