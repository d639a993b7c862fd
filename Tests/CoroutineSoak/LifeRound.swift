import Coroutine
import CoroutineTesting

/// Coroutines that begin and end in all ways: by themselves, by a cancel at any moment, by a timeout; asleep, in a scope,
/// in blocking work, with a generator half consumed.
struct LifeRound {
  private let pool: ThreadPool
  private let familyCount: Int
  private let seed: UInt64

  private static var childCount: Int { 12 }

  init(on pool: ThreadPool, families: Int, seed: UInt64) {
    self.pool = pool
    familyCount = families
    self.seed = seed
  }

  func run() throws -> Soak.Tally {
    let families = (0..<familyCount).map { number in
      Coroutine(on: pool) { [seed] () throws -> Int in
        var random = SplitMix(seed: seed &+ 0x1_0000 &+ UInt64(number))
        return try Self.live(&random)
      }
    }
    var tally = Soak.Tally()
    for family in families {
      let ended = try family.getBlocking()
      tally.operations += ended
      if ended != Self.childCount { tally.problem = "\(ended) of \(Self.childCount) children have ended" }
    }
    return tally
  }

  /// Returns how many children have ended, each in its way.
  private static func live(_ random: inout SplitMix) throws -> Int {
    var ended = 0
    for _ in 0..<childCount {
      let delay = Duration.microseconds(Int.random(in: 0...500, using: &random))
      switch Int.random(in: 0..<6, using: &random) {
      case 0:
        try Coroutine.sleep(for: delay)
        ended += 1
      case 1:
        let sleeper = Coroutine { try Coroutine.sleep(for: .seconds(3600)) }
        try Coroutine.sleep(for: delay)
        try sleeper.cancelAndJoin()
        ended += 1
      case 2:
        if try withTimeoutOrNil(delay, { try Coroutine.sleep(for: .seconds(3600)) }) == nil { ended += 1 }
      case 3:
        let sum = try withScope { scope -> Int in
          let parts = (1...4).map { part in scope.launch { part } }
          return try parts.reduce(0) { $0 + (try $1.get()) }
        }
        if sum == 10 { ended += 1 }
      case 4:
        let numbers = Generator<Int> { yield in
          for number in 1... { try yield(number) }
        }
        if numbers.prefix(5).reduce(0, +) == 15 { ended += 1 }
      default:
        if try blocking({ 7 }) == 7 { ended += 1 }
      }
    }
    return ended
  }
}
