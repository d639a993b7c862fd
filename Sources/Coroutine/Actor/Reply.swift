// SPDX-License-Identifier: Apache-2.0

import Context
public import Synchronization

/// The way back to the asker of an actor: part of the message that it sends.
///
/// ```swift
/// enum Message {
///   case increment
///   case get(Reply<Int>)
/// }
/// ```
///
/// It is used once: the first call counts and returns `true`. It may be kept for later, or handed on to others, on any
/// thread. When the last copy is gone unused, the asker gets `ReplyDropped`.
public struct Reply<Value: Sendable>: Sendable {
  @usableFromInline let owner: ReplyOwner

  @inlinable
  init(_ owner: ReplyOwner) {
    self.owner = owner
  }

  /// Answers.
  ///
  /// - Returns: whether the asker gets it: not if it was answered before, was cancelled, or had no more time.
  @inlinable @discardableResult
  public func complete(_ value: Value) -> Bool {
    // Made for this type of value, by `ask`.
    owner.withStorage { unsafeDowncast($0, to: ReplyStorage<Value>.self).succeed(value) }
  }

  /// Answers with an error, which `ask` throws.
  ///
  /// - Returns: whether the asker gets it.
  @inlinable @discardableResult
  public func fail(_ error: any Error) -> Bool {
    owner.fail(error)
  }

  /// Answers with either.
  ///
  /// - Returns: whether the asker gets it.
  @inlinable @discardableResult
  public func complete(with outcome: Result<Value, any Error>) -> Bool {
    switch outcome {
    case .success(let value): complete(value)
    case .failure(let error): fail(error)
    }
  }

  /// The same, by a result whose errors are of one type.
  @inlinable @discardableResult @_disfavoredOverload
  public func complete<Failure: Error>(with outcome: Result<Value, Failure>) -> Bool {
    complete(with: outcome.mapError { $0 as any Error })
  }

  /// Says that the answer comes from elsewhere: a coroutine that was launched for it, another actor. Returns a reply to
  /// the same asker, to be handed on.
  ///
  /// An actor counts as the one that will answer as long as it handles the message. If it asks the asker something
  /// meanwhile, the two seem to wait for each other: `AskCycle`. After this call it does not count as such, since the
  /// answer comes from elsewhere. An actor that says so must not keep the reply to itself: such a cycle is not found.
  ///
  /// ```swift
  /// case .report(let reply, let asker):
  ///   let reply = reply.handedOn()
  ///   Coroutine { reply.complete(try summary()) }
  ///   let details = try asker.ask { .details($0) }        // answered when the report is
  /// ```
  public func handedOn() -> Reply {
    owner.withStorage { $0.isDeferred.store(true, ordering: .releasing) }
    return self
  }

  /// Whether the asker still waits for an answer.
  public var isWanted: Bool { owner.withStorage { $0.isOpen } }
}

extension Reply where Value == Void {
  /// Answers that it is done.
  ///
  /// - Returns: whether the asker gets it.
  @inlinable @discardableResult
  public func complete() -> Bool { complete(()) }
}

/// What the copies of one `Reply` share: when it goes, no answer can come any more.
@usableFromInline
final class ReplyOwner: Sendable {
  /// Retained; unmanaged, since every use would count it otherwise.
  @usableFromInline let storage: Unmanaged<ReplyCore>

  /// Uses the storage. Prefer it to `storage`: the optimiser, which knows of no connection between the two, releases
  /// this object when it is not used any more, and the storage may go with it.
  @inlinable @inline(__always)
  func withStorage<Result>(_ body: (ReplyCore) throws -> Result) rethrows -> Result {
    defer { withExtendedLifetime(self) {} }
    return try storage._withUnsafeGuaranteedRef(body)
  }

  @usableFromInline
  init(_ storage: ReplyCore) {
    self.storage = .passRetained(storage)
  }

  deinit {
    storage._withUnsafeGuaranteedRef { $0.drop() }
    storage.release()
  }

  /// Answers with an error.
  @usableFromInline @discardableResult
  func fail(_ error: any Error) -> Bool {
    withStorage { $0.fail(error) }
  }

  @inlinable @inline(__always)
  var isSettled: Bool { withStorage { $0.isSettled } }

  /// Releases a reference to this, and to the storage if nothing else has retained it. In a function of its own, which
  /// is not inlined: the optimiser moves a release that it sees upwards, across a retain of the storage, since it knows
  /// of no connection between the two.
  @usableFromInline @inline(never)
  static func release(_ owner: Unmanaged<ReplyOwner>) {
    owner.release()
  }

