import Coroutine
import CoroutineTesting
import Glibc

/// Rounds of load, until the time is up.
struct Soak {
  private let pool = ThreadPool(threads: 4)
  private let channels: [Channel<Int>]
  private let seed: UInt64

  /// How many coroutines use the channels at the same time.
  private static var userCount: Int { 2_000 }
  private static var operationsOfUser: Int { 40 }
  /// The memory that the process may have more at the end than after the first quarter of the time, in bytes: what
  /// `malloc` keeps differs from round to round.
  private static var mostGrowth: Int { 16 << 20 }

  init(channelCount: Int, seed: UInt64) {
    channels = (0..<channelCount).map { number in
      let capacities: [ChannelCapacity] = [.rendezvous, .buffered(1), .buffered(16), .unbounded]
      return Channel(capacity: capacities[number % capacities.count])
    }
    self.seed = seed
  }

  /// Returns whether everything was right.
  func run(for duration: Duration) throws -> Bool {
    let start = ContinuousClock.now
    var isRight = true
    var round: UInt64 = 0
    var operations = 0
    /// The most that the process had in the first quarter, and in the last one.
    var (early, late) = (0, 0)
    repeat {
      let roundSeed = seed &+ round << 32
      let tally = try pass(roundSeed)
      let lives = try LifeRound(on: pool, seed: roundSeed).run()
      let share = (ContinuousClock.now - start) / duration
      let resident = Self.residentBytes
      if share <= 0.25 || round < 2 { early = max(early, resident) }
      if share > 0.75 { late = max(late, resident) }
      operations += tally.operations + lives.operations
      if let problem = tally.problem ?? lives.problem {
        isRight = false
        print("FAILED: seed \(seed), round \(round): \(problem)")
      } else {
        print("round \(round), seed \(seed): \(operations) operations, \(resident >> 10) KiB")
      }
      fflush(nil)
      round += 1
    } while ContinuousClock.now - start < duration
    // A few rounds are not enough to tell growth from what each pool and each arena takes once.
    if late - early > Self.mostGrowth, round >= 8 {
      isRight = false
      print("FAILED: seed \(seed): the process has grown from \(early >> 10) to \(late >> 10) KiB")
    }
    print("\(round) rounds, \(operations) operations, \(early >> 10) KiB at first, \(late >> 10) KiB at the end")
    return isRight
  }

  struct Tally {
    var operations = 0
    var problem: String?
  }

  // MARK: Channels

  /// Random operations at random channels. Then what is left in them: all that was sent must have been received, once.
  private func pass(_ seed: UInt64) throws -> Tally {
    let users = (0..<Self.userCount).map { number in
      Coroutine(on: pool) { [channels] () throws -> ChannelUser in
        var user = ChannelUser(of: channels, SplitMix(seed: seed &+ UInt64(number)))
        for _ in 0..<Self.operationsOfUser { try user.operate() }
        return user
      }
    }
    var total = ChannelUser.Sums()
    for user in users {
      let sums = try user.getBlocking().sums
      total.sent &+= sums.sent
      total.received &+= sums.received
      total.operations += sums.operations
    }
    for channel in channels {
      while case .received(let element) = channel.tryReceive() { total.received &+= element }
    }
    var tally = Tally(operations: total.operations)
    if total.sent != total.received { tally.problem = "\(total.sent) was sent, \(total.received) received" }
    return tally
  }

  // MARK: Memory

  /// The anonymous memory that the process has.
  private static var residentBytes: Int {
    guard let file = fopen("/proc/self/statm", "r") else { fatalError("/proc/self/statm can't be read") }
    defer { fclose(file) }
    var fields = [CChar](repeating: 0, count: 256)
    guard fgets(&fields, CInt(fields.count), file) != nil else { return 0 }
    let text = String(decoding: fields.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let pages = text.split(separator: " ").compactMap { Int($0) }
    return pages.count > 2 ? (pages[1] - pages[2]) * Int(getpagesize()) : 0
  }
}
