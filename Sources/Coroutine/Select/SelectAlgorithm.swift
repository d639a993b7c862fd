// SPDX-License-Identifier: Apache-2.0

public import Context

// How one of several operations is chosen, after Go's select.
//
// 1. Look at them in random order (a biased select: in their own order), each under its own lock. The first that can be
//    done is done. Nothing else is touched.
//    None can, and there is `otherwise`, or a time that is over: before it is chosen, look at the others once more, under the
//    locks of all. Else one may have become possible behind the look at it, before the last one ceased to be.
// 2. None can: take the locks of all, and look again. Still none: a node goes into each queue, all for the same wait,
//    so that a waker that claims it has chosen, and the wakers of other queues can't. Then the coroutine leaves its
//    stack. Its resumer unlocks everything, and only then lets the wait be claimed: see `AfterSwitch.unlockAll`.
// 3. It goes on, and knows from the cause which one was chosen. It takes the nodes of the others out of their queues.
//
// A node is queued only after the last look, so a select never meets itself: one that both sends and receives at a
// channel waits in both queues, for two different partners.

extension Select {
  /// Does one of the operations. Returns which, its node filled; `nil`: the coroutine was cancelled.
  @inlinable @inline(__always)
  static func choose<Operations: SelectOperations>(
    _ operations: Operations, _ count: Int, _ memory: UnsafeMutableRawPointer, for core: Unmanaged<CoroutineCore>,
    isBiased: Bool
  ) -> Int? {
    guard count > PollOrder.wordCapacity else {
      return choose(operations, count, memory, for: core, table: nil, isBiased: isBiased)
    }
    return withUnsafeTemporaryAllocation(of: UInt32.self, capacity: count) { table in
      choose(operations, count, memory, for: core, table: table.baseAddress, isBiased: isBiased)
    }
  }

  @inlinable @inline(__always)
  static func choose<Operations: SelectOperations>(
    _ operations: Operations, _ count: Int, _ memory: UnsafeMutableRawPointer, for core: Unmanaged<CoroutineCore>,
    table: UnsafeMutablePointer<UInt32>?, isBiased: Bool
  ) -> Int? {
    core._withUnsafeGuaranteedRef { $0.countOperation() }
    guard !core._withUnsafeGuaranteedRef({ $0.isHeldUp }) else {
      return chooseIfItMayGoOn(operations, count, memory, for: core, table: table, isBiased: isBiased)
    }
    return chooseNow(operations, count, memory, for: core, table: table, isBiased: isBiased)
  }

  /// Not inlined: it would be in the way of those that are not held up.
  @inlinable @inline(never)
  static func chooseIfItMayGoOn<Operations: SelectOperations>(
    _ operations: Operations, _ count: Int, _ memory: UnsafeMutableRawPointer, for core: Unmanaged<CoroutineCore>,
    table: UnsafeMutablePointer<UInt32>?, isBiased: Bool
  ) -> Int? {
    guard core._withUnsafeGuaranteedRef({ $0.mayGoOn() }) else { return nil }
    return chooseNow(operations, count, memory, for: core, table: table, isBiased: isBiased)
  }

  @inlinable @inline(__always)
  static func chooseNow<Operations: SelectOperations>(
    _ operations: Operations, _ count: Int, _ memory: UnsafeMutableRawPointer, for core: Unmanaged<CoroutineCore>,
    table: UnsafeMutablePointer<UInt32>?, isBiased: Bool
  ) -> Int? {
    let random =
      isBiased ? RandomWord.none : core._withUnsafeGuaranteedRef { $0.random.seeded($0.seed(forCases: count)) }
    var order = PollOrder(of: count, random, table: table)
    let index = poll(operations, memory, for: .coroutine(core), &order)
    if !isBiased { core._withUnsafeGuaranteedRef { $0.random = order.random } }
    return index ?? core._withUnsafeGuaranteedRef { waitUnlessDefault(operations, memory, for: $0, order) }
  }

  /// Does one of the operations if it is possible at once. If none is, the order has been drawn to the end.
  @inlinable @inline(__always)
  static func poll<Operations: SelectOperations>(
    _ operations: Operations, _ memory: UnsafeMutableRawPointer, for waiter: Waiter, _ order: inout PollOrder
  ) -> Int? {
    for step in 0..<order.count {
      let index = order.draw(step)
      let attempt = operations.visit(index, memory, LockingAttempt(party: Party(waiter, index)))
      if case .wait = attempt { continue }
      attempt.wakeOthers()
      return index
    }
    return nil
  }

