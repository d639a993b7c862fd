// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context

/// What a generator does whatever its elements are: begin, end, cancel. Everything here is off the path of an ordinary
/// element.
///
/// One flow of control at a time uses it: the consumer, or the body on the consumer's behalf. The body's side is in
/// GeneratorBody.swift, and how one generator yields what another one does in GeneratorDelegation.swift.
@usableFromInline
class GeneratorCore: HiddenFromMirrors {
  /// On its stack; `nil` before the first element and after the end.
  @exclusivity(unchecked) final var block: UnsafeMutablePointer<ControlBlock>?
  /// The block that the next element comes from, where it may be got in the plain way; else one that looks as if its body
  /// ran. So one test finds all: not begun, ended, cancelled, something open, a sanitizer, called from inside the body.
  @inlinable final var plainBlock: UnsafeMutablePointer<ControlBlock> {
    @inline(__always) get { UnsafeMutablePointer(bitPattern: plainWord).unsafelyUnwrapped }
    @inline(__always) set { plainWord = UInt(bitPattern: newValue) }
  }
  /// Its address. A compiler takes equal words for the same, but not equal pointers.
  @exclusivity(unchecked) @usableFromInline final var plainWord = UInt(bitPattern: ControlBlock.alwaysRunning)
  /// Where a thread has the words by which bindings are found. A constant here, which the compiler knows for one also behind a
  /// switch: else it would not know the same words again. Beside the block, in one line of a cache.
  @usableFromInline final let bindingsOffset: Int
  /// What ended the body.
  @exclusivity(unchecked) @usableFromInline final var failure: (any Error)?
  /// Whether a caller throws an error of the body on. Otherwise it is reported as soon as the body has thrown it.
  @exclusivity(unchecked) final var throwsErrorsOn: Bool
  /// Whether its `yield` returns the input of a `next`: whether it is a `TwoWayStorage` whose inputs mean something.
  @exclusivity(unchecked) @usableFromInline final var takesInput = false
  /// Whether `failure` is still to be thrown on.
  @exclusivity(unchecked) private final var isFailureOpen = false
  /// Whether `failure` needs no report.
  @exclusivity(unchecked) private final var isFailureKnown = true
  /// What the body has open while it is suspended.
  @exclusivity(unchecked) final var scopes = OpenScopes()
  /// Whether its body is still to begin. (The body is the subclass's, which knows what it yields.)
  @exclusivity(unchecked) private final var isFresh = true
  /// How often its `yield` has thrown since the generator was cancelled.
  @exclusivity(unchecked) final var throwsSinceCancel = 0
  /// Whether the body may be code of the main actor: code of the main actor has made the generator, and the body did not begin
  /// elsewhere.
  @exclusivity(unchecked) private final var isMainActors = false
  /// What the pending `yield` throws when the body goes on: see `resume(throwing:)`.
  @exclusivity(unchecked) private final var thrownIn: (any Error)?
  /// Whether a sanitizer knows that it may be released.
  @exclusivity(unchecked) private final var isKnownToSanitizer = false
  private let stackSize: Int?
  private let slot: Int

  /// The generator that its body yields from at present.
  @exclusivity(unchecked) final var delegate: GeneratorCore?
  /// The generator that yields from it at present: keeps it alive.
  @exclusivity(unchecked) final var delegator: Unmanaged<GeneratorCore>?
  /// The generator whose body the next element comes from: the last of its delegates, or itself. Right while no
  /// generator yields from this one.
  @exclusivity(unchecked) private final var last: Unmanaged<GeneratorCore>?

  /// - Parameters:
  ///   - slot: the bytes of an element that does not travel in the word.
  ///   - throwsErrorsOn: whether the face throws what the body has thrown.
  @usableFromInline
  init(stackSize: Int?, slot: Int, throwsErrorsOn: Bool) {
    self.bindingsOffset = coroutine_bindings_offset()
    self.stackSize = stackSize
    self.slot = slot
    self.throwsErrorsOn = throwsErrorsOn
  }

