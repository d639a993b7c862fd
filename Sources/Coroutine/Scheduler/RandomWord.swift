// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Marsaglia's xorshift: a word of state, and three shifts a number.
@usableFromInline
struct RandomWord {
  /// Zero: not seeded yet.
  @usableFromInline var state: UInt32

  @inlinable @inline(__always)
  init() { state = 0 }

  /// No chance: each number is 0.
  @inlinable @inline(__always)
  static var none: RandomWord { RandomWord() }

  /// Numbers for one of many users: neighbouring seeds begin far from each other.
  @inlinable
  init(seed: UInt64) {
    state = UInt32(truncatingIfNeeded: ((seed &+ 1) &* 0x9E37_79B9_7F4A_7C15) &>> 32)
    if state == 0 { state = 1 }
  }

  /// This one, or, if it is not seeded yet, one that begins with `seed`.
  @inlinable @inline(__always)
  func seeded(_ seed: @autoclosure () -> UInt64) -> RandomWord { state == 0 ? RandomWord(seed: seed()) : self }

  /// A number below `bound`, which is less than 2^22. As even as 2^32 states allow.
  @inlinable @inline(__always)
  mutating func next(below bound: Int) -> Int {
    state ^= state &<< 13
    state ^= state &>> 17
    state ^= state &<< 5
    return Int(truncatingIfNeeded: (UInt64(state) &* UInt64(truncatingIfNeeded: bound)) &>> 32)
  }
}

extension RandomWord {
  /// Numbers for one select of so many cases in `async` code, which has no coroutine to keep a word for the next. In the run of
  /// a test they are a part of the schedule.
  @usableFromInline
  static func unique(forCases count: Int) -> RandomWord {
    if let explorer = SchedulerReference.run?.explorer, count > 1 {
      return RandomWord(seed: seed(forFirst: explorer.chooseCase(of: count), below: count))
    }
    return RandomWord(seed: seeds.wrappingAdd(1, ordering: .relaxed).newValue)
  }

  private static let seeds = Atomic<UInt64>(0)

  /// The least seed by which the first number below `count` is `first`.
  static func seed(forFirst first: Int, below count: Int) -> UInt64 {
    var seed: UInt64 = 0
    while true {
      var random = RandomWord(seed: seed)
      if random.next(below: count) == first { return seed }
      seed &+= 1
    }
  }
}
