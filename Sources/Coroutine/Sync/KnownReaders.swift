// SPDX-License-Identifier: Apache-2.0

/// Which coroutines and tasks read: the first few of them, as many as a search for deadlocks needs in order to find one.
///
/// Each word is 0 or one reader's, from its lock to its unlock. So a debugger that reads the words without the
/// writer's lock finds only those that read.
struct KnownReaders {
  private var slots: InlineArray<8, UInt64> = .init(repeating: 0)

  /// Notes a reader, if it is a coroutine or a task and there is room.
  mutating func insert(_ reader: LockHolder) {
    guard reader != .none else { return }
    for index in slots.indices where slots[index] == 0 {
      slots[index] = reader.word
      return
    }
  }

  /// A reader has read. One that has taken the lock several times stays listed for the others.
  mutating func remove(_ reader: LockHolder) {
    guard reader != .none else { return }
    for index in slots.indices where slots[index] == reader.word {
      slots[index] = 0
      return
    }
  }

  /// Whether a coroutine or a task reads, as far as is known.
  func contains(_ reader: LockHolder) -> Bool {
    guard reader != .none else { return false }
    return slots.indices.contains { slots[$0] == reader.word }
  }

  /// The numbers of the coroutines that are known.
  var ids: [UInt64] { slots.indices.compactMap { LockHolder(word: slots[$0]).coroutineID } }
}
