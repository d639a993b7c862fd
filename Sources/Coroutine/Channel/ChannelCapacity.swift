/// How many elements a channel keeps for receivers that have not come yet.
public enum ChannelCapacity: Sendable, Equatable {
  /// None: a sender waits for its receiver.
  case rendezvous
  /// So many: a sender waits only while they are all there. `buffered(0)` is a rendezvous. Memory is taken as it is
  /// needed, not at once.
  case buffered(Int)
  /// As many as are sent: a sender never waits. For as long as memory suffices, which ends the program when it does not.
  case unbounded
  /// The newest: a sender never waits, and replaces an older element that was not received yet.
  case conflated
  /// So many, the newest: a sender never waits; while they are all there it takes the place of the oldest. `newest(1)` is
  /// conflated.
  case newest(Int)
}
