// SPDX-License-Identifier: Apache-2.0

/// How many guards by `mprotect` a pool may make before it counts the process's memory mappings again.
///
/// A pool that took the last mapping would make every `pthread_create` and the next large `malloc` of other code fail.
/// So it stops while some thousand are left. To count them reads a line for each mapping. So a pool counts when it has
/// used up a quarter of what was left at the last count: then a few pools that grow at once cannot take the headroom
/// either.
struct MappingAllowance {
  /// Each guard splits a mapping in three.
  private static let mappingsPerGuard = 2

  /// The least number of guards between two counts while any are allowed.
  private static let fewestGuards = 64

  private var guards = 0

  /// The mappings that are left to the rest of the process.
  static func headroom(of limit: Int) -> Int { min(4096, limit / 8) }

  /// Takes up to `wanted` guards from the allowance. Returns how many may be made: 0 where the headroom is reached.
  mutating func take(_ wanted: Int, in memory: StackMemory) -> Int {
    if guards == 0 {
      let limit = StackMemory.mapLimit()
      // Where nothing can be read the kernel's refusal has to do.
      guard let count = memory.countMappings() else { return wanted }
      let left = (limit - MappingAllowance.headroom(of: limit) - count) / MappingAllowance.mappingsPerGuard
      guards = max(min(left, MappingAllowance.fewestGuards), left / 4, 0)
    }
    let taken = min(wanted, guards)
    guards -= taken
    return taken
  }
}
