// SPDX-License-Identifier: Apache-2.0

import Context
import Synchronization

/// A mutex, whatever it guards: its word, its waiters.
///
/// Uncontended, acquire and release are one exchange of the word each. The word names the holder, for the check against
/// locking it twice, and for debuggers.
@usableFromInline
// Unchecked: the name is constant, the words are atomic, and the lock guards the machine.
class MutexCore: Waitable, @unchecked Sendable {
  let name: String
  /// See `MutexStateMachine`.
  private let word = Atomic<UInt64>(0)
  /// The address of a `HolderBlock`. Written by the holder, or for it by the owner that hands the mutex over; for
  /// debuggers.
  private let holderBlock = Atomic<UInt>(0)
  /// The address of a `HolderFrame`. Written as the one above; for conditions. Any code of the holder's coroutine may read it,
  /// while its closure goes on in another one and gives the mutex back.
  private let holderFrame = Atomic<UInt>(0)
  /// The `access` of that frame. Written as the one above, where there are conditions.
  private let holderAccess = Atomic<UInt>(HolderFrame.notNoted)
  /// Whether a condition was made of the mutex: only that costs its holders a look at their accesses.
  private let hasConditions = Atomic<Bool>(false)
  /// Guarded by the lock.
  @exclusivity(unchecked) private var machine = MutexStateMachine()

  init(name: String) {
    self.name = name
  }

  // MARK: Locking

  /// Takes the mutex as the calling coroutine, which suspends as long as another holds it.
  @usableFromInline
  final func acquire(timeout: Duration? = nil) throws -> LockHolder {
    return try CoroutineCore.runningUncounted(for: "CoroutineMutex.withLock(_:)")._withUnsafeGuaranteedRef { core in
      core.countOperation()
      let holder = LockHolder(core)
      guard !core.isHeldUp, tryAcquire(core, holder, HolderBlock(core), .here) else {
        try acquireSlowly(core, holder, HolderFrame.here.notingAccess(of: core), timeout)
        return holder
      }
      return holder
    }
  }

  @inline(never)
  private final func acquireSlowly(
    _ core: CoroutineCore, _ holder: LockHolder, _ frame: HolderFrame, _ timeout: Duration?
  ) throws {
    requireNotHeld(by: holder)
    let block = HolderBlock(core)
    _ = try wait(core, .lock, timeout: timeout) {
      MutexNode(wait: WaitNode($0), holder: holder, block: block, frame: frame)
    } attempt: {
      attempt($0)
    } withdraw: {
      machine.withdraw($0)
      return .done
    }
  }

  /// Takes the mutex as the calling task.
  @usableFromInline
  nonisolated(nonsending) final func acquire(timeout: Duration? = nil) async throws -> LockHolder {
    let holder = LockHolder.current
    guard !Task.isCancelled, tryAcquire(nil, holder, .none, .none) else {
      requireNotHeld(by: holder)
      try await acquireSlowly(holder, timeout)
      return holder
    }
    return holder
  }

  nonisolated(nonsending) private final func acquireSlowly(_ holder: LockHolder, _ timeout: Duration?) async throws {
    try await wait(timeout: timeout) {
      MutexNode(wait: WaitNode($0), holder: holder, block: .none)
    } attempt: {
      attempt($0)
    } withdraw: {
      machine.withdraw($0)
      return .done
    }
  }

  /// Takes the mutex if it is free, on whichever thread.
  @usableFromInline
  final func acquireIfAvailable() -> LockHolder? {
    let (holder, block) = LockHolder.currentWithBlock
    return tryAcquire(holder.coroutineID == nil ? nil : .current, holder, block, .here) ? holder : nil
  }

  /// - Parameters:
  ///   - core: the caller, if it is a coroutine, whose access is noted in the frame; `nil`: the frame is as it shall be.
  @inline(__always)
  private final func tryAcquire(  // litmus: lock-handover
    _ core: @autoclosure () -> CoroutineCore?, _ holder: LockHolder, _ block: HolderBlock, _ frame: HolderFrame
  ) -> Bool {
    let (taken, _) = word.compareExchange(
      expected: 0, desired: holder.word, successOrdering: .acquiring, failureOrdering: .relaxed)
    guard taken else { return false }
    holderBlock.store(block.address, ordering: .relaxed)
    holderFrame.store(frame.address, ordering: .relaxed)
    if hasConditions.load(ordering: .relaxed) { noteAccess(frame, core()) }
    return true
  }

  @inline(never)
  private final func noteAccess(_ frame: HolderFrame, _ core: CoroutineCore?) {
    holderAccess.store(core.map { frame.notingAccess(of: $0).access } ?? frame.access, ordering: .relaxed)
  }

  /// Another holder's, or the caller's, where `lock` is held.
  private final func note(_ block: HolderBlock, _ frame: HolderFrame) {
    holderBlock.store(block.address, ordering: .relaxed)
    holderFrame.store(frame.address, ordering: .relaxed)
    // Without conditions a next holder that need not wait would leave it.
    let access = hasConditions.load(ordering: .relaxed) ? frame.access : HolderFrame.notNoted
    holderAccess.store(access, ordering: .relaxed)
  }

