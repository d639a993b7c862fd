import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

/// The `async` forms stay on the caller's actor: their bodies may use what it isolates, and those who wait keep their order.
@Suite(.ownThreads) struct CallersActorTests {
  private static let mainActor: DispatchSpecificKey<Bool> = {
    let key = DispatchSpecificKey<Bool>()
    DispatchQueue.main.setSpecific(key: key, value: true)
    return key
  }()

  /// (It need not be on the main thread.)
  private static func isOnMainActor() -> Bool { DispatchQueue.getSpecific(key: mainActor) == true }

  /// Where a closure runs that captures nothing of an actor, in a function that has none of its own.
  private static nonisolated(nonsending) func runScope(_ log: Log) async throws {
    let isOnMainActor = isOnMainActor
    try await withScope { scope in
      scope.launch {}
      log.add("scope: \(isOnMainActor())")
    }
    let job = try await withScope { scope in
      log.add("scope with a child: \(isOnMainActor())")
      return scope.launch { 1 }
    }
    log.add("the child's value: \(try await job.value)")
    log.add("after it: \(isOnMainActor())")
  }

  @Test @MainActor func aScopesBodyRunsOnTheCallersActor() async throws {
    let log = Log()
    try await Self.runScope(log)
    #expect(log.all == ["scope: true", "scope with a child: true", "the child's value: 1", "after it: true"])
  }

  /// The handlers of a select whose cases have a closure of the runtime's around them.
  private static nonisolated(nonsending) func runSelects(_ log: Log) async throws {
    let isOnMainActor = isOnMainActor
    let mutex = CoroutineMutex(0)
    try await select { mutex.onLock { _ in log.add("lock: \(isOnMainActor())") } }
    let generator = AsyncGenerator<Int> { yield in try yield(1) }
    try await select { generator.onNext { _ in log.add("generator: \(isOnMainActor())") } }
    let broadcast = BroadcastChannel<Int>()
    let subscription = broadcast.subscribe()
    try await broadcast.send(1)
    try await select { subscription.onReceive { _ in log.add("broadcast: \(isOnMainActor())") } }
    let (sender, receiver) = Channel<Int>.makeEnds(capacity: .buffered(1))
    try await select { sender.onSend(1) { log.add("send: \(isOnMainActor())") } }
    try await select { receiver.onReceive { _ in log.add("receive: \(isOnMainActor())") } }
    try await select { onTimeout(.zero) { log.add("timeout: \(isOnMainActor())") } }
  }

  @Test @MainActor func aSelectsHandlersRunOnTheCallersActor() async throws {
    let log = Log()
    try await Self.runSelects(log)
    #expect(
      log.all == ["lock: true", "generator: true", "broadcast: true", "send: true", "receive: true", "timeout: true"])
  }

  /// An actor's own state that is no value: the compiler lets the body have it, since that runs on the actor.
  @Test func aScopesBodyAndItsActorDoNotMeet() async throws {
    let store = Store()
    async let filled: Void = store.fill(200)
    for _ in 0..<200 { await store.bump() }
    try await filled
    #expect(await store.count == 40_000)
  }

  private actor Store {
    private final class Counts {
      var number = 0
    }

    private let counts = Counts()

    var count: Int { counts.number }

    func bump() { for _ in 0..<100 { counts.number += 1 } }

    func fill(_ times: Int) async throws {
      let counts = counts
      for _ in 0..<times {
        try await withScope { scope in
          scope.launch {}
          for _ in 0..<100 { counts.number += 1 }
        }
      }
    }
  }

  /// Three tasks of one actor that begin to wait one after another.
  @MainActor private static func startThree(
    _ wait: @escaping @MainActor (Int) async throws -> Void
  ) async -> [Task<Void, any Error>] {
    let all = [0, 1, 2].map { number in Task<Void, any Error> { @MainActor in try await wait(number) } }
    // They have run when this goes on.
    await Task.yield()
    return all
  }

  @Test @MainActor func sendersOfAnActorAreServedInTheirOrder() async throws {
    for _ in 0..<100 {
      let channel = Channel<Int>()
      let all = await Self.startThree { number in try await channel.send(number) }
      #expect(channel.waitingSenderCount == 3)
      for number in 0..<3 { #expect(try await channel.receive() == number) }
      for one in all { try await one.value }
    }
  }

  @Test @MainActor func selectsOfAnActorAreServedInTheirOrder() async throws {
    for _ in 0..<100 {
      let channel = Channel<Int>()
      let all = await Self.startThree { number in try await select { channel.onSend(number) } }
      #expect(channel.waitingSenderCount == 3)
      for number in 0..<3 { #expect(try await channel.receive() == number) }
      for one in all { try await one.value }
    }
  }

  @Test @MainActor func thoseWhoLockAMutexOnAnActorAreServedInTheirOrder() async throws {
    for _ in 0..<100 {
      let (mutex, order) = (CoroutineMutex(0), Log())
      var all: [Task<Void, any Error>] = []
      try await mutex.withLock { _ in
        all = await Self.startThree { number in try await mutex.withLock { _ in order.add("\(number)") } }
      }
      for one in all { try await one.value }
      #expect(order.all == ["0", "1", "2"])
    }
  }
}
