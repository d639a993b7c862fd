// SPDX-License-Identifier: Apache-2.0

import Context
import Synchronization

/// The object at which coroutines wait to read from a descriptor or to write to it: the waiters, their lock, and the
/// counts of changes. CoroutineIO has the descriptor itself; here it has a name, and a look at it.
// Unchecked: the name and the look are constant, the words are atomic, and the lock guards the machine.
package final class ReadinessStorage: Waitable, @unchecked Sendable {
  /// For dumps: `TCP 127.0.0.1:5432`.
  package let name: String
  /// Whether it is ready now. Costs a system call, and is made under the lock: does not wait.
  fileprivate let look: @Sendable (Readiness) -> Bool
  /// Guarded by the lock.
  @exclusivity(unchecked) private var machine = ReadinessStateMachine()
  // The machine's counts, to be read without the lock; written under it.
  private let readEvents = Atomic<UInt32>(0)
  private let writeEvents = Atomic<UInt32>(0)
  private let closed = Atomic<Bool>(false)
  /// Which coroutine reads, if it is a stream. Here, since the end of its claim may wake waiters; CoroutineIO has the writer's.
  package let readClaim = StreamClaim()
  /// Whether there may be a waiter that bytes read ahead would wake. Set under the lock, before it looks for them.
  private let isReadableAwaited = Atomic<Bool>(false)
  /// `Fork.count` of the process whose poller knows it.
  private let madeIn = Fork.count

  package init(name: String, look: @escaping @Sendable (Readiness) -> Bool) {
    self.name = name
    self.look = look
  }

  /// Whether this process is a child of `fork`, made after the storage: its changes would reach the parent's poller.
  @inline(__always)
  package var isInForkedChild: Bool { Fork.count != madeIn }

  package var isClosed: Bool { closed.load(ordering: .acquiring) }

  /// How often it has become ready: read this before the system call that may be refused.
  @inline(__always)
  package func events(for readiness: Readiness) -> UInt32 {  // litmus: readiness-count
    readiness == .writable ? writeEvents.load(ordering: .acquiring) : readEvents.load(ordering: .acquiring)
  }

  /// Ends a reader's claim. If it leaves bytes that it has read ahead, those that wait until the stream is readable are woken:
  /// the kernel has reported these bytes already.
  package func endReading(leavesBytes: Bool) {
    guard leavesBytes else { return readClaim.giveBack() }
    // Either this sees that there may be a waiter, or the waiter sees the bytes.
    readClaim.giveBackWithBytes()  // litmus: poller-watch
    // In a child of `fork` the waiters are the parent's, and so is the lock.
    if isReadableAwaited.load(ordering: .sequentiallyConsistent), !isInForkedChild { wakeForBytesReadAhead() }
  }

  @inline(never)
  private func wakeForBytesReadAhead() {
    lock.lock()
    // Another reader may have them by now.
    guard readClaim.isFreeWithBytes() else { return lock.unlock() }
    isReadableAwaited.store(false, ordering: .relaxed)
    let woken = machine.bytesAreReadAhead()
    lock.unlock()
    woken.wakeAll()
  }

  /// Whether there are bytes that the last reader has left.
  package var hasBytesAhead: Bool { readClaim.isFreeWithBytes() }

  /// Whether an operation need not wait, by the bytes read ahead or by a look. The caller holds `lock`.
  private func isReady(_ readiness: Readiness) -> Bool {
    if readiness == .readable {
      isReadableAwaited.store(true, ordering: .sequentiallyConsistent)  // litmus: poller-watch
      if hasBytesAhead { return true }
    }
    return look(readiness)
  }

  /// The kernel has reported a change. From any thread; wakes the waiters for it.
  package func becomeReady(_ readiness: Readiness) {  // litmus: pool-watch, readiness-count
    lock.lock()
    // An end or an error is reported once, and may be gone from a second look.
    let woken = machine.becomeReady(readiness) { readiness.contains(.hungUp) || isReady($0) }
    publish()
    lock.unlock()
    woken.wakeAll()
  }

  /// Ends all waits, now and from now on. False if it was closed before.
  package func closeWaits() -> Bool {
    lock.lock()
    let woken = machine.close()
    publish()
    lock.unlock()
    guard let woken else { return false }
    // In a child of `fork` the waiters are the parent's, where they go on waiting.
    if !isInForkedChild { woken.wakeAll() }
    return true
  }

  private func publish() {  // litmus: readiness-count
    readEvents.store(machine.readEvents, ordering: .releasing)
    writeEvents.store(machine.writeEvents, ordering: .releasing)
    closed.store(machine.isClosed, ordering: .releasing)
  }

  /// Suspends the calling coroutine, `core`, until it has become ready, or is closed: then the result is `.event` too.
  ///
  /// - Parameter seen: the count of changes before the call that was refused; `nil`: it is looked at first.
  package func wait(
    _ core: CoroutineCore, _ operation: WaitOperation, seen: UInt32?, until deadline: UInt64
  ) -> WakeCause {
    let readiness = Readiness(for: operation)
    var node = WaitNode(.coroutine(.passUnretained(core)))
    return wait(core, operation, by: &node, until: deadline) {
      attempt($0, readiness, seen: seen)
    } withdraw: {
      machine.withdraw($0, from: readiness, callsAgain: seen != nil)
      return .done
    }
  }

  /// The same for the calling task.
  nonisolated(nonsending) package func wait(_ operation: WaitOperation, timeout: Duration?) async throws {
    let readiness = Readiness(for: operation)
    try await wait(timeout: timeout) {
      WaitNode($0)
    } attempt: {
      attempt($0, readiness, seen: nil)
    } withdraw: {
      machine.withdraw($0, from: readiness, callsAgain: false)
      return .done
    }
  }

  /// The caller holds `lock`: a change that comes after the look waits for it, and then finds the node.
  private func attempt(
    _ node: UnsafeMutablePointer<WaitNode>, _ readiness: Readiness, seen: UInt32?
  ) -> Attempt {
    if seen == nil, !machine.isClosed, isReady(readiness) { return .done }
    return machine.wait(node, for: readiness, seen: seen)
  }

  override package func describe(_ operation: WaitReason.Operation) -> String {
    WaitText.readiness(name, operation)
  }
}

