// SPDX-License-Identifier: Apache-2.0

#if COROUTINE_INTERLEAVINGS
  /// What a few threads do at the same time, and what must hold when all have ended.
  struct Scenario: Sendable {
    let name: String
    /// Whether the same decisions lead to the same run: not where workers choose by chance. Then not all can be tried.
    let isRepeatable: Bool
    /// Makes a fresh one for each run. The bodies call `begin` where the interleaving starts.
    let make: @Sendable (_ begin: @escaping @Sendable () -> Void) -> Play

    /// For one run.
    struct Play {
      let bodies: [() -> Void]
      /// What is wrong, or `nil`. After the end of all threads.
      let check: () -> String?
    }

    init(
      _ name: String, isRepeatable: Bool = true,
      _ make: @escaping @Sendable (_ begin: @escaping @Sendable () -> Void) -> Play
    ) {
      self.name = name
      self.isRepeatable = isRepeatable
      self.make = make
    }
  }
#endif
