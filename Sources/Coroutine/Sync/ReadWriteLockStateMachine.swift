// SPDX-License-Identifier: Apache-2.0

/// The readers, the writer and the waiters. Pure: no lock, no switch.
///
/// Invariants: there is never a writer beside readers. The first waiter in the queue, if its wait has not ended, can't
/// go on beside the holders: so a reader waits there only for a writer. The exception: one before it has given up, and has not
/// withdrawn yet. Its withdrawal lets this one in.
struct ReadWriteLockStateMachine {
  typealias Node = UnsafeMutablePointer<ReadWriteLockNode>

  private(set) var readers = 0
  /// Some of them, for debuggers.
  private(set) var knownReaders = KnownReaders()
  /// `none` without one.
  private(set) var writer = LockHolder.none
  private(set) var writerBlock = HolderBlock.none
  private(set) var waiters = WaitQueue<ReadWriteLockNode>()

  /// A caller wants the lock: behind the waiters.
  mutating func lock(_ node: Node) -> Attempt {
    if waiters.firstWaiting() == nil, admits(node.pointee.kind) {
      admit(node.pointee)
      return .done
    }
    waiters.append(node)
    return .wait
  }

  /// A caller wants to read now or not at all.
  mutating func tryRead(_ holder: LockHolder) -> Bool {
    guard waiters.firstWaiting() == nil, admits(.reader) else { return false }
    beginRead(holder)
    return true
  }

  /// A caller wants to write now or not at all.
  mutating func tryWrite(_ holder: LockHolder, _ block: HolderBlock) -> Bool {
    guard waiters.firstWaiting() == nil, admits(.writer) else { return false }
    (writer, writerBlock) = (holder, block)
    return true
  }

  /// A reader has read. Returns the new holders.
  mutating func endRead(_ holder: LockHolder) -> ClaimedWaiters {
    require(readers > 0, "a ReadWriteLock is given back by a reader, and there is none")
    readers -= 1
    knownReaders.remove(holder)
    return grant()
  }

  /// The writer has written. Returns the new holders.
  mutating func endWrite() -> ClaimedWaiters {
    require(writer != .none, "a ReadWriteLock is given back by a writer, and there is none")
    (writer, writerBlock) = (.none, .none)
    return grant()
  }

  /// A waiter gives up: those behind it may have waited only for it.
  mutating func withdraw(_ node: Node) -> ClaimedWaiters {
    waiters.remove(node)
    return grant()
  }

  /// Lets in the longest waiters, as long as each may hold the lock beside those before it.
  private mutating func grant() -> ClaimedWaiters {
    var granted = ClaimedWaiters()
    while let node = waiters.firstWaiting(), admits(node.pointee.kind) {
      guard waiters.claim(node) else { continue }
      admit(node.pointee)
      granted.append(node)
    }
    return granted
  }

  private func admits(_ kind: ReadWriteLockNode.Kind) -> Bool {
    writer == .none && (kind == .reader || readers == 0)
  }

  private mutating func admit(_ node: ReadWriteLockNode) {
    switch node.kind {
    case .reader: beginRead(node.holder)
    case .writer: (writer, writerBlock) = (node.holder, node.block)
    }
  }

  private mutating func beginRead(_ holder: LockHolder) {
    readers += 1
    knownReaders.insert(holder)
  }

  /// Whether the invariants hold; for tests.
  ///
  /// - Parameter someHaveToWithdraw: whether a waiter whose wait has ended has not withdrawn yet.
  func checkInvariants(someHaveToWithdraw: Bool) -> Bool {
    guard writer == .none || readers == 0, knownReaders.ids.count <= readers else { return false }
    guard let first = waiters.first else { return true }
    // What is free nobody waits for, in any case.
    return (writer != .none || readers > 0) && (someHaveToWithdraw || !admits(first.pointee.kind))
  }
}

/// A waiter for a read-write lock.
struct ReadWriteLockNode: WaitingNode {
  enum Kind {
    case reader, writer
  }

  var wait: WaitNode
  let kind: Kind
  /// The waiter, as a reader or a writer.
  let holder: LockHolder
  let block: HolderBlock
}
