// SPDX-License-Identifier: Apache-2.0

/// How many coroutines there are in each state, counted one by one.
///
/// ```swift
/// let census = try CoroutineCensus.take()
/// print(census.ready, census.suspended[.receive, default: 0])
/// ```
public struct CoroutineCensus: Equatable, Sendable {
  /// They have not begun, and wait for a thread. Lazy ones that were not started are left out.
  public private(set) var new = 0
  /// They could run, and wait for a thread.
  public private(set) var ready = 0
  /// They are on a thread.
  public private(set) var running = 0
  /// By what they wait for; those that are none are left out.
  public private(set) var suspended: [SuspensionReason: Int] = [:]
  /// Generators that are suspended, on behalf of no coroutine.
  public private(set) var generators = 0

  /// Counts them now. Keeps those that are suspended or ready from going on meanwhile, a thousand at a time. Takes
  /// linear time, but it searches all coroutines that have not begun once for each 16,000 of them. Callable from any
  /// thread.
  ///
  /// - Throws: where the kernel does not offer what this needs (membarrier, Linux 4.14).
  public static func take() throws -> CoroutineCensus {
    var census = CoroutineCensus()
    try Inspection.visitAll(batch: 1000) { census.count($0) }
    return census
  }

  private mutating func count(_ coroutine: InspectedCoroutine) {
    guard !coroutine.isGenerator else {
      generators += 1
      return
    }
    switch coroutine.state {
    case .new: new += 1
    case .ready: ready += 1
    case .running: running += 1
    case .suspended: suspended[coroutine.operation.map { SuspensionReason($0) } ?? .turn, default: 0] += 1
    }
  }
}
