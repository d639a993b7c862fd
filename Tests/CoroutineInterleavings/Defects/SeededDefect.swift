// SPDX-License-Identifier: Apache-2.0

import CoroutineLibc

/// Which of the kept defects is on. `scripts/interleavings.sh` puts them all into a copy of the sources, and this file into the
/// modules there.
@usableFromInline
package enum SeededDefect {
  // Never changed, and never freed.
  nonisolated(unsafe) private static let chosen = getenv("COROUTINE_SEEDED_DEFECT")

  /// - Parameter name: of the patch.
  @usableFromInline
  package static func isOn(_ name: StaticString) -> Bool {
    guard let chosen else { return false }
    return name.description == String(cString: chosen)
  }
}
