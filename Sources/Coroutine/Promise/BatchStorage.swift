// SPDX-License-Identifier: Apache-2.0

/// One wait for the ends of several: it has a listener at each, and a lock for their outcomes.
// Unchecked: the lock guards the machine; the rest belongs to the waiter.
final class BatchStorage: Waitable, @unchecked Sendable {
  /// Guarded by the lock.
  @exclusivity(unchecked) private var machine: BatchStateMachine
  private let sources: [any EndingSource]
  private let goal: BatchStateMachine.Goal
  @exclusivity(unchecked) private var listeners: [Listener] = []
  /// Those that would never end, since the code that has to settle them waits for the waiter here: they count as
  /// failed. Constant from `begin` on.
  @exclusivity(unchecked) private var cycles: [Int: any Error] = [:]
  /// Those that had not ended when the waiter was cancelled. The waiter's own.
  @exclusivity(unchecked) private var awaited: Set<Int> = []

  // Unchecked: as its superclass; its own fields are constant.
  private final class Listener: WaitListener, @unchecked Sendable {
    let batch: BatchStorage
    let index: Int

    init(_ batch: BatchStorage, _ index: Int) {
      self.batch = batch
      self.index = index
    }

    override func notify() { batch.noteEnd(of: index) }
  }

  init(_ sources: [any EndingSource], until goal: BatchStateMachine.Goal) {
    self.sources = sources
    self.goal = goal
    machine = BatchStateMachine(sources.count, until: goal)
  }

  /// Suspends the calling coroutine until it is over.
  ///
  /// - Returns: the one that decided by its end; `nil` if all have ended and none did.
  /// - Throws: `CancellationError` if the caller is cancelled before, and nothing would be lost: nothing is stopped then.
  func run(for operation: StaticString) throws(CancellationError) -> Int? {
    let core = CoroutineCore.running(for: operation)
    for source in sources {
      require(source !== core, "\(core.description) waits for its own end among others: it can't come. Leave it out.")
    }
    let noted = noteWaits(of: core)
    // The last one first: it is the last in the graph, too, and found at once.
    defer { for promise in noted.reversed() { promise.noteEndOfWait(of: core) } }
    begin()
    defer { end() }
    var node = WaitNode(.coroutine(.passUnretained(core)))
    let cause = wait(core, .promise, by: &node) {
      machine.wait($0)
    } withdraw: {
      machine.withdraw($0)
    }
    if cause != .event { try keepWhatHasCome() }
    takeOutcomes()
    return decisive
  }

  /// The same for the calling task.
  nonisolated(nonsending) func run() async throws(CancellationError) -> Int? {
    begin()
    defer { end() }
    let cause = await wait {
      WaitNode($0)
    } attempt: {
      machine.wait($0)
    } withdraw: {
      machine.withdraw($0)
    }
    if cause != .event { try keepWhatHasCome() }
    takeOutcomes()
    return decisive
  }

  /// The one that decided by its end. (With the lock: others may still end.)
  private var decisive: Int? { lock.withLock { machine.decisive } }  // litmus: batch-decisive

  /// The waiter is cancelled. Where the outcome of each is needed, those that have come are not lost: the others count
  /// as cancelled.
  private func keepWhatHasCome() throws(CancellationError) {
    let ended = lock.withLock { machine.ended }
    guard goal == .allEnded, ended.contains(true) else { throw CancellationError() }
    awaited = Set(ended.indices.filter { !ended[$0] })
  }

  /// The waiter gets the outcomes, or needs no others than one. Not where it was cancelled before: then the error of one that
  /// fails is still there for another caller, or is reported.
  private func takeOutcomes() {
    for (index, source) in sources.enumerated() where !awaited.contains(index) { source.resultIsTaken() }
  }

  /// Stops all but the one that decided, and returns that one. Without effect on those that have ended.
  @discardableResult
  func stopOthers(than decisive: Int?) -> Int {
    guard let decisive else { fatalError("firstValue(of:) needs one source at least: nothing would ever end first") }
    for (index, source) in sources.enumerated() where index != decisive { source.stop() }
    return decisive
  }

  /// If one has failed: stops the others, and throws its error.
  func throwFailure(of failed: Int?) throws {
    guard let failed, let failure = failure(of: failed) else { return }
    stopOthers(than: failed)
    throw failure
  }

  /// The one that has succeeded. Stops the others, or throws the errors of all.
  func winner(_ decisive: Int?) throws(AllFailed) -> Int {
    guard let decisive else { throw AllFailed(errors: sources.indices.compactMap(failure(of:))) }
    return stopOthers(than: decisive)
  }

  /// How one of them has ended. When all have, or the waiter was cancelled.
  // litmus: batch-outcomes
  func outcome<Value>(_ ending: Ending<Value>, of index: Int) -> Result<Value, any Error> {
    if awaited.contains(index) { return .failure(CancellationError()) }
    return cycles[index].map { .failure($0) } ?? ending.outcome
  }

  private func failure(of index: Int) -> (any Error)? { cycles[index] ?? sources[index].failure }

  /// The coroutine begins to wait for all of them. Returns those that record the wait.
  private func noteWaits(of core: CoroutineCore) -> [PromiseCore] {
    guard goal == .allEnded || goal == .allSucceeded, core.notesWaits else { return [] }
    var noted: [PromiseCore] = []
    for (index, source) in sources.enumerated() {
      guard let promise = source as? PromiseCore, promise.phase == .pending else { continue }
      switch promise.noteWait(of: core) {
      case .nothing: break
      case .noted: noted.append(promise)
      case .cycle(let error): cycles[index] = error
      }
    }
    return noted
  }

  private func begin() {
    listeners.reserveCapacity(sources.count)
    for (index, source) in sources.enumerated() {
      let listener = Listener(self, index)
      let isAwaited = cycles[index] == nil && source.join(listener)
      if isAwaited { listeners.append(listener) } else { noteEnd(of: index) }
    }
  }

  private func end() {
    for listener in listeners { sources[listener.index].withdraw(listener) }
    listeners = []
  }

  private func noteEnd(of index: Int) {  // litmus: batch-decisive, batch-outcomes
    let hasFailed = failure(of: index) != nil
    lock.lock()
    let attempt = machine.end(index, hasFailed: hasFailed)
    lock.unlock()
    attempt.wakeOthers()
  }

  override func describe(_ operation: WaitReason.Operation) -> String {
    WaitText.ends(sources.count, sources.prefix(WaitText.mostEnds).map { ($0 as? Waitable)?.describe(.promise) ?? "" })
  }

  /// Where all have to end, any one of them that never does is enough to wait for ever; promises don't
  /// matter, since any code may settle them. Otherwise the error of any one may be enough, perhaps of one that has just
  /// ended.
  override func wakers(_ operation: WaitReason.Operation) -> Wakers {
    let cores = sources.map { $0 as? CoroutineCore }
    guard goal != .allEnded else { return .all(cores.compactMap { $0?.id }) }
    return .any(cores.filter { !hasDoneItsPart($0) }.map { Wakers(holder: $0?.id) })
  }

  /// Whether a source is a coroutine that has ended in a way that did not decide: it is no waker any more. (The last one of all is,
  /// in any case; but then there is none left that has not ended, and so no deadlock.)
  private func hasDoneItsPart(_ core: CoroutineCore?) -> Bool {
    guard let core, core.isFinished else { return false }
    return switch goal {
    case .allEnded, .firstEnded: false
    case .allSucceeded: core.failure == nil
    case .firstSucceeded: core.failure != nil
    }
  }
}