  /// Keeps the storage of an ask whose wait has ended for the next one of its asker `core`, if no answer can come.
  /// Takes over a reference.
  @usableFromInline @inline(never)
  static func keepStorage(_ storage: Unmanaged<ReplyCore>, for core: CoroutineCore) {
    var storage = storage.takeRetainedValue()
    // Else there is a `Reply` still, or the last one is just going.
    guard storage.isSettled, isKnownUniquelyReferenced(&storage) else { return }
    storage.recipient = nil
    core.neededExtras._withUnsafeGuaranteedRef { $0.keepSpareReply(.passRetained(ReplyOwner(storage))) }
  }

  /// A reply's owner for an ask of the running coroutine `core`, that nothing else holds: that of its last ask, if it is
  /// over. Retained for the caller.
  @inlinable @inline(__always)
  static func make<Value: Sendable>(for core: CoroutineCore, _ type: Value.Type) -> Unmanaged<ReplyOwner> {
    if let spare = core.extras?._withUnsafeGuaranteedRef({ $0.takeSpareReply() }) {
      let isReset = spare.withStorage { storage in
        guard storage.valueType == ObjectIdentifier(Value.self) else { return false }
        storage.reset()
        return true
      }
      if isReset { return .passRetained(spare) }
    }
    return .passRetained(ReplyOwner(ReplyStorage<Value>()))
  }
}

/// One answer, and its waiter: all that does not depend on its type.
///
/// The answer of an actor that was handed the asker's thread comes before the asker waits for it: that way takes one
/// atomic instruction, on `phase`, and no lock.
///
///     open ──settle──> settling ──> settled        by the one that wins the exchange
///       │ └──wait──> waiting ──settle──> settled   from `waiting` on under the lock
///       └──abandon─────┴──abandon──> abandoned
@usableFromInline
// Unchecked: each field says what guards it.
class ReplyCore: Waitable, @unchecked Sendable {
  @usableFromInline final let phase = Atomic<UInt8>(ReplyPhase.open)
  /// The asker, in phase `waiting`; none when its wait has ended otherwise. Guarded by the lock.
  @exclusivity(unchecked) private final var waiter: UnsafeMutablePointer<WaitNode>?
  /// Whether the actor has gone on to other messages without having answered, or has said that another will.
  @usableFromInline final let isDeferred = Atomic<Bool>(false)
  /// Written before the phase is `settled`.
  @exclusivity(unchecked) @usableFromInline final var failure: (any Error)?
  /// The asked actor, for texts that people read. Written by the asker before it waits.
  @exclusivity(unchecked) @usableFromInline final var recipient: ActorCore?
  /// Called with the answer, once, by the one that gives it, not under the lock: for askers that do not wait. Set
  /// before an answer can come.
  @exclusivity(unchecked) @usableFromInline final var onAnswer: (() -> Void)?

  /// What a subclass keeps. Compared instead of the class, which takes a look into a table of generic types.
  @usableFromInline final let valueType: ObjectIdentifier

  @inlinable
  init(_ valueType: ObjectIdentifier) {
    self.valueType = valueType
    super.init()
  }

  /// Whether the answer is there.
  @inlinable @inline(__always)
  // litmus: end-result, reply-reuse
  final var isSettled: Bool { phase.load(ordering: .acquiring) == ReplyPhase.settled }

  /// Whether an answer would reach the asker, as far as is known.
  final var isOpen: Bool {
    let phase = phase.load(ordering: .relaxed)
    return phase == ReplyPhase.open || phase == ReplyPhase.waiting
  }

  /// Whether the asked actor has to answer: the message lies in its mailbox, or is being handled.
  final var isDue: Bool { !isSettled && !isDeferred.load(ordering: .acquiring) }

  /// Whether there is no waiter, and the caller is the first to answer: then it has to write the answer and to call
  /// `endSettling`. Otherwise it goes on with `settleForWaiter`.
  @inlinable @inline(__always)
  final func beginSettling() -> Bool {
    phase.compareExchange(
      expected: ReplyPhase.open, desired: ReplyPhase.settling, successOrdering: .acquiring, failureOrdering: .relaxed
    ).exchanged
  }

  @inlinable @inline(__always)
  final func endSettling() {
    phase.store(ReplyPhase.settled, ordering: .releasing)  // litmus: end-result, reply-reuse
    if onAnswer != nil { passOn() }
  }

  /// Answers a waiter. `keep` writes the answer; called if this is the first one. Whether it is.
  @usableFromInline
  final func settleForWaiter(_ keep: () -> Void) -> Bool {
    lock.lock()
    guard phase.load(ordering: .relaxed) == ReplyPhase.waiting, let node = waiter.take(),
      // Otherwise cancelled, or out of time: it is on its way to `abandon`.
      node.pointee.waiter.claim(node.pointee.cause)
    else {
      lock.unlock()
      return false
    }
    keep()
    phase.store(ReplyPhase.settled, ordering: .releasing)
    let waiter = node.pointee.waiter
    lock.unlock()
    waiter.wake()
    return true
  }

