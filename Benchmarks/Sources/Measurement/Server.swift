// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The other end of a `Worker`: runs the loops of this program on request.
public struct Server {
  private let workloads: [Workload]
  /// Each of the runtime's loops takes this many times its own time, by waiting. Used to show that `make bench-check`
  /// notices a slowdown. 1 otherwise.
  private let slowdown: Double

  public init(_ workloads: [Workload], slowdown: Double = 1) {
    self.workloads = workloads
    self.slowdown = slowdown
  }

  /// Answers the lines of the standard input until it ends.
  public func run() throws {
    while let line = readLine() {
      let request = line.split(separator: "\t").map(String.init)
      let answer = (try? answer(to: request)) ?? "error\tdoes not know \(line)"
      try FileHandle.standardOutput.write(contentsOf: Data((answer + "\n").utf8))
    }
  }

  private func answer(to request: [String]) throws -> String? {
    guard request.count >= 3,
      let workload = workloads.first(where: { $0.name == request[1] }),
      let subject = workload.subjects.first(where: { $0.key == request[2] && $0.read != nil })
    else { return nil }
    switch (request[0], request.count) {
    case ("run", 4): return Int(request[3]).flatMap { run(subject, $0) }
    case ("allocations", 3): return String(subject.allocationsPerOperation())
    case ("path", 3): return String(decoding: try JSONEncoder().encode(subject.path()), as: UTF8.self)
    default: return nil
    }
  }

  private func run(_ subject: Subject, _ operations: Int) -> String? {
    guard let reading = subject.read?(operations) else { return nil }
    var nanoseconds = reading.nanoseconds
    if slowdown > 1, subject.isOurs {
      let start = ContinuousClock.now
      while start.nanosecondsToNow < reading.nanoseconds * (slowdown - 1) {}
      nanoseconds += start.nanosecondsToNow
    }
    let answer = "\(nanoseconds)\t\(reading.computed)"
    return reading.bytes.map { "\(answer)\t\($0)" } ?? answer
  }
}

extension Subject {
  /// One run in this process, whose result must be right.
  func checkedRead(_ operations: Int) -> Reading {
    guard let reading = read?(operations) else { fatalError("\(system) is in another program") }
    let expected = expecting(operations)
    guard reading.computed == expected else {
      fatalError("\(system): \(operations) operations computed \(reading.computed) instead of \(expected)")
    }
    return reading
  }

  /// The difference between runs of two lengths, so that what a run allocates once, whatever its length, is not
  /// counted. Some runs also allocate for something else, such as a thread of the system's that begins meanwhile. So
  /// it is the least of up to six differences.
  func allocationsPerOperation() -> Double {
    let short = granularity * Swift.max(1, 1000 / granularity)
    // Pools fill and tables grow in the first runs.
    for _ in 0..<2 { _ = checkedRead(2 * short) }
    var least = Double.infinity
    for _ in 0..<6 where least != 0 {
      let counts = [short, 2 * short].map { operations in Allocations.counted { _ = checkedRead(operations) } }
      let difference = Double(counts[1] - counts[0]) / Double(short)
      if abs(difference) < abs(least) { least = difference }
    }
    return least
  }
}
