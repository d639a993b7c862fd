// SPDX-License-Identifier: Apache-2.0

/// What a waiting coroutine does, by number: one byte of its `WaitReason`, which readers of another process know too. A
/// change of the numbers raises `coroutine_debug_version`.
@usableFromInline
package enum WaitOperation: UInt8, Sendable {
  case send, receive, join, suspension, sleep, promise, select, lock, async
  case permit, condition, barrier, group, once
  /// At a descriptor.
  case read, write, accept, connect
  /// For a thread that is inside of `blocking`.
  case blocking
}