  /// The asker waits. The caller holds `lock`.
  @usableFromInline
  final func wait(_ node: UnsafeMutablePointer<WaitNode>) -> Attempt {
    let (isOpen, _) = phase.compareExchange(
      expected: ReplyPhase.open, desired: ReplyPhase.waiting, ordering: .acquiringAndReleasing)
    guard isOpen else {
      waitUntilWritten()
      return .done
    }
    waiter = node
    return .wait
  }

  /// The asker's wait has ended without an answer: its node is looked at no more. The caller holds `lock`.
  @usableFromInline
  final func withdraw() -> Attempt {
    waiter = nil
    return .done
  }

  /// The asker's wait is over, and it no longer needs an answer. Returns whether it got one before.
  @usableFromInline
  final func abandon() -> Bool {
    var found = phase.load(ordering: .relaxed)
    while found == ReplyPhase.open || found == ReplyPhase.waiting {
      let exchange = phase.compareExchange(
        expected: found, desired: ReplyPhase.abandoned, ordering: .acquiringAndReleasing)
      if exchange.exchanged {
        // An answer from here on does not look at it.
        onAnswer = nil
        return false
      }
      found = exchange.original
    }
    guard found != ReplyPhase.abandoned else { return false }
    waitUntilWritten()
    return true
  }

  /// An answer is being given, or has been.
  private final func waitUntilWritten() {
    var backoff = SpinBackoff()
    while phase.load(ordering: .acquiring) == ReplyPhase.settling { backoff.pause() }  // litmus: end-result
  }

  @usableFromInline @inline(never)
  final func passOn() {
    onAnswer.take()?()
  }

  /// The actor has handled the message without an answer to it.
  @usableFromInline @inline(never)
  func noteHandled() {
    isDeferred.store(true, ordering: .releasing)
  }

  @usableFromInline @discardableResult
  final func fail(_ error: any Error) -> Bool {
    guard beginSettling() else { return settleForWaiter { failure = error } }
    failure = error
    endSettling()
    return true
  }

  /// For another ask. Nothing else refers to it.
  @inlinable @inline(__always)
  final func reset() {
    phase.store(ReplyPhase.open, ordering: .relaxed)
    isDeferred.store(false, ordering: .relaxed)
  }

  /// No answer can come any more.
  final func drop() {
    if isOpen { fail(ReplyDropped()) }
  }

  override package final func describe(_ operation: WaitReason.Operation) -> String {
    WaitText.answer(ofActor: recipient?.name ?? "")
  }

  /// The actor, as long as the message lies in its mailbox or is being handled, as in `AskGraph`.
  override package final func wakers(_ operation: WaitReason.Operation) -> Wakers {
    isDue ? Wakers(holder: recipient?.coroutine.id) : .unknown
  }
}

/// What has become of an answer.
@usableFromInline
enum ReplyPhase {
  @inlinable static var open: UInt8 { 0 }
  /// The asker waits, or is about to.
  @inlinable static var waiting: UInt8 { 1 }
  /// The answer is being written.
  @inlinable static var settling: UInt8 { 2 }
  @inlinable static var settled: UInt8 { 3 }
  /// The asker does not wait any more.
  @inlinable static var abandoned: UInt8 { 4 }
}

/// One answer.
@usableFromInline
// Unchecked: as its superclass; the field says what guards it.
class ReplyStorage<Value: Sendable>: ReplyCore, @unchecked Sendable {
  /// Written before `isSettled`; taken by the asker after that.
  @exclusivity(unchecked) @usableFromInline final var value: Value?

  @inlinable
  init() { super.init(ObjectIdentifier(Value.self)) }

  @inlinable
  final func succeed(_ value: Value) -> Bool {
    guard beginSettling() else { return succeedForWaiter(value) }
    self.value = value
    endSettling()
    return true
  }

  @inlinable @inline(never)
  final func succeedForWaiter(_ value: Value) -> Bool {
    settleForWaiter { self.value = value }
  }

  /// For the asker, when it is settled.
  @inlinable
  final func takeOutcome() throws -> Value {
    if let failure = failure.take() { throw failure }
    guard let value = value.take() else { fatalError("an answer is there, but has no value") }
    return value
  }
}

/// The answer for a sender that did not ask: the message was handled.
// Unchecked: as its superclass.
final class Receipt: ReplyStorage<Void>, @unchecked Sendable {
  override func noteHandled() {
    _ = succeed(())
  }
}
