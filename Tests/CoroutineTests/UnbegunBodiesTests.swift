import CoroutineTestSupport
import Synchronization
import Testing

@testable import Coroutine

/// What never began, each in the body of the next one, and is dropped: no stack is deep enough for as many calls as there
/// are of them.
@Suite(.ownThreads) struct UnbegunBodiesTests {
  /// Counts those that live.
  final class Witness: Sendable {
    static let live = Atomic(0)
    init() { Self.live.wrappingAdd(1, ordering: .relaxed) }
    deinit { Self.live.wrappingSubtract(1, ordering: .relaxed) }
  }

  private static let depth = 10_000

  /// Makes a chain and drops it. Returns how many are left of it.
  private static func dropChain<Link>(_ wrap: (Link?, Witness) -> Link) -> Int {
    var link: Link?
    for _ in 0..<depth { link = wrap(link, Witness()) }
    let made = Witness.live.load(ordering: .relaxed)
    withExtendedLifetime(link) {}
    link = nil
    let left = Witness.live.load(ordering: .relaxed)
    return made >= depth ? left : -1
  }

  private static func generators() -> Int {
    dropChain { (inner: Generator<Int>?, witness) in
      Generator { yield in
        if let inner { try yield(from: inner) }
        withExtendedLifetime(witness) {}
      }
    }
  }

  private static func twoWayGenerators() -> Int {
    dropChain { (inner: TwoWayGenerator<Int, Int, Int>?, witness) in
      TwoWayGenerator { yield in
        if let inner { _ = try yield(from: inner) }
        return withExtendedLifetime(witness) { 1 }
      }
    }
  }

  private static func asyncGenerators() -> Int {
    dropChain { (inner: AsyncGenerator<Int>?, witness) in
      AsyncGenerator { yield in
        while let element = try inner?.next() { try yield(element) }
        withExtendedLifetime(witness) {}
      }
    }
  }

  private static func coroutines() -> Int {
    dropChain { (inner: Coroutine<Int, any Error>?, witness) in
      Coroutine(start: .lazy) { () throws -> Int in
        withExtendedLifetime(witness) {}
        return try inner?.get() ?? 0
      }
    }
  }

  // In processes of their own, which an overflow ends.

  @Test func generatorsInsideOneAnotherAreDropped() async {
    await #expect(processExitsWith: .success) {
      let left = try await Coroutine { Self.generators() + Self.twoWayGenerators() }.get()
      #expect(left == 0)
      #expect(PlainThread { Self.generators() }.join() == 0)
      var inGenerator = Generator<Int> { yield in try yield(Self.generators()) }
      #expect(inGenerator.next() == 0)
      // A cancelled one lets go of its body by itself.
      inGenerator = Generator { _ in }
      for _ in 0..<Self.depth {
        let inner = inGenerator
        inGenerator = Generator { yield in try yield(from: inner) }
      }
      inGenerator.cancel()
    }
  }

  @Test func asyncGeneratorsInsideOneAnotherAreDropped() async {
    await #expect(processExitsWith: .success) {
      let left = try await Coroutine { Self.asyncGenerators() }.get()
      #expect(left == 0)
    }
  }

  @Test func lazyCoroutinesInsideOneAnotherAreDropped() async {
    await #expect(processExitsWith: .success) {
      let left = try await Coroutine { Self.coroutines() }.get()
      #expect(left == 0)
      #expect(Coroutine.statistics.liveCoroutines == 0)
    }
  }

  /// Runs a function when it goes.
  private final class AtItsEnd: Sendable {
    private let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    deinit { body() }
  }

  /// Drops a generator inside of another one: what the inner one owns goes in the outer one's loop.
  private static func drop(owning object: consuming AtItsEnd) {
    let inner = Generator<Int> { [object] _ in withExtendedLifetime(object) {} }
    let outer = Generator<Int> { yield in try yield(from: inner) }
    withExtendedLifetime(outer) {}
  }

  @Test func anEndThatWaitsForWhatAnotherBodyOwnsIsOver() async throws {
    try await Coroutine {
      let (sender, receiver) = Channel<Int>.makeEnds()
      let inner = AsyncGenerator<Int> { [sender] _ in withExtendedLifetime(sender) {} }
      _ = consume sender
      // Its body has the last sender, and goes inside of that of the outer one.
      let object = AtItsEnd { [inner] in
        inner.cancel()
        for _ in receiver.received {}
      }
      _ = consume inner
      Self.drop(owning: object)
    }.get()
  }

  @Test func whoWaitsWhileItDropsSomeHoldsUpNobodyElse() async throws {
    try await Coroutine(on: ThreadPool(threads: 1)) {
      let log = Log()
      let (isWaiting, release) = (Channel<Void>(), Channel<Void>())
      let first = Coroutine {
        Self.drop(
          owning: AtItsEnd {
            try? isWaiting.send(())
            try? release.receive()
            log.add("first")
          })
      }
      try isWaiting.receive()
      // On the same thread, and in another coroutine: not left to the one that waits.
      Self.drop(owning: AtItsEnd { log.add("second") })
      #expect(log.all == ["second"])
      try release.send(())
      try first.get()
      #expect(log.all == ["second", "first"])
    }.get()
  }
}
