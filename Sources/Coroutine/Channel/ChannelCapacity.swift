// SPDX-License-Identifier: Apache-2.0

/// How many elements a channel keeps for receivers that have not come yet.
public enum ChannelCapacity: Sendable, Equatable {
  /// None: a sender waits for its receiver.
  case rendezvous
  /// This many: a sender waits only while the buffer is full. `buffered(0)` is a rendezvous. Memory is taken as it is
  /// needed, not at once.
  case buffered(Int)
  /// Without a limit: a sender never waits. If the memory does not suffice, the program ends.
  case unbounded
  /// The newest: a sender never waits, and replaces an older element that was not received yet.
  case conflated
  /// The newest ones, this many: a sender never waits; while the buffer is full it replaces the oldest. `newest(1)` is
  /// conflated.
  case newest(Int)
}
