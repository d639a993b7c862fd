import CMeasurement

/// How much is measured.
public struct Effort: Sendable {
  /// How often each subject runs.
  public let rounds: Int
  /// What one run should take at least.
  public let nanoseconds: Double

  public static let quick = Effort(rounds: 31, nanoseconds: 8e6)
  public static let full = Effort(rounds: 101, nanoseconds: 20e6)
}

/// A subject's figures.
struct Measured {
  let subject: Subject
  /// Nanoseconds for each operation, one value a round.
  let times: Distribution
  /// Its time as a multiple of the reference's in the same round. `nil` without a reference.
  let ratio: Distribution?
  /// Blocks allocated for each operation, on all threads.
  let allocations: Double
  /// What one operation does. `nil` where it was not asked for, or cannot be known.
  let path: Path?
}

extension Measured {
  /// The promises of its subject that were not kept, for people.
  var broken: [String] {
    var broken: [String] = []
    if subject.promises.contains(.noAllocation), allocations != 0 {
      broken.append("allocates \(allocations) blocks an operation")
    }
    guard let path else { return broken }
    if subject.promises.contains(.noCallOut) {
      let others = path.inLibraries.filter { library in !Promises.allowed.contains { library.key.hasPrefix($0) } }
      if !others.isEmpty { broken.append("executes instructions of \(others.keys.sorted().joined(separator: ", "))") }
      if path.systemCalls != 0 { broken.append("makes \(path.systemCalls) system calls an operation") }
    }
    if subject.promises.contains(.noLock), path.locking != 0 {
      broken.append("makes \(path.locking) atomic changes an operation")
    }
    return broken
  }
}

extension Workload {
  /// Runs all subjects in turn, several times: what disturbs the machine for a while disturbs them alike, and the ratio of
  /// two of them is taken within each round.
  func measured(_ effort: Effort) -> [Measured] {
    let allocations = subjects.map { $0.allocationsPerOperation() }
    let paths = subjects.map { $0.promises.isDisjoint(with: [.noCallOut, .noLock]) ? nil : $0.path() }
    let operations = subjects.map { $0.operations(taking: effort.nanoseconds) }
    var times = [[Double]](repeating: [], count: subjects.count)
    for round in 0..<effort.rounds {
      // To and fro, so that each pair runs in both orders.
      let order = round.isMultiple(of: 2) ? Array(subjects.indices) : subjects.indices.reversed()
      for index in order {
        let reading = subjects[index].checkedRead(operations[index])
        times[index].append(reading.nanoseconds / Double(operations[index]))
      }
    }
    return subjects.indices.map { index in
      let reference = subjects[index].comparedWith.flatMap { name in subjects.firstIndex { $0.system == name } }
      return Measured(
        subject: subjects[index], times: Distribution(times[index]),
        ratio: reference.map { Distribution(zip(times[index], times[$0]).map { $0.0 / $0.1 }) },
        allocations: allocations[index], path: paths[index])
    }
  }
}

extension Subject {
  /// One run, whose result must be the right one.
  func checkedRead(_ operations: Int) -> Reading {
    let reading = read(operations)
    let expected = expecting(operations)
    guard reading.computed == expected else {
      fatalError("\(system): \(operations) operations computed \(reading.computed) instead of \(expected)")
    }
    return reading
  }

  /// How many operations take at least so long. Also warms up.
  func operations(taking nanoseconds: Double) -> Int {
    var operations = granularity
    while true {
      let time = checkedRead(operations).nanoseconds
      if time >= nanoseconds { return operations }
      // At most ten times as many at once: the first runs say little.
      let factor = Swift.min(10, nanoseconds / Swift.max(time, 1) * 1.2)
      let next = Int(Double(operations) * factor) / granularity * granularity
      operations = Swift.max(operations + granularity, next)
    }
  }

  /// The difference between runs of two lengths: what a run allocates once, whatever its length, is not counted.
  func allocationsPerOperation() -> Double {
    let short = granularity * Swift.max(1, 1000 / granularity)
    // Pools fill and tables grow in the first runs.
    for _ in 0..<2 { _ = checkedRead(2 * short) }
    let counts = [short, 2 * short].map { operations in
      allocations_start()
      _ = checkedRead(operations)
      return Double(allocations_stop())
    }
    return (counts[1] - counts[0]) / Double(short)
  }
}
