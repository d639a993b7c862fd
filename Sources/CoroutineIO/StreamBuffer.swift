// SPDX-License-Identifier: Apache-2.0

import CoroutineLibc

/// Bytes that were read and that no reader has taken yet: a part of one allocation, which exists only while there are
/// any.
///
/// So a connection that waits for its peer uses no memory for bytes that have not come.
struct StreamBuffer: ~Copyable {
  private var memory: UnsafeMutableRawPointer?
  private(set) var capacity = 0
  private var start = 0
  private var end = 0

  /// How much is read ahead at a time, at least.
  static var usualCapacity: Int { 16_384 }

  deinit { free(memory) }

  var count: Int { end - start }
  var isEmpty: Bool { start == end }

  /// The bytes, valid until the buffer is changed.
  var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: memory.map { $0 + start }, count: count) }

  /// The room behind the bytes.
  var room: UnsafeMutableRawBufferPointer {
    UnsafeMutableRawBufferPointer(start: memory.map { $0 + end }, count: capacity - end)
  }

  /// Gives a large block up in which few bytes are left, and `space` more are wanted: a peer that sends no more would keep it.
  mutating func releaseSurplus(_ space: Int) {
    guard let memory, capacity > 4 * Self.usualCapacity, count + space <= Self.usualCapacity,
      // Where there is no memory for another block, the large one does.
      let target = malloc(Self.usualCapacity)
    else { return }
    memcpy(target, memory + start, count)
    free(memory)
    self.memory = target
    capacity = Self.usualCapacity
    end -= start
    start = 0
  }

  /// Makes room for `space` bytes more behind those that are here.
  mutating func reserve(_ space: Int) {
    guard capacity - end < space else { return }
    if let memory, capacity - count >= space {
      memmove(memory, memory + start, count)
    } else {
      let larger = max(count + space, 2 * capacity, Self.usualCapacity)
      guard let target = malloc(larger) else { fatalError("no memory for \(larger) bytes of a stream") }
      if let memory { memcpy(target, memory + start, count) }
      free(memory)
      memory = target
      capacity = larger
    }
    end -= start
    start = 0
  }

  /// `count` bytes have been written to the room.
  mutating func add(_ count: Int) {
    end += count
  }

  /// Moves the first bytes to `target`, as many as there are and as it has room for.
  mutating func take(into target: UnsafeMutableRawBufferPointer) -> Int {
    let taken = min(count, target.count)
    target.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<taken]))
    start += taken
    return taken
  }

  /// Takes the first `count` bytes, of those that are here.
  mutating func take(_ count: Int) -> [UInt8] {
    let taken = [UInt8](UnsafeRawBufferPointer(rebasing: bytes[..<count]))
    start += count
    return taken
  }

  /// Drops the first `count` bytes, of those that are here.
  mutating func drop(_ count: Int) {
    start += count
  }

  /// Gives the memory back if no byte is in it.
  mutating func releaseIfEmpty() {
    guard isEmpty, memory != nil else { return }
    free(memory)
    memory = nil
    capacity = 0
    start = 0
    end = 0
  }
}