  /// Runs the body of the generator whose stack it is. Not a method of the generator: nothing may hold that meanwhile.
  @usableFromInline
  class func runBody(on block: UnsafeMutablePointer<ControlBlock>) throws { fatalError("a generator without a body") }

  /// The body will not run: lets go of what it captured.
  @usableFromInline
  func dropBody() {}

  deinit {
    // A body that has begun must not be left behind with its frames: it unwinds now, on this thread.
    if isKnownToSanitizer { coroutine_sanitizer_did_release(Unmanaged.passUnretained(self).toOpaque()) }
    if block != nil { cancel() }
    if failure != nil { reportFailure() }
  }

  /// Code of that actor has made it. Before it begins.
  @usableFromInline @inline(never)
  final func belongs(to isolation: any Actor) { isMainActors = isolation === MainActor.shared }

  /// The rest of a body that has begun, such as a `defer`, is code of the main actor. The compiler lets no other code use the
  /// generator, but the last reference to an object that keeps it may go anywhere.
  @inline(never)
  private final func requireMainActor() {
    guard !MainActorJobs.isOnMainActor else { return }
    fatalError(
      "a Generator of the main actor's was cancelled or dropped elsewhere while its body is under way: what is left of "
        + "it, such as a `defer`, would run beside the main actor's other code. Let go of it, or of the object that has "
        + "it, on the main actor, or call cancel() there before. (If the body is no code of the main actor: "
        + "isolation: nil.)")
  }

  /// Not counted: it is this one, or one of its delegates, which it keeps alive.
  final var innermost: Unmanaged<GeneratorCore> {
    get { last ?? .passUnretained(self) }
    set { last = newValue.toOpaque() == Unmanaged.passUnretained(self).toOpaque() ? nil : newValue }
  }

  /// Whether the body runs at this moment: then its resumer's registers are saved.
  final func isRunning(_ block: UnsafeMutablePointer<ControlBlock>) -> Bool {
    SelectedBackend.isRunning(ControlBlock.link(of: block))
  }

  /// The generator whose pending `yield` a resume continues; `nil` if that has not begun, or has ended. While no generator
  /// yields from this one.
  @usableFromInline final var suspendedInnermost: GeneratorCore? {
    innermost._withUnsafeGuaranteedRef { $0.block == nil ? nil : $0 }
  }

  /// What its body is doing. Where that yields from another one, it does what the other's body does.
  final var state: CoroutineState {
    guard let block else { return isFresh ? .ready : .finished }
    var core = self
    while let delegate = core.delegate { core = delegate }
    return isRunning(block) || core.block.map(isRunning) == true ? .running : .suspended
  }

  /// Whether the body of the last of its delegates runs, or its own if it has none.
  final var isConsumed: Bool { innermost._withUnsafeGuaranteedRef { $0.block.map(isRunning) ?? false } }

  // MARK: - The next element

  /// Runs the body to its next `yield` or its end, where the plain way is not open. Returns the word; `nil` after the
  /// end, or without memory.
  @usableFromInline
  final func resumeSlowly() -> UInt? {
    requireNoDelegator()
    return settle(resumeInnermost())
  }

  @inline(__always)
  private final func requireNoDelegator() {
    require(
      delegator == nil, "a Generator's next() was called while another Generator yields from it: ask that one instead")
  }

  /// As `resumeSlowly`, and the pending `yield` throws `error`. A body that has not begun ends with it.
  ///
  /// - Throws: `error`, where it has ended: no `yield` is pending.
  @usableFromInline
  final func resume(throwing error: any Error) throws -> UInt? {
    // First: while another one yields from it, `last` may be a delegate that has ended and is gone.
    requireNoDelegator()
    if let receiver = suspendedInnermost {
      receiver.thrownIn = error
      return resumeSlowly()
    }
    guard isFresh else { throw error }
    isFresh = false
    fail(error)
    // Last: as in `begin`.
    dropBody()
    return nil
  }

