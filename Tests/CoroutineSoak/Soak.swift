import Coroutine
import CoroutineTesting
import Glibc

/// Rounds of load, each of random operations at the same channels.
struct Soak {
  /// How long it goes on.
  enum Length {
    case time(Duration)
    case rounds(Int)

    /// What has passed of it.
    func share(_ passed: Duration, _ rounds: Int) -> Double {
      switch self {
      case .time(let whole): passed / whole
      case .rounds(let whole): Double(rounds) / Double(whole)
      }
    }
  }

  private let pool = ThreadPool(threads: 4)
  private let channels: [Channel<Int>]
  private let seed: UInt64

  /// How many coroutines use the channels at the same time.
  private let userCount: Int
  private static var operationsOfUser: Int { 40 }
  /// Of these operations that many are for an element to be received. A 24th always sends one: `trySend` at channels without a
  /// bound, of which each fourth is one. What is sent is received, at the latest at the round's end.
  private static var operationsOfElement: Int { 40 }
  /// The memory that the process may have more at the end than after the first quarter, in bytes: what `malloc` keeps
  /// differs from round to round.
  private let mostGrowth: Int

  init(channelCount: Int, userCount: Int, mostGrowth: Int, seed: UInt64) {
    channels = (0..<channelCount).map { number in
      let capacities: [ChannelCapacity] = [.rendezvous, .buffered(1), .buffered(16), .unbounded]
      return Channel(capacity: capacities[number % capacities.count])
    }
    self.userCount = userCount
    self.mostGrowth = mostGrowth
    self.seed = seed
  }

  /// Returns whether everything was right.
  ///
  /// - Parameter looksAtMemory: false where a sanitizer keeps memory that was given back.
  func run(for length: Length, looksAtMemory: Bool = true) throws -> Bool {
    let start = ContinuousClock.now
    var isRight = true
    var round = 0
    var total = Tally()
    /// The most that the process had in the first quarter, and in the last one.
    var (early, late) = (0, 0)
    var share: Double
    repeat {
      let roundSeed = seed &+ UInt64(round) << 32
      let tally = try pass(roundSeed)
      let lives = try LifeRound(on: pool, families: userCount / 10, seed: roundSeed).run()
      round += 1
      share = length.share(ContinuousClock.now - start, round)
      let resident = Self.residentBytes
      if share <= 0.25 || round <= 2 { early = max(early, resident) }
      if share > 0.75 { late = max(late, resident) }  // so in the last round
      total.operations += tally.operations + lives.operations
      total.elements += tally.elements
      if let problem = tally.problem ?? lives.problem {
        isRight = false
        print("FAILED: seed \(seed), round \(round): \(problem)")
      } else {
        print("round \(round), seed \(seed): \(total.operations) operations, \(resident >> 10) KiB")
      }
      fflush(nil)
    } while share < 1
    // A few rounds are not enough to tell growth from what each pool and each arena takes once.
    let comparesMemory = looksAtMemory && round > 8
    if comparesMemory, late - early > mostGrowth {
      isRight = false
      print("FAILED: seed \(seed): the process has grown from \(early >> 10) to \(late >> 10) KiB")
    }
    print(
      "\(round) rounds, \(total.operations) operations, \(total.elements) elements, \(early >> 10) KiB at first, "
        + "\(late >> 10) KiB at the end\(comparesMemory ? "" : ", not compared")")
    return isRight
  }

  struct Tally {
    var operations = 0
    /// How many were received.
    var elements = 0
    var problem: String?
  }

  // MARK: Channels

  /// Random operations at random channels. Then what is left in them: all that was sent must have been received, once.
  private func pass(_ seed: UInt64) throws -> Tally {
    let users = (0..<userCount).map { number in
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
      total.elements += sums.elements
    }
    for channel in channels {
      while case .received(let element) = channel.tryReceive() {
        total.received &+= element
        total.elements += 1
      }
    }
    var tally = Tally(operations: total.operations, elements: total.elements)
    let least = total.operations / Self.operationsOfElement
    if total.elements < least { tally.problem = "\(total.elements) elements were received, fewer than \(least)" }
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
