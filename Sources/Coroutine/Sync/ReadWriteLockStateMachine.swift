/// Who reads, who writes, and who waits for that. Pure: no lock, no switch.
///
/// Invariants: never is there a writer beside readers. Whoever is first in the queue, if its wait has not ended, can't go
/// on beside those who have the lock: so a reader waits there only for a writer.
struct ReadWriteLockStateMachine {
  typealias Node = UnsafeMutablePointer<ReadWriteLockNode>

  private(set) var readers = 0
  /// Some of them, for debuggers.
  private(set) var knownReaders = KnownReaders()
  /// `none` without one.
  private(set) var writer = LockHolder.none
  private(set) var writerPlace = HolderPlace.none
  private(set) var waiters = WaitQueue<ReadWriteLockNode>()

  /// Somebody wants the lock: behind those that wait.
  mutating func lock(_ node: Node) -> Attempt {
    if waiters.isEmpty, admits(node.pointee.kind) {
      enter(node.pointee)
      return .done
    }
    waiters.append(node)
    return .wait
  }

  /// Somebody wants to read now or not at all.
  mutating func tryRead(_ holder: LockHolder) -> Bool {
    guard waiters.isEmpty, admits(.reader) else { return false }
    beginRead(holder)
    return true
  }

  /// Somebody wants to write now or not at all.
  mutating func tryWrite(_ holder: LockHolder, _ place: HolderPlace) -> Bool {
    guard waiters.isEmpty, admits(.writer) else { return false }
    (writer, writerPlace) = (holder, place)
    return true
  }

  /// A reader has read. Returns those who have the lock now.
  mutating func endRead(_ holder: LockHolder) -> ClaimedWaiters {
    require(readers > 0, "a ReadWriteLock is given back by a reader, and nobody reads")
    readers -= 1
    knownReaders.remove(holder)
    return grant()
  }

  /// The writer has written. Returns those who have the lock now.
  mutating func endWrite() -> ClaimedWaiters {
    require(writer != .none, "a ReadWriteLock is given back by a writer, and nobody writes")
    (writer, writerPlace) = (.none, .none)
    return grant()
  }

  /// Somebody gives up: those behind it may have been held up by it alone.
  mutating func withdraw(_ node: Node) -> ClaimedWaiters {
    waiters.remove(node)
    return grant()
  }

  /// Lets in those who have waited longest, as far as they get on with each other.
  private mutating func grant() -> ClaimedWaiters {
    var granted = ClaimedWaiters()
    while let node = waiters.first, admits(node.pointee.kind) {
      waiters.remove(node)
      // One who has given up meanwhile is only taken out.
      guard node.pointee.wait.waiter.claim(node.pointee.wait.cause) else { continue }
      enter(node.pointee)
      granted.append(node)
    }
    return granted
  }

  private func admits(_ kind: ReadWriteLockNode.Kind) -> Bool {
    writer == .none && (kind == .reader || readers == 0)
  }

  private mutating func enter(_ node: ReadWriteLockNode) {
    switch node.kind {
    case .reader: beginRead(node.holder)
    case .writer: (writer, writerPlace) = (node.holder, node.place)
    }
  }

  private mutating func beginRead(_ holder: LockHolder) {
    readers += 1
    knownReaders.insert(holder)
  }
}

/// Somebody who waits for a read-write lock.
struct ReadWriteLockNode: WaitingNode {
  enum Kind {
    case reader, writer
  }

  var wait: WaitNode
  let kind: Kind
  /// Who it is, as a reader or a writer.
  let holder: LockHolder
  let place: HolderPlace
}
