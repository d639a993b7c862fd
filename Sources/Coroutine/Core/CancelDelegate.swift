// SPDX-License-Identifier: Apache-2.0

/// Gets a coroutine's cancels in its place, its own code's among them. For a coroutine that still has to wait after its body
/// was cancelled, and so must not be cancelled as a whole.
protocol CancelDelegate: AnyObject, Sendable {
  func cancelCoroutine()
  /// Whether it was cancelled before it had ended.
  var isCancelled: Bool { get }
}
