// SPDX-License-Identifier: Apache-2.0

// Written by scripts/backends.sh --write, from the list in Package.swift.

extension Programs {
  /// The backends in the order of the tables. The first one's build also runs what does not use the runtime: the bare
  /// backends, and other code in Swift.
  static let backends = ["ASM", "Boost", "Ucontext"]
}
