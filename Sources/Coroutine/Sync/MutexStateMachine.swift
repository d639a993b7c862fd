/// Who waits for a mutex, and what becomes of the mutex's word. Pure: no lock, no switch, and the word is its owner's.
///
/// The word is 0 while the mutex is free, else its holder, with the lowest bit set as soon as somebody may wait. Anybody
/// takes a free one, and the holder gives back one without waiters, by exchanging the word alone. All else happens under
/// the storage's lock:
///
/// - The mark is set under the lock, and not cleared while somebody waits.
/// - Where it is set only the holder changes the word, under the lock: it hands the mutex over to whoever waits longest,
///   who holds it before it runs. So nobody overtakes a waiter.
struct MutexStateMachine {
  typealias Node = UnsafeMutablePointer<MutexNode>

  var waiters = WaitQueue<MutexNode>()

  static var mark: UInt64 { 1 }

  /// The holder in a word.
  static func holder(in word: UInt64) -> LockHolder { LockHolder(word: word & ~mark) }

  enum Step: Equatable {
    /// Exchange the word for this one: then the mutex is taken.
    case take(UInt64)
    /// Exchange the word for this one, which may be the same: then append the node.
    case wait(UInt64)
  }

  /// What somebody has to do who found `word` and wants the mutex.
  static func lock(by holder: LockHolder, found word: UInt64) -> Step {
    word == 0 ? .take(holder.word) : .wait(word | mark)
  }

  /// Somebody waits: the word has the mark.
  mutating func append(_ node: Node) {
    waiters.append(node)
  }

  /// Somebody gives up.
  mutating func withdraw(_ node: Node) {
    waiters.remove(node)
  }

  /// The holder gives back a mutex whose word has the mark. Returns the new word, and who holds the mutex now.
  mutating func unlock() -> (word: UInt64, heir: Node?) {
    guard let heir = waiters.popClaimed() else { return (0, nil) }
    return (heir.pointee.holder.word | (waiters.isEmpty ? 0 : Self.mark), heir)
  }
}

/// Somebody who waits for a mutex.
struct MutexNode: WaitingNode {
  var wait: WaitNode
  /// Who it is, as a holder.
  let holder: LockHolder
  let place: HolderPlace
}
