// SPDX-License-Identifier: Apache-2.0

import CoroutineLibc

/// Why there is no stack. None of these harms the pool: what it has built keeps working, and the next `allocate()` may
/// succeed, for example after another coroutine has ended.
public enum StackError: Error, Hashable, Sendable {
  /// A stack of `requested` bytes cannot be had; `allowed` are the sizes that can, before rounding up to pages.
  case impossibleSize(requested: Int, allowed: ClosedRange<Int>)

  /// A guard of `requested` bytes cannot be had.
  case impossibleGuardSize(requested: Int, allowed: ClosedRange<Int>)

  /// The kernel refused `requested` bytes of address space or the memory to manage them, with `code` (an errno), when
  /// `live` stacks were in use and `reserved` bytes in the pool's arenas.
  case outOfMemory(requested: Int, code: CInt, live: Int, reserved: Int)

  /// Guarding a stack of `requested` bytes by `mprotect` would come too near to the `limit` of memory mappings that a
  /// process may have (`vm.max_map_count`), when `live` stacks of the pool were in use. Each such guard costs two mappings,
  /// and 4,096, or an eighth of a small limit, are left to the rest of the process.
  case mapLimit(limit: Int, requested: Int, live: Int)

  /// The kernel refused a guard for another reason, with `code` (an errno).
  case guardRefused(code: CInt, guards: StackPool.Guards)
}

extension StackError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .impossibleSize(let requested, let allowed):
      """
      a stack of \(ByteCount(requested)) is impossible: \
      from \(ByteCount(allowed.lowerBound)) to \(ByteCount(allowed.upperBound)) are allowed
      """
    case .impossibleGuardSize(let requested, let allowed):
      """
      a stack guard of \(ByteCount(requested)) is impossible: \
      from \(ByteCount(allowed.lowerBound)) to \(ByteCount(allowed.upperBound)) are allowed; \
      a pool without guards is asked for by `guards: .none`
      """
    case .outOfMemory(let requested, let code, let live, let reserved):
      """
      no memory for another stack: the kernel refused \(ByteCount(requested)) (\(ErrorCode(code))) with \(live) stacks \
      in use and \(ByteCount(reserved)) reserved; what counts against it: RLIMIT_AS, vm.overcommit_memory = 2, the \
      memory limit of the container, vm.max_map_count
      """
    case .mapLimit(let limit, let requested, let live):
      """
      no guard for another stack of \(ByteCount(requested)): with \(live) stacks in use the process is near \
      vm.max_map_count (\(limit) memory mappings, of which \(MappingAllowance.headroom(of: limit)) are left to threads \
      and malloc), and before Linux 6.13 each guard takes two; keep fewer coroutines alive, raise the limit \
      (sysctl vm.max_map_count=\(2 * limit)), run on Linux 6.13 or later, or do without guards by `guards: .none`
      """
    case .guardRefused(let code, .madvise):
      """
      no guard by madvise(MADV_GUARD_INSTALL): \(ErrorCode(code)); it needs Linux 6.13 or later, \
      `guards: .automatic` falls back on mprotect
      """
    case .guardRefused(let code, _):
      "no guard by mprotect: \(ErrorCode(code))"
    }
  }
}

/// An errno as people read it: `errno 12, Cannot allocate memory`.
private struct ErrorCode: CustomStringConvertible {
  let code: CInt

  init(_ code: CInt) {
    self.code = code
  }

  var description: String {
    "errno \(code), \(strerror(code).map { String(cString: $0) } ?? "unknown")"
  }
}
