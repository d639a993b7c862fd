import CCoroutineAllocations

/// Something that is done again and again, and how often the process may ask for memory meanwhile.
struct Operation {
  /// So often it is done before the count begins, and then again while it is counted.
  static let repeats = 1000
  /// So often other threads of the process may ask for memory meanwhile.
  static let spare = 50

  let name: String
  /// So often in `repeats` times.
  let most: Int
  /// Runs it, by `counted`.
  let measure: () throws -> Int

  init(_ name: String, most: Int = spare, _ measure: @escaping () throws -> Int) {
    self.name = name
    self.most = most
    self.measure = measure
  }

  /// How often the whole process asks for memory while `step` is done `repeats` times. What is made for the first use, is
  /// made before.
  static func counted(_ step: () throws -> Void) rethrows -> Int {
    for _ in 0..<repeats { try step() }
    let before = coroutine_allocations()
    for _ in 0..<repeats { try step() }
    return coroutine_allocations() - before
  }
}
