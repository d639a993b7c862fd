import Foundation

/// A workload's figures on a number of processors.
public struct Comparison {
  public let workload: String
  public let cores: Int
  public let entries: [Entry]

  /// The figures of one contender.
  public struct Entry {
    public let system: String
    public let backend: String?
    public let role: Role
    /// Nanoseconds for each operation, one value a round. Empty if it could not run.
    let times: [Double]
    let bytes: Double?
    /// Blocks allocated for each operation, on all threads. `nil` where they were not counted.
    let allocations: Double?
    /// What one operation does. `nil` where it was not asked for, or cannot be known.
    let path: Path?
    /// Why there are no figures.
    let missing: String?

    /// For people.
    public var title: String { backend.map { "\(system) [\($0)]" } ?? system }
    var distribution: Distribution? { times.isEmpty ? nil : Distribution(times) }
  }

  /// The fastest of what one would use instead.
  var bestPeer: Entry? {
    entries.filter { $0.role == .peer && !$0.times.isEmpty }
      .min { Distribution($0.times).median < Distribution($1.times).median }
  }

  /// One's time as a multiple of another's in the same round. `nil` if one of them could not run.
  func ratio(of entry: Entry, to reference: Entry) -> Distribution? {
    guard !entry.times.isEmpty, entry.times.count == reference.times.count else { return nil }
    return Distribution(zip(entry.times, reference.times).map { $0 / $1 })
  }
}

extension Programs {
  /// Measures a workload: all contenders in turn, several times. What disturbs the machine for a while disturbs them alike,
  /// and the ratio of two of them is taken within each round.
  ///
  /// - Parameter backends: those whose builds of the runtime are measured.
  func compare(
    _ workload: Workload, cores: Int, _ effort: Effort, backends: [String] = Self.backends
  ) throws -> (Comparison, brokenPromises: [String]) {
    var contenders = workload.subjects.flatMap { subject in
      let builds: [String?] = subject.role == .runtime ? backends : [subject.backend]
      return builds.map { Contender(workload, subject, backend: $0) }
    }
    var workers = Workers(programs: self, cores: cores)
    defer { workers.endAll() }
    for index in contenders.indices { try contenders[index].prepare(&workers, effort) }
    for round in 0..<effort.rounds(of: workload.extent) {
      // To and fro, so that each pair runs in both orders.
      let order = round.isMultiple(of: 2) ? Array(contenders.indices) : contenders.indices.reversed()
      for index in order { try contenders[index].takeTurn(&workers) }
    }
    let broken = contenders.flatMap { contender in
      contender.broken.map { "\(workload.name): \(contender.entry.title) \($0)" }
    }
    return (Comparison(workload: workload.name, cores: cores, entries: contenders.map(\.entry)), broken)
  }
}

/// The programs that run for one comparison: each at most once, and afterwards none, since what one workload keeps in
/// memory must not be there when the next is measured.
private struct Workers {
  let programs: Programs
  let cores: Int
  private var running: [URL: Worker] = [:]

  init(programs: Programs, cores: Int) {
    self.programs = programs
    self.cores = cores
  }

  mutating func worker(for file: URL) throws -> Worker {
    if let worker = running[file] { return worker }
    let worker = try Worker(file, cores: cores)
    running[file] = worker
    return worker
  }

  mutating func endAll() {
    for worker in running.values { worker.end() }
    running = [:]
  }
}

/// A subject in one of the programs, on its way through the rounds.
private struct Contender {
  private let workload: Workload
  private let subject: Subject
  private let backend: String?
  private var file: URL?
  private var operations = 0
  private var times: [Double] = []
  private var bytes: [Double] = []
  private var allocations: Double?
  private var path: Path?

  init(_ workload: Workload, _ subject: Subject, backend: String?) {
    self.workload = workload
    self.subject = subject
    self.backend = backend
  }

  /// Counts, where counting is asked for, and finds out how much one run does.
  mutating func prepare(_ workers: inout Workers, _ effort: Effort) throws {
    let build = subject.role == .runtime ? backend ?? "" : Programs.backends[0]
    file = workers.programs.file(of: subject.program, backend: build)
    if subject.role == .backend, backend == "Boost" {
      // Boost's library is in the first build only if it could be linked, and so has a build of its own.
      file = workers.programs.file(of: .runtime, backend: "Boost") == nil ? nil : file
    }
    guard let file else { return }
    switch workload.extent {
    case .fixedInNewProcess(let operations, _, _): self.operations = operations
    case .fixed(let operations, _, let warmUp, _, _):
      self.operations = operations
      _ = try workers.worker(for: file).read(workload, subject, warmUp)
    case .calibrated:
      let worker = try workers.worker(for: file)
      // On several processors it depends on the moment who waits for whom, and who waits may allocate.
      if workers.cores == 1, subject.role == .runtime || subject.role == .backend {
        allocations = try worker.allocations(workload, subject)
        // On Ucontext every switch calls the C library and the kernel, in far more steps than it is worth to count.
        if !subject.promises.isDisjoint(with: [.noCallOut, .noLock]), backend != "Ucontext" {
          path = try worker.path(workload, subject)
        }
      }
      operations = try operations(taking: effort.nanoseconds, worker)
    }
  }

  /// How many operations take at least so long. Also warms up.
  private func operations(taking nanoseconds: Double, _ worker: Worker) throws -> Int {
    var operations = subject.granularity
    while true {
      let time = try worker.read(workload, subject, operations).nanoseconds
      if time >= nanoseconds { return operations }
      // At most ten times as many at once: the first runs say little.
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
    case .calibrated: reading = try workers.worker(for: file).read(workload, subject, operations)
    case .fixed(_, let count, _, _, _):
      reading = try workers.worker(for: file).read(workload, subject, operations)
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
    let missing = file == nil ? "missing: \(subject.program.reasonMissing(backend: backend))" : nil
    return Comparison.Entry(
      system: subject.system, backend: backend, role: subject.role, times: times,
      bytes: bytes.isEmpty ? nil : Distribution(bytes).median, allocations: allocations, path: path, missing: missing)
  }

  /// The promises that were not kept, for people.
  var broken: [String] {
    var broken: [String] = []
    if subject.promises.contains(.noAllocation), let allocations, allocations != 0 {
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