// MARK: - As a case of a select

extension ReadinessStorage {
  /// Whether a case that waits for it can be chosen at once. The caller holds `lock`.
  func isReadyNow(_ readiness: Readiness) -> Bool { machine.isClosed || isReady(readiness) }

  /// The caller holds `lock`.
  func enqueue(_ node: UnsafeMutablePointer<WaitNode>, _ readiness: Readiness) {
    if isInForkedChild { reportLeftInParent("a select waits for \(name)", "adopt a descriptor there after an exec") }
    _ = machine.wait(node, for: readiness, seen: nil)
  }

  /// The caller holds `lock`.
  func withdraw(_ node: UnsafeMutablePointer<WaitNode>, from readiness: Readiness) {
    machine.withdraw(node, from: readiness, callsAgain: false)
  }
}

// MARK: - For a scheduler that lets time pass

extension WaitReason {
  /// Whether a descriptor that is waited for is ready by now: then the waiter will go on, though no thread may have woken it yet.
  /// `nil` where no descriptor is waited for, alone or as a case of a select. A system call for each; while the coroutine can't
  /// run.
  package var isAnyDescriptorReady: Bool? {
    switch subject {
    case .object(let object):
      return Self.isReady(object, operation)
    case .cases(let wait):
      var result: Bool?
      for case .waitable(let waitable, let operation) in wait.pointee.targets {
        guard let isReady = Self.isReady(waitable, operation) else { continue }
        if isReady { return true }
        result = false
      }
      return result
    }
  }

  private static func isReady(_ waitable: Unmanaged<Waitable>, _ operation: Operation) -> Bool? {
    // Not by bytes that were read ahead: a waiter for these is woken, and a reader waits for more than these.
    waitable._withUnsafeGuaranteedRef { ($0 as? ReadinessStorage)?.look(Readiness(for: operation)) }
  }
}
