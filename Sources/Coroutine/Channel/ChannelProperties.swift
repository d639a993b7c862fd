// SPDX-License-Identifier: Apache-2.0

// What can be seen of a channel from outside. Callable from everywhere. An answer is true at one moment during the
// call. It may be outdated when the call returns, unless the caller is the channel's only user.

extension Channel where Element: ~Copyable {
  /// The name it was given; empty without one.
  public var name: String { storage.name }

  /// How many elements it keeps for receivers that have not come yet, as it was given. Does not change.
  public var capacity: ChannelCapacity { storage.capacity }

  /// How many elements are in the buffer. Those of senders that wait are not.
  public var count: Int { storage.lock.withLock { storage.machine.buffer.count } }

  /// Whether there is nothing in the buffer. A rendezvous has none, so it is always empty.
  public var isEmpty: Bool { count == 0 }

  /// Whether the buffer has no room, so that a sender has to wait unless a receiver does already. A rendezvous is always
  /// full; an unbounded channel, and one that keeps the newest, never.
  public var isFull: Bool {
    storage.lock.withLock { !storage.machine.isConflated && storage.machine.buffer.count >= storage.machine.limit }
  }

  /// Whether it was closed. There may still be something in the buffer.
  public var isClosed: Bool { storage.lock.withLock { storage.machine.isClosed } }

  /// How many wait to send: coroutines, tasks and threads. One that was cancelled this moment may still be among them.
  public var waitingSenderCount: Int { storage.lock.withLock { storage.machine.senders.count } }

  /// How many wait to receive. One that was cancelled this moment may still be among them.
  public var waitingReceiverCount: Int { storage.lock.withLock { storage.machine.receivers.count } }
}
