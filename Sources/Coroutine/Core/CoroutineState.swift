// SPDX-License-Identifier: Apache-2.0

public import Synchronization

/// What a coroutine is doing.
public enum CoroutineState: UInt8, AtomicRepresentable, Sendable {
  /// It waits for its turn: new, woken, or having yielded. Also one that is lazy, and was not started.
  case ready
  /// It runs on a thread, or has handed its thread off to the coroutine that it waits for, and goes on after that.
  case running
  /// It waits for something: `Coroutine.suspension` says for what, and since when.
  case suspended
  /// It has ended.
  case finished
}
