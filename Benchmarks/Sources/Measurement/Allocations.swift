import CMeasurement

/// The blocks that `malloc` hands out, counted by one that stands in for it.
enum Allocations {
  /// How many `work` allocated, on all threads.
  static func counted(_ work: () -> Void) -> Int {
    allocations_start()
    work()
    return Int(allocations_stop())
  }
}