  /// What the `yield` throws that a resume has continued; `nil` if it returns.
  final func takeThrownIn() -> (any Error)? { thrownIn.take() }

  /// What a resume has come to that was not the plain case, or did not end so: the word of an element; `nil` for the end.
  @usableFromInline
  final func settle(_ word: UInt?) -> UInt? {
    var word = word
    while true {
      // Until it is known which body comes next: a body that calls `next()` of its own generator must not get by.
      plainBlock = ControlBlock.alwaysRunning
      if let word, let block = innermost._withUnsafeGuaranteedRef({ $0.didYield() }) {
        if block.pointee.mode.isEmpty {
          // Where properties are tracked each `yield` is looked at: see `didSuspend`.
          if !coroutine_properties_are_tracked() { plainBlock = block }
        } else if block.pointee.mode.contains(.annotated) {
          isKnownToSanitizer = true
          coroutine_sanitizer_will_release(Unmanaged.passUnretained(self).toOpaque())
        }
        return word
      }
      guard last != nil || isDelegating else {
        end()
        return nil
      }
      innermost = innermostAfterThat()
      word = resumeInnermost()
    }
  }

  /// On the consumer's side, after a resume: the block, if the body has left it with an element.
  private final func didYield() -> UnsafeMutablePointer<ControlBlock>? {
    guard let block else { return nil }
    didSuspend(block)
    return block.pointee.mode.isDisjoint(with: [.finished, .cancelled, .delegating]) ? block : nil
  }

  /// The generator whose body comes next, where the innermost one has left for a delegate, or a delegate has ended.
  private final func innermostAfterThat() -> Unmanaged<GeneratorCore> {
    // Counted: it may have no owner when its delegator has let go of it.
    let core = innermost.takeUnretainedValue()
    if let delegate = core.beginDelegation() { return delegate.innermost }
    core.end()
    return .passUnretained(core.returnToDelegator())
  }

  // Always inlined, as what it calls: each function in between is a mispredicted return (see `CoroutineCore.run`).
  @inline(__always)
  private final func resumeInnermost() -> UInt? {
    innermost._withUnsafeGuaranteedRef { core in
      guard let block = core.block ?? core.begin() else { return nil }
      require(
        !isRunning(block),
        "a Generator's next() was called from inside its own body, or by two coroutines or threads at once: its body was "
          + "still running, or waiting for something")
      return core.resume(block)
    }
  }

  @inline(__always)
  private final func resume(_ block: UnsafeMutablePointer<ControlBlock>) -> UInt {
    block.pointee.mode.remove(.scopeOpen)
    scopes.willResume()
    block.pointee.threadState.task = coroutine_task_word()
    // Not 0: the body looks what is the matter, and the entry function needs the address.
    let word = ControlBlock.resume(block, passing: UInt(bitPattern: block))
    #if DEBUG
      generatorRequireNoThreadBoundCode(block)
    #endif
    return word
  }

  /// On the consumer's side, after a switch that was not the plain case or did not leave the thread's words as in that.
  private final func didSuspend(_ block: UnsafeMutablePointer<ControlBlock>) {
    guard !block.pointee.mode.contains(.finished) else { return }
    requireTask(block)
    if coroutine_properties_are_tracked(), ControlBlock.isInsideTracking(block, RunningBodies(leftBy: block)) {
      reportTracking("a Generator's body yields")
    }
    scopes.didSuspend(block)
    if scopes.areOpen { block.pointee.mode.insert(.scopeOpen) }
  }

  /// The consumer goes on in the task in which it has resumed the body, or outside of tasks. (A plain resume outside of tasks
  /// keeps the note of an earlier task. A task that is begun on the body's stack, at the address of the earlier one, would go
  /// unnoticed.)
  private final func requireTask(_ block: UnsafeMutablePointer<ControlBlock>) {
    let task = coroutine_task_word()
    guard task != 0, task != block.pointee.threadState.task else { return }
    // The consumer may be a body itself, which another task has resumed meanwhile.
    for body in RunningBodies() where body.pointee.threadState.task == task { return }
    fatalError(
      "a Generator's body yields inside of a task that it has begun on its own stack, as by Task.immediate: the consumer would go "
        + "on as that task. Yield outside of it.")
  }

