// SPDX-License-Identifier: Apache-2.0

/// Makes a schedule that fails shorter, as long as it fails: after Zeller's delta debugging, decisions become ordinary ones,
/// many at once and then one by one; and what is left takes the smallest choice that will do.
enum ScheduleShrinker {
  /// - Parameters:
  ///   - choices: those of the latest run that failed. The run may have made fewer than it was given.
  ///   - fails: whether a run by these choices fails in the same way.
  static func shrink(from choices: () -> [Int: Int], _ fails: ([Int: Int]) -> Bool) {
    var budget = 300
    func attempt(_ candidate: [Int: Int]) -> Bool {
      guard budget > 0 else { return false }
      budget -= 1
      return fails(candidate)
    }
    var size = choices().count
    while size > 0, budget > 0 {
      var start = 0
      var hasShrunk = false
      while true {
        let positions = choices().keys.sorted()
        guard start < positions.count else { break }
        let end = min(start + size, positions.count)
        let candidate = choices().filter { !positions[start..<end].contains($0.key) }
        if attempt(candidate) { hasShrunk = true } else { start = end }
        if budget == 0 { return }
      }
      if size == 1, !hasShrunk { break }
      size = size == 1 ? 1 : (size + 1) / 2
    }
    // Without one of them the numbers of those behind it may be others.
    for position in choices().keys.sorted() where choices()[position] != nil {
      for shift in [1, -1, 2, -2] {
        let candidate = choices().filter { $0.key != position }
        let shifted = candidate.map { ($0.key > position ? $0.key + shift : $0.key, $0.value) }
        if attempt(Dictionary(shifted) { first, _ in first }) { break }
      }
    }
    for position in choices().keys.sorted() {
      for choice in 1..<max(1, choices()[position] ?? 1) {
        var candidate = choices()
        candidate[position] = choice
        if attempt(candidate) { break }
      }
    }
  }
}
