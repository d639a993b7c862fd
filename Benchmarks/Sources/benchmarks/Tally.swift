// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// A sum that many threads add to.
final class Tally: Sendable {
  private let total = Atomic(0)

  func add(_ number: Int) { total.add(number, ordering: .relaxed) }

  /// What was added by coroutines whose end the caller has seen.
  var sum: Int { total.load(ordering: .relaxed) }
}
