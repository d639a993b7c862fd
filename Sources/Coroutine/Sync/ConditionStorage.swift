// SPDX-License-Identifier: Apache-2.0

import Context

/// A condition of a mutex, whatever that guards.
// Unchecked: the lock guards the machine, and all else is constant.
final class ConditionStorage: Waitable, @unchecked Sendable {
  let name: String
  private let mutex: MutexCore
  /// Guarded by the lock.
  @exclusivity(unchecked) private var machine = ConditionStateMachine()

  init(mutex: MutexCore, name: String) {
    self.mutex = mutex
    self.name = name
    mutex.noteCondition()
  }

  /// Gives the mutex back, waits for a signal, and takes the mutex again, whatever ended the wait. As the coroutine that
  /// holds it.
  func wait(until deadline: UInt64) -> WakeCause {
    let core = CoroutineCore.running(for: "Condition.wait")
    requireHeld(by: core)
    let (holder, frame) = (LockHolder(core), mutex.frame)
    guard !core.isInterrupted else { return .cancelled }
    var node = ConditionNode(wait: WaitNode(.coroutine(.passUnretained(core))))
    let cause = withUnsafeMutablePointer(to: &node) { node in
      lock.withLock { machine.register(node) }
      mutex.release(holder)
      let cause = wait(core, .condition, by: node, until: deadline) {
        machine.arrive($0)
      } withdraw: {
        machine.withdraw($0)
      }
      // Cancelled before it could even arrive.
      if cause != .event { lockAndWithdraw { machine.withdraw(node) } }
      return cause
    }
    mutex.reacquire(core, holder, frame)
    return cause
  }

  /// The same as the task that holds the mutex.
  nonisolated(nonsending) func wait(until deadline: UInt64) async -> WakeCause {
    requireHeldByTask()
    let holder = LockHolder.current
    guard !Task.isCancelled else { return .cancelled }
    // The node by hand: it is in the queue before the wait begins.
    let task = WaitingTask()
    let node = UnsafeMutablePointer<ConditionNode>.allocate(capacity: 1)
    node.initialize(to: ConditionNode(wait: WaitNode(.task(.passUnretained(task)))))
    defer { node.deallocate() }
    lock.withLock { machine.register(node) }
    mutex.release(holder)
    let cause = await wait(task, until: deadline) {
      machine.arrive(node)
    } withdraw: {
      machine.withdraw(node)
    }
    if cause != .event { lockAndWithdraw { machine.withdraw(node) } }
    await mutex.reacquire(holder)
    return cause
  }

  /// Gives the mutex back, waits for a signal together with other things, and takes the mutex again. As the coroutine that
  /// holds it.
  ///
  /// - Parameter choose: the joint wait, of which the signal is the first case. Returns the number of the case.
  /// - Returns: the number of the case that was chosen; `nil`: it was cancelled.
  func wait(_ core: CoroutineCore, _ node: ConditionStateMachine.Node, choose: () -> Int?) -> Int? {
    requireHeld(by: core)
    let (holder, frame) = (LockHolder(core), mutex.frame)
    guard !core.isInterrupted else { return nil }
    lock.withLock { machine.register(node) }
    mutex.release(holder)
    let chosen = choose()
    // Chosen before it could even arrive, or cancelled.
    if chosen != 0 { lockAndWithdraw { machine.withdraw(node) } }
    mutex.reacquire(core, holder, frame)
    return chosen
  }

  // MARK: As a case of a select, whose caller holds `lock`

  func isSignalled(_ node: ConditionStateMachine.Node) -> Bool { node.pointee.isSignalled }

  /// It was not signalled by then.
  func enqueue(_ node: ConditionStateMachine.Node) { _ = machine.arrive(node) }

  func withdraw(_ node: ConditionStateMachine.Node) -> Attempt { machine.withdraw(node) }

  func signal() {
    lock.lock()
    let waiter = machine.signal()
    lock.unlock()
    waiter?.wake()
  }

  func broadcast() {
    lock.lock()
    let woken = machine.broadcast()
    lock.unlock()
    woken.wakeAll()
  }

  /// Ends the program unless the calling coroutine is in the closure that holds the mutex, and outside of accesses that were begun
  /// in there. Before the value is touched, which is the holder's.
  func requireHeld(by core: CoroutineCore) {
    let frame = mutex.frame
    requireHeld(mutex.isHeld(by: LockHolder(core)) && frame.isAround(core))
    require(
      !frame.isInsideNewerAccess(of: core),
      "\(core.description) waits for \(named("condition", name)) inside an access to a variable (a mutating call, or an inout "
        + "argument) that has begun with \(mutex.label) held: others, which hold the mutex during the wait, could use that "
        + "variable at the same time. Wait outside of it")
  }

  /// The same for the calling task. The closure is async code then. That of `withLockIfAvailable` is not, and can't wait: it is
  /// beside the calling code, as in a generator's body.
  func requireHeldByTask() {
    requireHeld(mutex.isHeld(by: .current) && mutex.frame.address == HolderFrame.none.address)
  }

  private func requireHeld(_ isHeld: Bool) {
    require(
      isHeld,
      "\(CoroutineCore.current?.description ?? "async code") waits for \(named("condition", name)) without holding "
        + "\(mutex.label): call wait inside the closure of its withLock")
  }

  /// How many wait, those included that have given up but not yet withdrawn. For tests.
  var waiterCount: Int { lock.withLock { machine.waiters.count } }

  override package func describe(_ operation: WaitReason.Operation) -> String {
    WaitText.condition(name, ofMutex: mutex.name)
  }
}
