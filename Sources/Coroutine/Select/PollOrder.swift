// SPDX-License-Identifier: Apache-2.0

/// The order in which a select looks at its cases: every permutation is equally likely, so each of the ready cases is
/// as likely to be found first. (A random start alone would favour a case behind others that are not ready.)
///
/// Drawn step by step (Fisher-Yates): a select that finds the first case ready has drawn one number.
@usableFromInline
struct PollOrder {
  /// So many indices fit into a word, four bits each.
  @inlinable static var wordCapacity: Int { 16 }

  @usableFromInline var random: RandomWord
  @usableFromInline let count: Int
  /// The permutation, unless there is a table.
  @usableFromInline var word: UInt64 = 0xFEDC_BA98_7654_3210
  /// The permutation of more indices. Its memory belongs to the code that made the order.
  @usableFromInline let table: UnsafeMutablePointer<UInt32>?

  /// - Parameter table: room for `count` indices, where they do not fit into a word.
  @inlinable
  init(of count: Int, _ random: RandomWord, table: UnsafeMutablePointer<UInt32>? = nil) {
    self.count = count
    self.random = random
    self.table = table
    guard let table else { return }
    for index in 0..<count { table[index] = UInt32(index) }
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
      // Where both are the same index nothing differs.
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
