public import Context
public import Synchronization

/// The way back to somebody who asks an actor: part of the message that he sends.
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
  @usableFromInline let end: ReplyEnd

  @inlinable
  init(_ end: ReplyEnd) {
    self.end = end
  }

  /// Answers.
  ///
  /// - Returns: whether the asker gets it: he does not if he was answered before, was cancelled, or had no more time.
  @inlinable @discardableResult
  public func complete(_ value: Value) -> Bool {
    // Made for this type of value, by `ask`.
    end.storage._withUnsafeGuaranteedRef { unsafeDowncast($0, to: ReplyStorage<Value>.self).succeed(value) }
  }

  /// Answers with an error, which `ask` throws.
  ///
  /// - Returns: whether the asker gets it.
  @inlinable @discardableResult
  public func fail(_ error: any Error) -> Bool {
    end.fail(error)
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

  /// Whether the asker still waits for an answer.
  public var isWanted: Bool { end.storage._withUnsafeGuaranteedRef { $0.isOpen } }
}

extension Reply where Value == Void {
  /// Answers that it is done.
  ///
  /// - Returns: whether the asker gets it.
  @inlinable @discardableResult
  public func complete() -> Bool { complete(()) }
}

/// What the copies of one `Reply` share: when it goes, nobody can answer any more.
@usableFromInline
final class ReplyEnd: Sendable {
  /// Retained; unmanaged, since every use would count it otherwise.
  @usableFromInline let storage: Unmanaged<ReplyCore>

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
    storage._withUnsafeGuaranteedRef { $0.fail(error) }
  }

  @inlinable @inline(__always)
  var isSettled: Bool {
    storage._withUnsafeGuaranteedRef { $0.isSettled.load(ordering: .acquiring) }
  }

  /// Lets go of one, and of the storage if nobody else has retained it. In a function of its own, which is not inlined: the
  /// optimiser moves a release that it sees upwards, across a retain of the storage, of which it knows no connection.
  @usableFromInline @inline(never)
  static func release(_ end: inout ReplyEnd?) {
    end = nil
  }

  /// One for an ask of the running coroutine `core`, that nobody else has: the one of its last ask, if it is over.
  @inlinable @inline(__always)
  static func make<Value: Sendable>(for core: CoroutineCore, _ type: Value.Type) -> ReplyEnd {
    var spare = core.spareReply.take()
    if isKnownUniquelyReferenced(&spare), let spare {
      let isReset = spare.storage._withUnsafeGuaranteedRef { storage in
        guard Swift.type(of: storage) == ReplyStorage<Value>.self else { return false }
        storage.reset()
        return true
      }
      if isReset { return spare }
    }
    return ReplyEnd(ReplyStorage<Value>())
  }
}

/// One answer, and who waits for it: all that does not depend on its type.
@usableFromInline
// Unchecked: each field says what guards it.
class ReplyCore: Waitable, @unchecked Sendable {
  /// Guarded by the lock.
  @exclusivity(unchecked) @usableFromInline final var machine = ReplyStateMachine()
  /// Whether the answer is there: stored under the lock, when the answer has been written, which is constant after that.
  @usableFromInline final let isSettled = Atomic<Bool>(false)
  /// Whether the actor has gone on to other messages without having answered.
  @usableFromInline final let isDeferred = Atomic<Bool>(false)
  /// Written before `isSettled`.
  @exclusivity(unchecked) @usableFromInline final var failure: (any Error)?
  /// Who was asked, for people. Written by the asker before it waits.
  @exclusivity(unchecked) @usableFromInline final var recipient: ActorCore?

  @inlinable
  override init() { super.init() }

  /// Called with the answer, once, by whoever gives it, not under the lock: for askers who do not wait. Set before anybody
  /// can answer.
  @exclusivity(unchecked) @usableFromInline final var onAnswer: (() -> Void)?

  /// Settles it. `keep` writes the answer; called if this is the first one.
  @inlinable @inline(__always)
  final func settle(_ keep: () -> Void) -> Bool {
    lock.lock()
    let settlement = machine.settle()
    guard settlement != nil else {
      lock.unlock()
      return false
    }
    keep()
    isSettled.store(true, ordering: .releasing)
    lock.unlock()
    settlement?.wakeOthers()
    if onAnswer != nil { passOn() }
    return true
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
    settle { failure = error }
  }

  /// For another ask. Nobody else knows it.
  @inlinable @inline(__always)
  final func reset() {
    machine = ReplyStateMachine()
    isSettled.store(false, ordering: .relaxed)
    isDeferred.store(false, ordering: .relaxed)
  }

  /// The asker does not wait any more. Whether he has been answered before.
  @usableFromInline
  final func giveUp() -> Bool {
    lock.withLock { machine.abandon() }
  }

  /// Nobody can answer any more.
  final func drop() {
    guard !isSettled.load(ordering: .acquiring) else { return }
    fail(ReplyDropped())
  }

  final var isOpen: Bool { lock.withLock { machine.isOpen } }

  override package final func describe(_ operation: WaitReason.Operation) -> String {
    "an answer of \(describeActor(recipient?.name ?? ""))"
  }
}

/// One answer.
@usableFromInline
class ReplyStorage<Value: Sendable>: ReplyCore, @unchecked Sendable {
  /// Written before `isSettled`; taken by the asker after that.
  @exclusivity(unchecked) @usableFromInline final var value: Value?

  @inlinable
  override init() { super.init() }

  @inlinable
  final func succeed(_ value: Value) -> Bool {
    settle { self.value = value }
  }

  /// For the asker, when it is settled.
  @inlinable
  final func takeOutcome() throws -> Value {
    if let failure = failure.take() { throw failure }
    guard let value = value.take() else { fatalError("an answer is there, but has no value") }
    return value
  }
}

/// What a sender gets who did not ask: that the message was handled is the answer.
final class Receipt: ReplyStorage<Void>, @unchecked Sendable {
  override func noteHandled() {
    _ = succeed(())
  }
}

/// One answer, in whichever order it and the wait for it come. Pure: no lock, no switch.
@usableFromInline
struct ReplyStateMachine {
  @usableFromInline
  enum State {
    case open
    case waiting(UnsafeMutablePointer<WaitNode>)
    case settled
    /// The asker does not wait any more.
    case abandoned
  }

  @usableFromInline var state = State.open

  @inlinable
  init() {}

  /// Whether an answer would reach the asker, as far as is known.
  var isOpen: Bool {
    switch state {
    case .open, .waiting: true
    case .settled, .abandoned: false
    }
  }

  /// An answer: whom to wake, if it is the first and the asker still waits.
  @inlinable @inline(__always)
  mutating func settle() -> Attempt? {
    switch state {
    case .open:
      state = .settled
      return .done
    case .waiting(let node):
      guard node.pointee.waiter.claim(node.pointee.cause) else {
        state = .abandoned
        return nil
      }
      state = .settled
      return .wake(node.pointee.waiter)
    case .settled, .abandoned:
      return nil
    }
  }

  /// The asker waits.
  @inlinable
  mutating func wait(_ node: UnsafeMutablePointer<WaitNode>) -> Attempt {
    switch state {
    case .open:
      state = .waiting(node)
      return .wait
    case .settled:
      return .done
    case .waiting, .abandoned:
      fatalError("an answer is waited for twice")
    }
  }

  /// The asker gives up. Whether an answer has come first, which he gets.
  @inlinable
  mutating func abandon() -> Bool {
    if case .settled = state { return true }
    state = .abandoned
    return false
  }
}
