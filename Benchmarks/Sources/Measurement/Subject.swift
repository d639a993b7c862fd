/// One way to do some work: a loop that can be run with any number of operations, in a program of its own.
public struct Subject {
  /// What does the work: "Generator, for … in", "Go, runtime.Gosched".
  public let system: String
  /// The context backend that it runs on, if it runs on one.
  public let backend: String?
  /// What it stands for in a comparison.
  public let role: Role
  /// The program that has the loop.
  public let program: Program
  /// What it must keep: a run in which it does not is a failed one.
  public let promises: Promises
  /// The number of operations is a multiple of this.
  public let granularity: Int
  /// Those with the same one run in the same process.
  public private(set) var process = ""
  /// The system of the same workload, on the same backend, whose time is 1 instead of the best peer's.
  public private(set) var comparedWith: String?
  /// Whether the quick form leaves it out, as it takes too long.
  private(set) var isInFullFormOnly = false
  /// Whether its instructions are counted though it promises nothing of them.
  private var isCounted = false
  /// What a run of so many operations must have computed.
  let expecting: (Int) -> Int
  /// Runs so many operations. `nil` where the loop is in another language.
  let read: ((Int) -> Reading)?

  /// A loop in Swift.
  ///
  /// - Parameter loop: runs so many operations and returns what it computed. It is timed as a whole.
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
  /// - Parameter reading: runs so many operations and times the part that counts: for loops that run elsewhere, in a task
  ///   or a coroutine, whose start is no part of the work.
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

  /// A peer in another language, whose program knows the loop by the workload's name and this one.
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

  /// The same in a process of its own, or of its like: for what a process has to be prepared for.
  public func running(in process: String, comparedWith other: String? = nil) -> Subject {
    var changed = self
    changed.process = process
    changed.comparedWith = other
    return changed
  }

  /// The same, which the quick form names as left out.
  public func inFullFormOnly() -> Subject {
    var changed = self
    changed.isInFullFormOnly = true
    return changed
  }

  /// The same, whose instructions are counted, for who wants to know. For loops that are timed by `Reading.timed` and stay
  /// on one thread, with what they wait for.
  public func counted() -> Subject {
    var changed = self
    changed.isCounted = true
    return changed
  }

  /// Whether it is what is measured, and not what it is measured beside.
  var isOurs: Bool { role == .runtime || role == .backend }

  /// Whether it is to be stepped through. Not the runtime on Ucontext, each of whose switches calls the C library and the
  /// kernel, which is another promise than the one that the loop gives.
  func wantsPath(on backend: String?) -> Bool {
    guard program == .runtime, role != .runtime || backend != "Ucontext" else { return false }
    return isCounted || promises.speakOfPath
  }

  /// How the programs call it: its system, and the backend where the same program has it on several.
  var key: String { role == .backend ? "\(system) [\(backend ?? "")]" : system }
}

/// What a subject stands for in a comparison.
public enum Role: String, Sendable {
  /// The runtime: one contender for each build of it, one a backend.
  case runtime
  /// A context backend without the runtime: all of them in one process.
  case backend
  /// What one would use instead. The fastest one's time is 1 in the ratios.
  case peer
  /// Code that can't do the same, a loop or a recursion written out by hand: what the work costs without suspending.
  case plain
}

/// A program that has loops to measure.
public enum Program: String, CaseIterable, Sendable {
  /// This one, once for each backend. The first build also has what is in Swift and not ours.
  case runtime
  case go
  case cxx = "cxx20"
  case boostContext = "boost-context"
  case boostFiber = "boost-fiber"

  /// Why it is not there, with what to install for it by the names of Debian's packages.
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

/// What the path of one operation must be free of. It is counted, not timed: nothing else can hold a zero.
public struct Promises: OptionSet, Sendable {
  public let rawValue: Int

  public init(rawValue: Int) {
    self.rawValue = rawValue
  }

  /// No block is allocated, on any thread.
  public static let noAllocation = Promises(rawValue: 1)
  /// No instruction outside the program and a few libraries: no call of Dispatch, of the C library, of the kernel. For
  /// loops that are timed by `Reading.timed` and stay on one thread.
  public static let noCallOut = Promises(rawValue: 2)
  /// No atomic change, so no lock, and no reference counted. Loops as above.
  public static let noLock = Promises(rawValue: 4)

  /// Whether one has to count instructions to see them kept.
  var speakOfPath: Bool { !isDisjoint(with: [.noCallOut, .noLock]) }

  /// No more than one block in a hundred operations: what grows now and then, when a run is longer or more wait than ever
  /// before, and none for an operation of its own.
  public static let hardlyAnyAllocation = Promises(rawValue: 8)

  /// Whether one has to count blocks to see them kept.
  var speakOfAllocations: Bool { !isDisjoint(with: [.noAllocation, .hardlyAnyAllocation]) }

  /// How the names of these few libraries begin: the one that counts references, and the one that switches for the Boost
  /// backend.
  static let allowed = ["libswiftCore.so", "libboost_context."]
}
