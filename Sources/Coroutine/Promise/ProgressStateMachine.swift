// SPDX-License-Identifier: Apache-2.0

/// The position of a reader.
struct ProgressCursor: Sendable {
  /// How many reports it has seen or missed.
  fileprivate(set) var position = 0
}

/// The reports of a promise, and the waiters for the next one. Pure: no lock, no switch.
///
/// Invariant: there is no waiter once it has ended.
struct ProgressStateMachine<Progress> {
  private let keepsAll: Bool
  /// All of them, or the newest.
  private var kept: [Progress] = []
  /// How many there were.
  private var count = 0
  private var readers = WaitQueue<WaitNode>()
  private(set) var hasEnded = false

  init(keepsAll: Bool) {
    self.keepsAll = keepsAll
  }

  var latest: Progress? { kept.last }

  enum ReportAction {
    case tooLate
    /// These wait for it. Release the replaced one where that may run foreign code.
    case kept(ClaimedWaiters, replaced: Progress?)
  }

  /// There is something new.
  mutating func report(_ progress: Progress) -> ReportAction {
    guard !hasEnded else { return .tooLate }
    count += 1
    guard !keepsAll, let old = kept.last else {
      kept.append(progress)
      return .kept(readers.claimAll(), replaced: nil)
    }
    kept[0] = progress
    return .kept(readers.claimAll(), replaced: old)
  }

  /// There will be nothing new. Returns the waiters for it.
  mutating func end() -> ClaimedWaiters {
    hasEnded = true
    return readers.claimAll()
  }

  /// A waiter waits until there is something behind `cursor`: `done` if there is, or nothing will be.
  mutating func wait(_ node: UnsafeMutablePointer<WaitNode>, behind cursor: ProgressCursor) -> Attempt {
    if hasEnded || cursor.position < count { return .done }
    readers.append(node)
    return .wait
  }

  /// A waiter gives up.
  mutating func withdraw(_ node: UnsafeMutablePointer<WaitNode>) {
    readers.remove(node)
  }

  /// What is behind `cursor`, if anything; it moves on.
  func read(_ cursor: inout ProgressCursor) -> Progress? {
    guard cursor.position < count else { return nil }
    cursor.position = keepsAll ? cursor.position + 1 : count
    return keepsAll ? kept[cursor.position - 1] : kept.last
  }

  /// Whether the invariant holds; for tests.
  func checkInvariants() -> Bool {
    (!hasEnded || readers.isEmpty) && kept.count == (keepsAll ? count : min(count, 1))
  }
}
