// SPDX-License-Identifier: Apache-2.0

/// One way to do some work: a loop that can run any number of operations, in a program of its own.
public struct Subject {
  /// What does the work: "Generator, for … in", "Go, runtime.Gosched".
  public let system: String
  /// The context backend that it runs on, if any.
  public let backend: String?
  /// Its part in a comparison.
  public let role: Role
  /// The program that has the loop.
  public let program: Program
  /// What it must keep: a run that breaks a promise fails.
  public let promises: Promises
  /// The number of operations must be a multiple of this.
  public let granularity: Int
  /// Subjects with the same name run in the same process.
  public private(set) var process = ""
  /// The system of the same workload, on the same backend, whose time is 1 instead of the best peer's.
  public private(set) var comparedWith: String?
  /// Whether the quick form leaves it out, since it takes too long.
  private(set) var isInFullFormOnly = false
  /// Whether its instructions are counted without a promise about them.
  private var isCounted = false
  /// What a run of that many operations must compute.
  let expecting: (Int) -> Int
  /// Runs that many operations. `nil` if the loop is in another language.
  let read: ((Int) -> Reading)?

  /// A loop in Swift.
  ///
  /// - Parameter loop: runs that many operations and returns what it computed. Its whole time is measured.
  public init(
    _ system: String, backend: String? = nil, role: Role, promises: Promises = [], granularity: Int = 1,
    expecting: @escaping (Int) -> Int = { $0 }, loop: @escaping (Int) -> Int
  ) {
    self.init(
      system, backend: backend, role: role, promises: promises, granularity: granularity, expecting: expecting,
      reading: { operations in Reading.timed { loop(operations) } })
  }

  /// A loop in Swift.
  ///
  /// - Parameter reading: runs that many operations and measures the part that counts. For loops that run in a task
  ///   or a coroutine, whose start is not part of the work.
  public init(
    _ system: String, backend: String? = nil, role: Role, promises: Promises = [], granularity: Int = 1,
    expecting: @escaping (Int) -> Int = { $0 }, reading: @escaping (Int) -> Reading
  ) {
    self.system = system
    self.backend = backend
    self.role = role
    program = .runtime
    self.promises = promises
    self.granularity = granularity
    self.expecting = expecting
    read = reading
  }

  /// A peer in another language. Its program finds the loop by the workload's name and this one.
  public static func peer(
    _ system: String, _ program: Program, granularity: Int = 1, expecting: @escaping (Int) -> Int = { $0 }
  ) -> Subject {
    Subject(foreign: system, program, granularity, expecting)
  }

  private init(foreign system: String, _ program: Program, _ granularity: Int, _ expecting: @escaping (Int) -> Int) {
    self.system = system
    backend = nil
    role = .peer
    self.program = program
    promises = []
    self.granularity = granularity
    self.expecting = expecting
    read = nil
  }

  /// The same in a process named `process`: for work that a process has to be prepared for.
  public func running(in process: String, comparedWith other: String? = nil) -> Subject {
    var changed = self
    changed.process = process
    changed.comparedWith = other
    return changed
  }

  /// The same, which the quick form lists as left out.
  public func inFullFormOnly() -> Subject {
    var changed = self
    changed.isInFullFormOnly = true
    return changed
  }

  /// The same, with its instructions counted for the report. For loops that are timed by `Reading.timed` and stay on
  /// one thread, with all that they wait for.
  public func counted() -> Subject {
    var changed = self
    changed.isCounted = true
    return changed
  }

  /// Whether it is a part of the runtime, and not something beside which that is measured.
  var isOurs: Bool { role == .runtime || role == .backend }

  /// Whether it is stepped through. The runtime on Ucontext is not: each of its switches calls the C library and the
  /// kernel, against the loop's promise.
  func wantsPath(on backend: String?) -> Bool {
    guard program == .runtime, role != .runtime || backend != "Ucontext" else { return false }
    return isCounted || promises.speakOfPath
  }

  /// Its name in the programs' requests: the system, and the backend if one program has it on several.
  var key: String { role == .backend ? "\(system) [\(backend ?? "")]" : system }
}

/// What a subject is in a comparison.
public enum Role: String, Sendable {
  /// The runtime: one contender for each build of it, one a backend.
  case runtime
  /// A context backend without the runtime: all of them in one process.
  case backend
  /// An alternative to the runtime. The fastest one's time is 1 in the ratios.
  case peer
  /// Code that can't do the same, a loop or a recursion written by hand: the cost of the work without suspending.
  case plain
}

/// A program that has loops to measure.
public enum Program: String, CaseIterable, Sendable {
  /// The runtime's program, built once for each backend. The first build also has other code in Swift.
  case runtime
  case go
  case cxx = "cxx20"
  case boostContext = "boost-context"
  case boostFiber = "boost-fiber"

  /// Why the program is missing, and the Debian packages that it needs.
  func reasonMissing(backend: String?) -> String {
    switch self {
    case .runtime: backend == "Boost" ? "needs libboost-context-dev" : "was not built"
    case .go: "needs golang-go"
    case .cxx: "needs g++"
    case .boostContext: "needs g++ libboost-context-dev libboost-coroutine-dev"
    case .boostFiber: "needs g++ libboost-fiber-dev"
    }
  }
}

/// What the path of one operation must not have. It is counted, not timed: a time can't show a zero.
public struct Promises: OptionSet, Sendable {
  public let rawValue: Int

  public init(rawValue: Int) {
    self.rawValue = rawValue
  }

  /// No block is allocated, on any thread.
  public static let noAllocation = Promises(rawValue: 1)
  /// No instruction outside the program and a few libraries: no call of Dispatch, of the C library, of the kernel.
  /// For loops that are timed by `Reading.timed` and stay on one thread.
  public static let noCallOut = Promises(rawValue: 2)
  /// No atomic change, so no lock and no reference counting. For the same loops.
  public static let noLock = Promises(rawValue: 4)

  /// Whether the promises take a count of instructions.
  var speakOfPath: Bool { !isDisjoint(with: [.noCallOut, .noLock]) }

  /// At most one block in a hundred operations. Memory may grow now and then, when a run is longer, or more
  /// coroutines wait than ever before. No operation allocates a block of its own.
  public static let hardlyAnyAllocation = Promises(rawValue: 8)

  /// Whether the promises take a count of blocks.
  var speakOfAllocations: Bool { !isDisjoint(with: [.noAllocation, .hardlyAnyAllocation]) }

  /// The beginnings of these few libraries' names: the one that counts references, and the one that switches for the
  /// Boost backend.
  static let allowed = ["libswiftCore.so", "libboost_context."]
}