  /// The caller holds `lock`.
  private final func attempt(_ node: MutexStateMachine.Node) -> Attempt {
    if takeOrMark(node.pointee.holder, node.pointee.block, node.pointee.frame) { return .done }
    machine.append(node)
    return .wait
  }

  /// Takes the mutex, if it is free. If not, it is marked: its holder needs the lock to give it back. The caller holds `lock`.
  private final func takeOrMark(_ holder: LockHolder, _ block: HolderBlock, _ frame: HolderFrame) -> Bool {
    var found = word.load(ordering: .relaxed)
    while true {
      let step = MutexStateMachine.lock(by: holder, found: found)
      let desired =
        switch step {
        case .take(let word), .wait(let word): word
        }
      // A free one is taken, and one without waiters given back, without the lock.
      let (exchanged, now) = word.compareExchange(
        expected: found, desired: desired, successOrdering: .acquiring, failureOrdering: .relaxed)
      guard exchanged else {
        found = now
        continue
      }
      guard case .take = step else { return false }
      note(block, frame)
      return true
    }
  }

  private final func requireNotHeld(by holder: LockHolder) {
    require(
      !isHeld(by: holder),
      "\(CoroutineCore.current?.description ?? "async code") locks \(named("mutex", name)), which it holds already: it "
        + "would wait for itself for ever. Use what the closure of the outer withLock was given.")
  }

  final func isHeld(by holder: LockHolder) -> Bool {
    self.holder == holder
  }

  /// Where on a stack the mutex was taken. Ask only as the holder, or as code of the holder's coroutine or task.
  final var frame: HolderFrame {
    HolderFrame(address: holderFrame.load(ordering: .relaxed), access: holderAccess.load(ordering: .relaxed))
  }

  // MARK: Unlocking

  /// Gives the mutex back, to the longest waiter. Called by its holder, on any thread.
  @usableFromInline
  final func release(_ holder: LockHolder) {
    let (isFree, _) = word.compareExchange(
      expected: holder.word, desired: 0, successOrdering: .releasing, failureOrdering: .relaxed)
    if !isFree { handOver(of: holder) }
  }

  @inline(never)
  private final func handOver(of holder: LockHolder) {
    lock.lock()
    // Else it would be taken from a holder that is in the middle of its closure.
    require(
      isHeld(by: holder),
      "\(label) is given back by a closure of withLock that does not hold it any more")
    let (next, nextHolder) = machine.unlock()
    if let nextHolder { note(nextHolder.pointee.block, nextHolder.pointee.frame) }
    word.store(next, ordering: .releasing)  // litmus: lock-handover
    let waiter = nextHolder?.pointee.wait.waiter
    lock.unlock()
    waiter?.wake()
  }

  // MARK: For conditions

  /// One was made. The present holder's accesses are not known.
  final func noteCondition() { hasConditions.store(true, ordering: .relaxed) }

  /// Takes the mutex back for a coroutine that gave it up for a while: cancelled or not.
  ///
  /// - Parameter frame: that of before: the closure is the same, and may be further outwards than the wait.
  final func reacquire(_ core: CoroutineCore, _ holder: LockHolder, _ frame: HolderFrame) {
    guard !tryAcquire(nil, holder, HolderBlock(core), frame) else { return }
    let shield = CancellationRegion(of: core, isShield: true)
    defer { shield.close() }
    do { try acquireSlowly(core, holder, frame, nil) } catch { fatalError("a shielded wait was ended: \(error)") }
  }

  /// Takes the mutex back for a task.
  nonisolated(nonsending) final func reacquire(_ holder: LockHolder) async {
    guard !tryAcquire(nil, holder, .none, .none) else { return }
    // In a task of its own, which is never cancelled.
    await Task<Void, Never>(executorPreference: preferredExecutor) {
      do { try await self.acquireSlowly(holder, nil) } catch { fatalError("a shielded wait was ended: \(error)") }
    }.value
  }

  // MARK: As a case of a select, whose caller holds `lock`

  /// Takes the mutex, if it is free; if not, it is ready to be waited for, as long as the lock is held.
  final func tryAcquireMarking(_ holder: LockHolder, _ block: HolderBlock, _ frame: HolderFrame) -> Bool {
    requireNotHeld(by: holder)
    return takeOrMark(holder, block, frame)
  }

  /// Waits for a mutex that was marked under the same lock.
  final func enqueue(_ node: MutexStateMachine.Node) { machine.append(node) }

  final func withdraw(_ node: MutexStateMachine.Node) { machine.withdraw(node) }

  // MARK: For people

  final var holder: LockHolder { MutexStateMachine.holder(in: word.load(ordering: .acquiring)) }

  override package final func wakers(_ operation: WaitReason.Operation) -> Wakers { Wakers(holder: holder.coroutineID) }

  /// How many wait, those included that have given up but not yet withdrawn. For tests.
  final var waiterCount: Int { lock.withLock { machine.waiters.count } }

  final var label: String { named("mutex", name) }

  override package final func describe(_ operation: WaitReason.Operation) -> String {
    WaitText.mutex(name, holder: holder.description(at: HolderBlock(address: holderBlock.load(ordering: .relaxed))))
  }
}