  /// The operation that is chosen at its time if none is before, and that time; `nil`: the wait has no limit. Of several at the
  /// same time, `otherwise` among them, the first in the drawn order. Called when the wait begins.
  @inlinable
  static func fallback<Operations: SelectOperations>(
    of operations: Operations, _ memory: UnsafeMutableRawPointer, _ order: PollOrder
  ) -> Fallback? {
    var (now, first): (UInt64?, Fallback?)
    for step in 0..<order.count {
      let index = order[step]
      var deadline = WaitDeadline.now
      switch operations.visit(index, memory, GetTarget()).kind {
      case .waitable: continue
      case .otherwise: break
      case .deadline(let instant):
        let begin = now ?? TimerService.shared.now
        if instant > begin { deadline = instant }
        now = begin
      case .timeout(let duration) where duration > .zero:
        let begin = now ?? TimerService.shared.now
        deadline = TimerService.deadline(duration, after: begin)
        now = begin
      case .timeout: break
      }
      if first.map({ deadline < $0.deadline }) ?? true { first = Fallback(index, at: deadline) }
    }
    return first
  }

  /// Looks at all operations at one moment, in the order that was drawn before, and does the first that is possible. Needless
  /// where there is one beside `otherwise` or a time: `poll` has looked at it.
  @inlinable @inline(never)
  static func pollTogether<Operations: SelectOperations>(
    _ operations: Operations, _ memory: UnsafeMutableRawPointer, for waiter: Waiter, _ order: PollOrder
  ) -> Int? {
    guard operations.count > 2 else { return nil }
    return withWait(for: operations, memory) { wait in
      wait.pointee.lockAll()
      let found = pollLocked(operations, memory, for: waiter, order)
      wait.pointee.unlockAll()
      found?.1.wakeOthers()
      return found?.0
    }
  }

  /// Which operation is chosen at a time if none is before.
  @usableFromInline
  struct Fallback {
    @usableFromInline let index: Int
    @usableFromInline let deadline: UInt64

    @inlinable
    init(_ index: Int, at deadline: UInt64) {
      self.index = index
      self.deadline = deadline
    }
  }

  @inlinable @inline(never)
  static func waitUnlessDefault<Operations: SelectOperations>(
    _ operations: Operations, _ memory: UnsafeMutableRawPointer, for core: CoroutineCore, _ order: PollOrder
  ) -> Int? {
    require(order.count > 0, "a select without a case would wait for ever: give it one, or `otherwise`")
    let fallback = fallback(of: operations, memory, order)
    if let fallback, fallback.deadline == WaitDeadline.now {
      return pollTogether(operations, memory, for: .coroutine(.passUnretained(core)), order) ?? fallback.index
    }
    return withWait(for: operations, memory) { wait in
      let waiter = Waiter.coroutine(.passUnretained(core))
      while true {
        core.parking.prepare()
        wait.pointee.lockAll()
        if core.isInterrupted {
          core.parking.abandon()
          wait.pointee.unlockAll()
          return nil
        }
        if let (index, attempt) = pollLocked(operations, memory, for: waiter, order) {
          core.parking.abandon()
          wait.pointee.unlockAll()
          attempt.wakeOthers()
          return index
        }
        if arePrepared(operations, memory) { break }
        core.parking.abandon()
        wait.pointee.unlockAll()
        prepare(operations, memory)
      }
      enqueue(operations, memory, for: waiter, order)
      let cause = core.park(.select, jointly: wait, until: fallback?.deadline ?? WaitDeadline.never)
      let chosen = cause == .timedOut ? fallback?.index : cause.selectedIndex
      withdraw(operations, memory, except: chosen)
      return chosen
    }
  }

  // MARK: Under all locks

  /// Lists what the operations wait for, on the stack.
  @inlinable @inline(__always)
  static func withWait<Operations: SelectOperations, Result>(
    for operations: Operations, _ memory: UnsafeMutableRawPointer, _ body: (UnsafeMutablePointer<JointWait>) -> Result
  ) -> Result {
    let count = operations.count
    return withUnsafeTemporaryAllocation(of: JointWait.Target.self, capacity: count) { targets in
      withUnsafeTemporaryAllocation(of: Unmanaged<Waitable>.self, capacity: count) { room in
        for index in 0..<count {
          targets.initializeElement(at: index, to: operations.visit(index, memory, GetTarget()).kind)
        }
        var wait = JointWait(targets, room: room)
        return withUnsafeMutablePointer(to: &wait, body)
      }
    }
  }

  /// Looks again, in the order that was drawn before.
  @inlinable
  static func pollLocked<Operations: SelectOperations>(
    _ operations: Operations, _ memory: UnsafeMutableRawPointer, for waiter: Waiter, _ order: PollOrder
  ) -> (Int, Coroutine::Attempt)? {
    for step in 0..<order.count {
      let index = order[step]
      let attempt = operations.visit(index, memory, LockedAttempt(party: Party(waiter, index)))
      if case .wait = attempt { continue }
      return (index, attempt)
    }
    return nil
  }

