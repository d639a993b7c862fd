import Coroutine
import CoroutineTesting

/// One step of a worker. Numbers name channels, promises and workers; limits are microseconds, `nil` for none.
enum Operation: Sendable {
  case send(Int, within: Int?)
  /// By the form that gives the element back.
  case offer(Int, within: Int?)
  case trySend(Int)
  case receive(Int, within: Int?)
  case receiveTwo(Int)
  case tryReceive(Int)
  case select([Case], within: Int?)
  /// The same, but without waiting.
  case selectNow([Case])
  case close(Int)
  case cancel(Int)
  case launch(Int)
  /// Launches a worker, and drops the handle.
  case launchAndDrop(Int)
  case join(Int, within: Int?)
  indirect case lock(Operation)
  indirect case permit(Operation)
  indirect case timeout(Int, Operation)
  case sleep(Int)
  case yield
  case fail
  case fulfill(Int)
  case dropResolver(Int)
  case await(Int, within: Int?)
  /// Takes some elements of a generator, and drops it.
  case generate(Int)
  /// Bytes to and from the pipe, if there is one.
  case write(Int)
  case read(Int, within: Int?)
  case closeWriter

  enum Case: Sendable {
    case receive(Int)
    case send(Int)
    case permit
    case await(Int)
  }
}

/// Some workers, which are coroutines, and what each does. All of it comes from a seed.
struct Program: Sendable {
  private(set) var capacities: [ChannelCapacity] = []
  let permits: Int
  private(set) var workers: [[Operation]] = []
  let hasPipe: Bool
  /// How many of them begin by themselves.
  let launched: Int
  /// How many operations there were before some were left out.
  private(set) var length = 0

  static let promises = 2
  static let mostWorkers = 6
  static let mostChannels = 3

  /// - Parameter without: the numbers of operations that are left out, to make a program that fails shorter.
  init(seed: UInt64, without: Set<Int> = []) {
    var random = SplitMix(seed: seed)
    let count = 2 + random.next(below: Self.mostWorkers - 1)
    let channels = 1 + random.next(below: Self.mostChannels)
    permits = 1 + random.next(below: 2)
    launched = 1 + random.next(below: count)
    hasPipe = random.next(below: 4) == 0
    let all: [ChannelCapacity] = [
      .rendezvous, .rendezvous, .buffered(1), .buffered(1), .buffered(3), .unbounded, .conflated, .newest(2),
    ]
    for _ in 0..<channels { capacities.append(all[random.next(below: all.count)]) }
    for _ in 0..<count {
      var operations: [Operation] = []
      for _ in 0..<2 + random.next(below: 7) {
        let operation =
          hasPipe && random.next(below: 4) == 0
          ? Self.pipeOperation(&random)
          : Self.operation(&random, channels: channels, workers: count)
        if !without.contains(length) { operations.append(operation) }
        length += 1
      }
      workers.append(operations)
    }
  }

  private static func operation(_ random: inout SplitMix, channels: Int, workers: Int) -> Operation {
    let (worker, promise) = (random.next(below: workers), random.next(below: promises))
    switch random.next(below: 40) {
    case 0...1: return .cancel(worker)
    case 2...3: return .launch(worker)
    case 4: return .launchAndDrop(worker)
    case 5: return .join(worker, within: limit(&random))
    case 6...8: return .lock(inner(&random, channels))
    case 9...11: return .permit(inner(&random, channels))
    case 12...13: return .timeout(1 + random.next(below: 300), inner(&random, channels))
    case 14: return .sleep(random.next(below: 300))
    case 15: return .fail
    case 16: return .fulfill(promise)
    case 17: return .dropResolver(promise)
    case 18: return .await(promise, within: limit(&random))
    case 19: return .generate(random.next(below: 4))
    case 20...25: return .select(cases(&random, channels), within: limit(&random))
    case 26: return .selectNow(cases(&random, channels))
    default: return inner(&random, channels)
    }
  }

  private static func pipeOperation(_ random: inout SplitMix) -> Operation {
    switch random.next(below: 10) {
    case 0: .closeWriter
    case 1...4: .write(1 + random.next(below: 3))
    default: .read(1 + random.next(below: 3), within: limit(&random))
    }
  }

  /// One that may also stand inside of another.
  private static func inner(_ random: inout SplitMix, _ channels: Int) -> Operation {
    let channel = random.next(below: channels)
    switch random.next(below: 20) {
    case 0: return .yield
    case 1: return .close(channel)
    case 2...3: return .trySend(channel)
    case 4...5: return .tryReceive(channel)
    case 6: return .receiveTwo(channel)
    case 7...10: return .send(channel, within: limit(&random))
    case 11...13: return .offer(channel, within: limit(&random))
    default: return .receive(channel, within: limit(&random))
    }
  }

  private static func limit(_ random: inout SplitMix) -> Int? {
    random.next(below: 3) == 0 ? random.next(below: 300) : nil
  }

  /// At most one case at each channel: a select that both sends and receives there may wait beside one like it.
  private static func cases(_ random: inout SplitMix, _ channels: Int) -> [Operation.Case] {
    var cases: [Operation.Case] = []
    for channel in 0..<channels where random.next(below: 4) > 0 {
      cases.append(random.next(below: 2) == 0 ? .receive(channel) : .send(channel))
    }
    if random.next(below: 5) == 0 { cases.append(.permit) }
    if random.next(below: 5) == 0 { cases.append(.await(random.next(below: promises))) }
    return cases.isEmpty ? [.receive(0)] : cases
  }

  /// A line for each worker that does something.
  var lines: [String] {
    let pipe = hasPipe ? ", a pipe" : ""
    let capacities = capacities.map { Self.short($0) }.joined(separator: ", ")
    return ["channels \(capacities); \(permits) permits, \(launched) workers begin\(pipe)"]
      + workers.enumerated().filter { !$1.isEmpty }.map { number, operations in
        "worker \(number): " + operations.map { Self.short($0) }.joined(separator: "; ")
      }
  }

  /// Without the names of types.
  private static func short<Value>(_ value: Value) -> String {
    "\(value)".replacing(/Optional\((\d+)\)/) { $0.1 }.replacing(/[A-Z]\w+\./, with: "")
  }
}
