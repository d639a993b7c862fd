import Context
import Coroutine
import CoroutineIO
import CoroutineTesting
import Glibc

/// A run went against the model.
struct ModelViolation: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) { self.description = description }
}

/// One run of a random program: what its workers share, and what the coroutine around them does. That one launches them,
/// waits until no worker can go on, compares what they wait for with what the primitives say, and then helps one of them,
/// until all have ended.
// Unchecked: the lock guards what changes.
final class ProgramRun: @unchecked Sendable {
  let channels: [TestedChannel]
  let mutex: TestedMutex
  let semaphore: TestedSemaphore
  let promises: [Promise<Token>]
  let pipe: CountedPipe?
  let tokens: TokenCount
  let workers: [Worker]
  private let program: Program
  /// The runtime's, which belongs to no thread, and which ThreadSanitizer sees.
  private let lock = Lock()
  private var handles: [Coroutine<Void, any Error>?]
  private var resolvers: [Promise<Token>.Resolver?]

  private init(_ program: Program, _ defect: Defect?, _ tokens: TokenCount) throws {
    self.program = program
    self.tokens = tokens
    channels = program.capacities.enumerated().map { TestedChannel($1, $0, defect) }
    mutex = TestedMutex(defect)
    semaphore = TestedSemaphore(permits: program.permits, defect)
    pipe = program.hasPipe ? try CountedPipe() : nil
    let ends = (0..<Program.promises).map { _ in Promise<Token>.makePromise() }
    promises = ends.map(\.promise)
    handles = program.workers.map { _ in nil }
    resolvers = ends.map(\.resolver)
    workers = program.workers.enumerated().map { Worker($0, $1) }
  }

  /// Runs it, in a coroutine.
  ///
  /// - Parameter patience: how long it waits for what must come: in virtual time, this costs nothing.
  static func perform(_ program: Program, seed: UInt64, _ defect: Defect?, patience: Patience) throws {
    let tokens = TokenCount()
    let run = try ProgramRun(program, defect, tokens)
    try run.run(SplitMix(seed: seed ^ 0x5eed), patience)
    _ = consume run
    // The stacks of coroutines without a handle may be unwound a moment later.
    try patience.wait {
      let left = tokens.live.load(ordering: .acquiring)
      return left == 0 ? nil : "\(left) tokens are left over"
    }
  }

  // MARK: What workers share

  func handle(of worker: Int) -> Coroutine<Void, any Error>? { lock.withLock { handles[worker] } }

  func resolver(of promise: Int) -> Promise<Token>.Resolver? { lock.withLock { resolvers[promise] } }

  func dropResolver(of promise: Int) {
    // Its end calls the waiters: not under the lock.
    let last = lock.withLock { resolvers[promise].take() }
    withExtendedLifetime(last) {}
  }

  func launch(_ number: Int, isDropped: Bool = false) {
    let worker = workers[number]
    guard !worker.isLaunched.exchange(true, ordering: .acquiringAndReleasing) else { return }
    if isDropped {
      // Its body begins in any case: it is the only one to say that it has ended.
      _ = Coroutine<Void, any Error>(start: .atomic) { try worker.live(in: self, isDropped: true) }
    } else {
      let handle = Coroutine { try worker.live(in: self, isDropped: false) }
      lock.withLock { handles[number] = handle }
    }
  }

  // MARK: The run

  private func run(_ random: SplitMix, _ patience: Patience) throws {
    var helper = Helper(self, random)
    for number in 0..<program.launched { launch(number) }
    var progress = -1
    while true {
      let rest = try comeToRest(from: progress, helper.latest, patience)
      if rest.isOver { break }
      progress = helper.help(rest) ? rest.progress : -1
    }
    for number in workers.indices {
      guard let handle = handle(of: number) else { continue }
      do { try handle.join(timeout: patience.limit) } catch is TimeoutError {
        throw ModelViolation("the end of worker \(number) has woken no joiner")
      }
    }
    for worker in workers { worker.forget() }
    for number in channels.indices { helper.closeAndEmpty(number) }
    if let problem = try pipe?.finalProblem() { throw ModelViolation(problem) }
    let dropping = program.capacities.indices.filter { number in
      switch program.capacities[number] {
      case .conflated, .newest: true
      default: false
      }
    }
    let final = FinalAccount(
      accounts: workers.map(\.account) + [helper.own.account], dropping: Set(dropping), guardedCount: mutex.count,
      channelCount: channels.count)
    if let problem = final.problem { throw ModelViolation(problem) }
    if semaphore.semaphore.available != program.permits {
      throw ModelViolation("\(semaphore.semaphore.available) of \(program.permits) permits are free at the end")
    }
  }

  /// Waits until no worker can go on, and checks that none should.
  ///
  /// - Parameter progress: how far the workers had come before the latest help, by which one goes on.
  private func comeToRest(from progress: Int, _ help: String, _ patience: Patience) throws -> Rest {
    var found: Rest?
    var looks = 0
    try patience.wait {
      looks += 1
      // The poller's thread may have taken an event, and be about to tell: in real time, whatever time the run has.
      if patience.isVirtual, looks > 10, pipe != nil { usleep(200 * UInt32((looks - 10) * (looks - 10))) }
      guard let rest = Rest(of: self) else { return "\(help): the workers do not come to rest" }
      found = rest
      if rest.progress == progress { return "\(help): no worker has gone on" }
      return rest.problem(in: self, permits: program.permits).map { "\(help): \($0)" }
    }
    return found!
  }
}

/// How long a run waits for what must come.
struct Patience: Sendable {
  /// How often it looks, and how long it sleeps before.
  let looks: Int
  let pause: Duration
  let isVirtual: Bool

  var limit: Duration { pause * looks }

  /// In virtual time, which passes when no coroutine can go on, or at any moment.
  static let virtual = Patience(looks: 60, pause: .seconds(1), isVirtual: true)
  static let real = Patience(looks: 40_000, pause: .microseconds(500), isVirtual: false)

  /// Waits until `problem` returns `nil`.
  func wait(_ problem: () -> String?) throws {
    var latest: String?
    for _ in 0..<looks {
      try Coroutine.sleep(for: pause)
      // Where the time passes at any moment, the others need a turn.
      Coroutine.yield()
      latest = problem()
      if latest == nil { return }
    }
    throw ModelViolation(latest ?? "")
  }
}