  private final func begin() -> UnsafeMutablePointer<ControlBlock>? {
    guard isFresh else { return nil }
    isFresh = false
    coroutine_prepare_thread()
    // The compiler lets code of the main actor run nowhere else: this body is none.
    if isMainActors { isMainActors = MainActorJobs.isOnMainActor }
    do throws(StackError) {
      let block = try ControlBlock.create(stackSize: stackSize, owner: self, slot: slot, entry: generatorEntry)
      block.pointee.state.store(.nested, ordering: .releasing)
      self.block = block
      return block
    } catch {
      fail(error)
      // Last: what the body captured may end with it, and let go of this one, if another generator yields from it.
      dropBody()
      return nil
    }
  }

  /// Gives the stack of a body back that has ended. One that cannot end keeps it, with what lies on it, for ever.
  private final func end() {
    guard let block else { return }
    self.block = nil
    if block.pointee.mode.contains(.finished) { ControlBlock.destroy(block) }
  }

  // MARK: - Errors

  /// The body has thrown, or could not begin.
  final func fail(_ error: any Error) {
    failure = error
    isFailureOpen = throwsErrorsOn
    isFailureKnown = isNoNews(error)
    if !isFailureOpen { reportFailure() }
  }

  /// Whether the error says only that the running coroutine was cancelled, or a generator whose `yield` the body has called:
  /// that one consumes this one, so that its body is among those that run.
  private final func isNoNews(_ error: any Error) -> Bool {
    let isOfGenerator = error is GeneratorCancelled
    if isOfGenerator, RunningBodies().contains(where: { $0.pointee.mode.contains(.cancelled) }) { return true }
    return (isOfGenerator || error is CancellationError) && CoroutineCore.current?.isInterrupted == true
  }

  /// What ended the body, for a caller that throws it on: once.
  @usableFromInline
  final func takeFailure() -> (any Error)? {
    guard isFailureOpen else { return nil }
    isFailureOpen = false
    isFailureKnown = true
    return failure
  }

  private final func reportFailure() {
    guard let failure, !isFailureKnown else { return }
    isFailureKnown = true
    CoroutineErrors.report(failure, of: "a generator")
  }

  // MARK: - Cancelling

  /// Unwinds a body that has begun, before it those that it yields from. None of them yields another element: each `yield`
  /// throws.
  final func cancel() {
    plainBlock = ControlBlock.alwaysRunning
    var core = self
    while let delegate = core.delegate { core = delegate }
    if let block = core.block, isRunning(block) { return mark(upTo: core) }
    // A body that unwinds and asks the outermost one meanwhile learns so from that one's block.
    let outermost = outermost
    outermost.plainBlock = ControlBlock.alwaysRunning
    while core !== self {
      outermost.innermost = .passUnretained(core)
      core.unwind()
      core = core.returnToDelegator()
    }
    innermost = .passUnretained(self)
    outermost.innermost = .passUnretained(self)
    unwind()
    leaveDelegator()
  }

  /// Called from inside: the bodies end at their next `yield`.
  private final func mark(upTo core: GeneratorCore) {
    var core = core
    while true {
      core.block?.pointee.mode.insert(.cancelled)
      guard core !== self, let outer = core.delegator else { return }
      core = outer._withUnsafeGuaranteedRef { $0 }
    }
  }

  private final func unwind() {
    guard let block else {
      if isFresh {
        isFresh = false
        dropBody()
      }
      return
    }
    // Of each one by itself: it may be that another one yields from it, which is none of the main actor's.
    if isMainActors { requireMainActor() }
    block.pointee.mode.insert(.cancelled)
    _ = resume(block)
    didSuspend(block)
    end()
  }
}
