// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The figures of a workload on a number of processors.
public struct Comparison {
  public let workload: String
  public let cores: Int
  public let entries: [Entry]

  /// The figures of one contender.
  public struct Entry {
    public let system: String
    public let backend: String?
    public let role: Role
    /// The system on the same backend whose time is 1. `nil`: the best peer's time is 1.
    let comparedWith: String?
    /// Nanoseconds per operation, one value per round. Empty if it could not run.
    let times: [Double]
    let bytes: Double?
    /// Blocks allocated per operation, on all threads. `nil` where they were not counted.
    let allocations: Double?
    /// What one operation does. `nil` where it was not counted, or cannot be known.
    let path: Path?
    /// Why there are no figures.
    let missing: String?

    /// The name for people.
    public var title: String { backend.map { "\(system) [\($0)]" } ?? system }
    var distribution: Distribution? { times.isEmpty ? nil : Distribution(times) }
  }

  /// The fastest of the alternatives.
  var bestPeer: Entry? {
    entries.filter { $0.role == .peer && !$0.times.isEmpty }
      .min { Distribution($0.times).median < Distribution($1.times).median }
  }

  /// The entry whose time is 1 beside the given one.
  func reference(of entry: Entry) -> Entry? {
    guard let other = entry.comparedWith else { return bestPeer }
    return entries.first { $0.system == other && $0.backend == entry.backend }
  }

  /// One entry's time as a multiple of another's in the same round. `nil` if one of them could not run.
  func ratio(of entry: Entry, to reference: Entry) -> Distribution? {
    guard !entry.times.isEmpty, entry.times.count == reference.times.count else { return nil }
    return Distribution(zip(entry.times, reference.times).map { $0 / $1 })
  }
}

extension Programs {
  /// Measures a workload: all contenders in turn, several times. So what disturbs the machine for a while disturbs
  /// all of them, and the ratio of two is taken within each round.
  ///
  /// - Parameters:
  ///   - backends: the backends whose builds of the runtime are measured.
  ///   - onlyPromised: whether to count only what is promised.
  func compare(
    _ workload: Workload, cores: Int, _ effort: Effort, backends: [String] = Self.backends, onlyPromised: Bool = false
  ) throws -> (Comparison, brokenPromises: [String]) {
    var contenders = contenders(workload, backends)
    if !effort.isFull { for index in contenders.indices { contenders[index].leaveOutIfLong() } }
    var workers = Workers(programs: self, cores: cores)
    defer { workers.endAll() }
    for index in contenders.indices { try contenders[index].prepare(&workers, effort, onlyPromised) }
    let start = ContinuousClock.now
    for round in 0..<effort.rounds(of: workload.extent) {
      if workload.extent.isCalibrated, round >= effort.fewestRounds, .now - start > effort.patience { break }
      // To and fro, so that each pair runs in both orders.
      let order = round.isMultiple(of: 2) ? Array(contenders.indices) : contenders.indices.reversed()
      for index in order { try contenders[index].takeTurn(&workers) }
    }
    let entries = contenders.map(\.entry)
    return (Comparison(workload: workload.name, cores: cores, entries: entries), contenders.flatMap(\.broken))
  }

  /// Counts what a workload's subjects promise to do without. Measures no times.
  ///
  /// - Returns: how many subjects were checked, and the broken promises, for people.
  func count(
    _ workload: Workload, without known: Set<String>
  ) throws -> (counted: Int, brokenPromises: [String]) {
    var contenders = contenders(workload, Self.backends).filter { !known.contains($0.entry.title) }
    var workers = Workers(programs: self, cores: 1)
    defer { workers.endAll() }
    for index in contenders.indices { try contenders[index].count(&workers, onlyPromised: true) }
    return (contenders.count { $0.isCounted }, contenders.flatMap(\.broken))
  }

  private func contenders(_ workload: Workload, _ backends: [String]) -> [Contender] {
    workload.subjects.flatMap { subject in
      let builds: [String?] =
        subject.role == .runtime
        ? backends.filter { workload.backends?.contains($0) ?? true } : [subject.backend]
      return builds.map { Contender(workload, subject, backend: $0, self) }
    }
  }
}

/// The programs that run for one comparison: each at most once, or once for each of the subjects' processes.
/// Afterwards none runs, since what one workload keeps in memory must not be there when the next one is measured.
private struct Workers {
  let programs: Programs
  let cores: Int
  private var running: [Place: Worker] = [:]

  private struct Place: Hashable {
    let file: URL
    let process: String
  }

  init(programs: Programs, cores: Int) {
    self.programs = programs
    self.cores = cores
  }

  mutating func worker(for file: URL, _ process: String) throws -> Worker {
    let place = Place(file: file, process: process)
    if let worker = running[place] { return worker }
    let worker = try Worker(file, cores: cores)
    running[place] = worker
    return worker
  }

  mutating func endAll() {
    for worker in running.values { worker.end() }
    running = [:]
  }
}

/// A subject in one of the programs, during the rounds.
private struct Contender {
  private let workload: Workload
  private let subject: Subject
  private let backend: String?
  /// `nil` if it can't run. `missing` has the reason.
  private var file: URL?
  private var missing: String?
  private var operations = 0
  private var times: [Double] = []
  private var bytes: [Double] = []
  private var allocations: Double?
  private var path: Path?

