// SPDX-License-Identifier: Apache-2.0

/// Which coroutines read, by number: the first few of them, as many as a search for deadlocks needs in order to find one.
///
/// Each word is 0 or one reader's number, from its entry to its leave. So a debugger that reads the words without the
/// writer's lock finds only coroutines that read.
struct KnownReaders {
  private var slots: InlineArray<8, UInt64> = .init(repeating: 0)

  /// Notes a reader, if it is a coroutine and there is room.
  mutating func insert(_ reader: LockHolder) {
    guard let id = reader.coroutineID else { return }
    for index in slots.indices where slots[index] == 0 {
      slots[index] = id
      return
    }
  }

  /// A reader leaves. One that has entered several times stays listed for its other entries.
  mutating func remove(_ reader: LockHolder) {
    guard let id = reader.coroutineID else { return }
    for index in slots.indices where slots[index] == id {
      slots[index] = 0
      return
    }
  }

  /// Whether a coroutine reads, as far as is known.
  func contains(_ reader: LockHolder) -> Bool {
    guard let id = reader.coroutineID else { return false }
    return slots.indices.contains { slots[$0] == id }
  }

  /// The numbers of those that are known.
  var ids: [UInt64] { slots.indices.map { slots[$0] }.filter { $0 != 0 } }
}