  /// Whether all may wait.
  @inlinable @inline(__always)
  static func arePrepared<Operations: SelectOperations>(
    _ operations: Operations, _ memory: UnsafeMutableRawPointer
  ) -> Bool {
    for index in 0..<operations.count where !operations.visit(index, memory, IsPrepared()) { return false }
    return true
  }

  /// Without the locks.
  @inlinable @inline(never)
  static func prepare<Operations: SelectOperations>(_ operations: Operations, _ memory: UnsafeMutableRawPointer) {
    for index in 0..<operations.count { operations.visit(index, memory, Prepare()) }
  }

  /// In the order that was drawn before: of several cases at one channel that wait, it serves the first in its queue.
  @inlinable
  static func enqueue<Operations: SelectOperations>(
    _ operations: Operations, _ memory: UnsafeMutableRawPointer, for waiter: Waiter, _ order: PollOrder
  ) {
    for step in 0..<order.count {
      let index = order[step]
      operations.visit(index, memory, Enqueue(party: Party(waiter, index)))
    }
  }

  // MARK: After the wait

  /// Takes those that were not chosen out of their queues.
  @inlinable
  static func withdraw<Operations: SelectOperations>(
    _ operations: Operations, _ memory: UnsafeMutableRawPointer, except chosen: Int?
  ) {
    for index in 0..<operations.count where index != chosen {
      operations.visit(index, memory, Withdraw())
    }
  }
}

// MARK: - Steps

extension Select.Target {
  /// Runs `body` under the lock of what is waited for, if there is one.
  @inlinable @inline(__always)
  func withLock<Result>(_ body: () -> Result) -> Result {
    guard case .waitable(let waitable, _) = kind else { return body() }
    return waitable._withUnsafeGuaranteedRef { waitable in
      waitable.lock.lock()
      defer { waitable.lock.unlock() }
      return body()
    }
  }
}

extension Select {
  @usableFromInline
  struct GetTarget: SelectVisitor {
    @inlinable @inline(__always)
    init() {}

    @inlinable @inline(__always)
    func visit<Operation: SelectOperation>(_ operation: Operation, _ node: UnsafeMutableRawPointer) -> Target {
      operation.target
    }
  }

  @usableFromInline
  struct Prepare: SelectVisitor {
    @inlinable @inline(__always)
    init() {}

    @inlinable @inline(__always)
    func visit<Operation: SelectOperation>(_ operation: Operation, _ node: UnsafeMutableRawPointer) {
      operation.prepare(node)
    }
  }

  @usableFromInline
  struct IsPrepared: SelectVisitor {
    @inlinable @inline(__always)
    init() {}

    @inlinable @inline(__always)
    func visit<Operation: SelectOperation>(_ operation: Operation, _ node: UnsafeMutableRawPointer) -> Bool {
      operation.isPrepared(node)
    }
  }

  @usableFromInline
  struct LockingAttempt: SelectVisitor {
    @usableFromInline let party: Party

    @inlinable @inline(__always)
    init(party: Party) { self.party = party }

    @inlinable @inline(__always)
    func visit<Operation: SelectOperation>(_ operation: Operation, _ node: UnsafeMutableRawPointer)
      -> Coroutine::Attempt
    {
      operation.prepare(node)
      return operation.target.withLock { operation.attempt(node, for: party).result }
    }
  }

  @usableFromInline
  struct LockedAttempt: SelectVisitor {
    @usableFromInline let party: Party

    @inlinable @inline(__always)
    init(party: Party) { self.party = party }

    @inlinable @inline(__always)
    func visit<Operation: SelectOperation>(_ operation: Operation, _ node: UnsafeMutableRawPointer)
      -> Coroutine::Attempt
    {
      operation.attempt(node, for: party).result
    }
  }

  @usableFromInline
  struct Enqueue: SelectVisitor {
    @usableFromInline let party: Party

    @inlinable @inline(__always)
    init(party: Party) { self.party = party }

    @inlinable @inline(__always)
    func visit<Operation: SelectOperation>(_ operation: Operation, _ node: UnsafeMutableRawPointer) {
      operation.enqueue(node, for: party)
    }
  }

  @usableFromInline
  struct Withdraw: SelectVisitor {
    @inlinable @inline(__always)
    init() {}

    @inlinable @inline(__always)
    func visit<Operation: SelectOperation>(_ operation: Operation, _ node: UnsafeMutableRawPointer) {
      let attempt = operation.target.withLock { operation.dequeue(node).result }
      // No other thread has it now. Destroying it may run the user's code, so not under the lock.
      operation.discard(node)
      attempt.wakeOthers()
    }
  }
}