  init(_ workload: Workload, _ subject: Subject, backend: String?, _ programs: Programs) {
    self.workload = workload
    self.subject = subject
    self.backend = backend
    let build = subject.role == .runtime ? backend ?? "" : Programs.backends[0]
    // Without Boost's library the first build has no Boost backend, and there is no Boost build either.
    let isWithoutBoost =
      subject.role == .backend && backend == "Boost" && programs.file(of: .runtime, backend: "Boost") == nil
    file = isWithoutBoost ? nil : programs.file(of: subject.program, backend: build)
    missing = file == nil ? "missing: \(subject.program.reasonMissing(backend: backend))" : nil
  }

  /// For the quick form.
  mutating func leaveOutIfLong() {
    guard file != nil, subject.isInFullFormOnly else { return }
    file = nil
    missing = "in the full form only, see --full"
  }

  /// Counts, if counting is asked for, and determines how many operations one run has.
  mutating func prepare(_ workers: inout Workers, _ effort: Effort, _ onlyPromised: Bool) throws {
    guard let file else { return }
    switch workload.extent {
    case .fixedInNewProcess(let operations, _, _): self.operations = operations
    case .fixed(let operations, _, let warmUp, _, _):
      self.operations = operations
      // Twice: memory that a program allocates in two runs is kept by the runtime for the third.
      for _ in 1...2 { _ = try workers.worker(for: file, subject.process).read(workload, subject, warmUp) }
    case .calibrated:
      try count(&workers, onlyPromised: onlyPromised)
      operations = try operations(taking: effort.nanoseconds, workers.worker(for: file, subject.process))
    }
  }

  /// Whether anything was counted.
  var isCounted: Bool { allocations != nil || path != nil }

  /// Counts, if counting is asked for.
  mutating func count(_ workers: inout Workers, onlyPromised: Bool) throws {
    // On several processors it is chance which side waits, and a wait may allocate.
    guard let file, workers.cores == 1 else { return }
    let worker = try workers.worker(for: file, subject.process)
    if onlyPromised ? subject.promises.speakOfAllocations : subject.isOurs {
      allocations = try worker.allocations(workload, subject)
    }
    if subject.wantsPath(on: backend), !onlyPromised || subject.promises.speakOfPath {
      path = try worker.path(workload, subject)
    }
  }

  /// How many operations take at least `nanoseconds`. Also warms up.
  private func operations(taking nanoseconds: Double, _ worker: Worker) throws -> Int {
    var operations = subject.granularity
    while true {
      var time = try worker.read(workload, subject, operations).nanoseconds
      // A single run may have been slow because another program had the processor. Then far too few operations would
      // be left.
      for _ in 0..<2 where time >= nanoseconds && operations > subject.granularity {
        time = Swift.min(time, try worker.read(workload, subject, operations).nanoseconds)
      }
      if time >= nanoseconds { return operations }
      // At most ten times as many at once, as the first runs say little.
      let factor = Swift.min(10, nanoseconds / Swift.max(time, 1) * 1.2)
      let next = Int(Double(operations) * factor) / subject.granularity * subject.granularity
      operations = Swift.max(operations + subject.granularity, next)
    }
  }

  mutating func takeTurn(_ workers: inout Workers) throws {
    guard let file else { return }
    let reading: Reading
    var units = operations
    switch workload.extent {
    case .calibrated: reading = try workers.worker(for: file, subject.process).read(workload, subject, operations)
    case .fixed(_, let count, _, _, _):
      reading = try workers.worker(for: file, subject.process).read(workload, subject, operations)
      units = count
    case .fixedInNewProcess:
      let worker = try Worker(file, cores: workers.cores)
      defer { worker.end() }
      reading = try worker.read(workload, subject, operations)
    }
    times.append(reading.nanoseconds / Double(units))
    if let grown = reading.bytes { bytes.append(Double(grown) / Double(units)) }
  }

  var entry: Comparison.Entry {
    Comparison.Entry(
      system: subject.system, backend: backend, role: subject.role, comparedWith: subject.comparedWith, times: times,
      bytes: bytes.isEmpty ? nil : Distribution(bytes).median, allocations: allocations, path: path, missing: missing)
  }

  /// The broken promises, for people.
  var broken: [String] {
    var broken: [String] = []
    if subject.promises.speakOfAllocations, let allocations,
      abs(allocations) > (subject.promises.contains(.noAllocation) ? 0 : 0.01)
    {
      broken.append("allocates \(allocations) blocks an operation")
    }
    if let path, subject.promises.contains(.noCallOut) {
      let others = path.others.keys.sorted()
      if !others.isEmpty { broken.append("executes instructions of \(others.joined(separator: ", "))") }
      if path.systemCalls != 0 { broken.append("makes \(path.systemCalls) system calls an operation") }
    }
    if let path, subject.promises.contains(.noLock), path.locking != 0 {
      broken.append("makes \(path.locking) atomic changes an operation")
    }
    return broken.map { "\(workload.name): \(entry.title) \($0)" }
  }
}
