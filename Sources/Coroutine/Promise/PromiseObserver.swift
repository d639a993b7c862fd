// SPDX-License-Identifier: Apache-2.0

/// An observer of a promise's settlement: a coroutine that begins when those registered before it are done.
///
/// It is made when it registers, so that it has its creator's scheduler and task-local values, and it has no stack before
/// it begins. Like every coroutine it keeps itself alive, and must be run to its end.
@usableFromInline
// Unchecked: see the fields.
class PromiseObserver: CoroutineCore, @unchecked Sendable {
  // The links and `isQueued`: guarded by the lock of the promise that it is registered at.
  @exclusivity(unchecked) fileprivate final var next: PromiseObserver?
  @exclusivity(unchecked) fileprivate final var previous: Unmanaged<PromiseObserver>?
  @exclusivity(unchecked) fileprivate final var isQueued = false
  /// Where it is registered. Written before the observer is known elsewhere, constant after that.
  @exclusivity(unchecked) private final var source: PromiseCore?
  /// Written by the thread that lets it run, before it is scheduled; then only by the observer itself.
  @exclusivity(unchecked) private final var mayRun = false

  override init(
    on scheduler: consuming SchedulerReference, name: consuming String, stackSize: Int?, body: consuming @escaping Body
  ) {
    super.init(on: scheduler, name: name, stackSize: stackSize, body: body)
    keepAlive()
  }

  deinit {
    // It could not run: it was cancelled before, or there was no memory for a stack. The others must not wait for it.
    letNextRun()
  }

  /// Waits for the settlement, and for those registered before it.
  final func register(at source: PromiseCore) {
    self.source = source
    source.observe(self)
  }

  /// It comes first now. Not under a lock.
  final func begin() {
    mayRun = true
    schedule()
  }

  /// The next one comes first now. Without effect the second time.
  final func letNextRun() {
    guard mayRun else { return }
    mayRun = false
    source?.observerIsDone()
  }

  /// It is no longer to run. Callable from any thread, at any time.
  final func stop() {
    cancel(reason: nil)
    // Cancelled before it began, it ends without running, and without a stack.
    if let source, source.withdraw(self) { schedule() }
  }
}

/// A step of a chain: makes the outcome of one promise that of another.
// Unchecked: as its superclass; its own field is constant.
final class PromiseStep<Input: Sendable, Output: Sendable>: PromiseObserver, @unchecked Sendable {
  private let output: PromiseStorage<Output>

  /// What the output promise becomes.
  enum Continuation {
    case settled(Result<Output, any Error>)
    /// What another one becomes.
    case follows(PromiseStorage<Output>)
  }

  /// A step that waits for `input`, and runs `transform` in a coroutine on `scheduler`.
  @discardableResult
  init(
    from input: PromiseStorage<Input>, to output: PromiseStorage<Output>, on scheduler: SchedulerReference,
    _ transform: @escaping (Result<Input, any Error>) -> Continuation
  ) {
    self.output = output
    super.init(on: scheduler, name: "", stackSize: nil) { core in
      // Unchecked: a body gets its own coroutine, which is the one that is made here.
      unsafeDowncast(core, to: PromiseStep.self).run(input, transform)
    }
    resultIsTaken()
    register(at: input)
    // Weakly: if it ends without having run, its `deinit` settles the output.
    output.onCancel { [weak self] in self?.stop() }
  }

  deinit {
    // Those behind this one come first, also where it has not run.
    letNextRun()
    if let failure { output.settle(.failure(failure)) }
  }

  private func run(_ input: PromiseStorage<Input>, _ transform: (Result<Input, any Error>) -> Continuation) {
    let continuation = transform(input.settledOutcome)
    // Those behind this one come before those behind the output.
    letNextRun()
    switch continuation {
    case .settled(let outcome): output.settle(outcome)
    case .follows(let other): output.follow(other, on: scheduler)
    }
  }
}

/// Observers in the order in which they registered: a list linked through themselves. Guarded by its owner's lock.
struct PromiseObserverQueue {
  private var first: PromiseObserver?
  // It is in the list, which holds it.
  private var last: Unmanaged<PromiseObserver>?

  var isEmpty: Bool { first == nil }
  private(set) var count = 0

  mutating func append(_ observer: PromiseObserver) {
    observer.previous = last
    observer.isQueued = true
    count += 1
    if let last { last._withUnsafeGuaranteedRef { $0.next = observer } } else { first = observer }
    last = .passUnretained(observer)
  }

  mutating func popFirst() -> PromiseObserver? {
    guard let observer = first else { return nil }
    _ = remove(observer)
    return observer
  }

  /// Takes one out, if it is in there. Constant time.
  mutating func remove(_ observer: PromiseObserver) -> Bool {
    guard observer.isQueued else { return false }
    observer.isQueued = false
    count -= 1
    let (next, previous) = (observer.next, observer.previous)
    observer.next = nil
    observer.previous = nil
    if let previous { previous._withUnsafeGuaranteedRef { $0.next = next } } else { first = next }
    if let next { next.previous = previous } else { last = previous }
    return true
  }
}
