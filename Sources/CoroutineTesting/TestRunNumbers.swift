// SPDX-License-Identifier: Apache-2.0

/// The numbers of a run that are no options.
extension TestRun {
  /// After how many turns the run looks whether its time is up: so rarely that the look at the clock costs nothing.
  static var turnsPerLook: Int { 4096 }
  /// How many turns and steps of the time the cancelled coroutines of a run get in order to end: a body that ignores its cancel
  /// may go on for ever.
  static var mostTurnsAtEnd: Int { 10_000 }
  /// For how long it waits at once, in nanoseconds, where what it waits for may change without an arrival: 20 ms, which
  /// costs little and delays no test for long.
  static var waitBetweenLooks: UInt64 { 20_000_000 }
}
