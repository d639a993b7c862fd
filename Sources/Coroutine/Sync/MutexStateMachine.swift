// SPDX-License-Identifier: Apache-2.0

/// The waiters of a mutex, and the transitions of its word. Pure: no lock, no switch, and the word is its owner's.
///
/// The word is 0 while the mutex is free. Otherwise it is the holder, with the lowest bit (the mark) set as soon as
/// there may be waiters. Any thread takes a free mutex by exchanging the word alone, and the holder gives one without
/// waiters back in the same way. All else happens under the storage's lock:
///
/// - The mark is set under the lock, and not cleared while there are waiters.
/// - Where it is set only the holder changes the word, under the lock. It hands the mutex over to the longest waiter,
///   which holds it before it runs. So a waiter is never overtaken.
struct MutexStateMachine {
  typealias Node = UnsafeMutablePointer<MutexNode>

  private(set) var waiters = WaitQueue<MutexNode>()

  static var mark: UInt64 { 1 }

  /// The holder in a word.
  static func holder(in word: UInt64) -> LockHolder { LockHolder(word: word & ~mark) }

  enum Step: Equatable {
    /// Exchange the word for this one: then the mutex is taken.
    case take(UInt64)
    /// Exchange the word for this one, which may be the same: then append the node.
    case wait(UInt64)
  }

  /// What a caller that found `word` and wants the mutex has to do.
  static func lock(by holder: LockHolder, found word: UInt64) -> Step {
    word == 0 ? .take(holder.word) : .wait(word | mark)
  }

  /// A caller waits: the word has the mark.
  mutating func append(_ node: Node) {
    waiters.append(node)
  }

  /// A waiter gives up.
  mutating func withdraw(_ node: Node) {
    waiters.remove(node)
  }

  /// The holder gives back a mutex whose word has the mark. Returns the new word, and the new holder.
  mutating func unlock() -> (word: UInt64, nextHolder: Node?) {
    guard let nextHolder = waiters.popClaimed() else { return (0, nil) }
    return (nextHolder.pointee.holder.word | (waiters.isEmpty ? 0 : Self.mark), nextHolder)
  }

  /// Whether the invariants hold while the word is this one; for tests.
  func checkInvariants(_ word: UInt64) -> Bool {
    word & Self.mark == 0 ? waiters.isEmpty : Self.holder(in: word) != .none
  }
}

/// A waiter for a mutex.
struct MutexNode: WaitingNode {
  var wait: WaitNode
  /// The waiter, as a holder.
  let holder: LockHolder
  let block: HolderBlock
  /// Where it waits, and goes on with the mutex.
  var frame = HolderFrame.none
}
