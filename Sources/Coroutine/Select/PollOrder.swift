import Synchronization

/// The order in which a select looks at its cases: every permutation is equally likely, so that of those that are ready
/// each is as likely to be found first. (A random start alone would favour a case behind others that are not ready.)
///
/// Drawn step by step, the way of Fisher and Yates: whoever finds the first case ready has drawn one number.
@usableFromInline
struct PollOrder {
  /// So many places fit into a word, four bits each.
  @inlinable static var wordCapacity: Int { 16 }

  @usableFromInline var random: RandomWord
  @usableFromInline let count: Int
  /// The permutation, unless there is a table.
  @usableFromInline var word: UInt64 = 0xFEDC_BA98_7654_3210
  /// The permutation of more places; belongs to whoever made the order.
  @usableFromInline let table: UnsafeMutablePointer<UInt32>?

  /// - Parameter table: room for `count` places, where they do not fit into a word.
  @inlinable
  init(of count: Int, _ random: RandomWord, table: UnsafeMutablePointer<UInt32>? = nil) {
    self.count = count
    self.random = random
    self.table = table
    guard let table else { return }
    for place in 0..<count { table[place] = UInt32(place) }
  }

  /// What comes at `step`, which is the number of the steps drawn before.
  @inlinable @inline(__always)
  mutating func draw(_ step: Int) -> Int {
    let other = step + random.next(below: count - step)
    if let table {
      (table[step], table[other]) = (table[other], table[step])
    } else {
      let difference = (word >> (4 * UInt64(step)) ^ word >> (4 * UInt64(other))) & 15
      word ^= difference << (4 * UInt64(step))
      // Where both are the same place nothing differs.
      word ^= difference << (4 * UInt64(other))
    }
    return self[step]
  }

  /// What came at `step`.
  @inlinable @inline(__always)
  subscript(step: Int) -> Int {
    if let table { return Int(table[step]) }
    return Int(word >> (4 * UInt64(step)) & 15)
  }
}

/// Marsaglia's xorshift: a word of state, and three shifts a number.
@usableFromInline
struct RandomWord {
  /// Zero: not seeded yet.
  @usableFromInline var state: UInt32

  @inlinable @inline(__always)
  init() { state = 0 }

  /// Numbers for one of many users: neighbouring seeds begin far from each other.
  @inlinable
  init(seed: UInt64) {
    state = UInt32(truncatingIfNeeded: ((seed &+ 1) &* 0x9E37_79B9_7F4A_7C15) &>> 32)
    if state == 0 { state = 1 }
  }

  /// This one, or, if it is not seeded yet, one that begins with `seed`.
  @inlinable @inline(__always)
  func seeded(_ seed: @autoclosure () -> UInt64) -> RandomWord { state == 0 ? RandomWord(seed: seed()) : self }

  /// A number below `bound`, which is less than 2^16. As even as 2^32 states allow.
  @inlinable @inline(__always)
  mutating func next(below bound: Int) -> Int {
    state ^= state &<< 13
    state ^= state &>> 17
    state ^= state &<< 5
    return Int(truncatingIfNeeded: (UInt64(state) &* UInt64(truncatingIfNeeded: bound)) &>> 32)
  }
}

extension RandomWord {
  /// Numbers for one select in `async` code, which has no coroutine to keep a word for the next.
  @usableFromInline
  static func unique() -> RandomWord { RandomWord(seed: seeds.wrappingAdd(1, ordering: .relaxed).newValue) }

  private static let seeds = Atomic<UInt64>(0)
}
