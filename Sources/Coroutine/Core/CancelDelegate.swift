// SPDX-License-Identifier: Apache-2.0

/// Receives the cancel when its coroutine's own code or another holder of its handle wants that coroutine to stop. For
/// coroutines that still have to wait after their bodies were cancelled, and so must not be cancelled as a whole.
protocol CancelDelegate: AnyObject, Sendable {
  func cancelCoroutine()
  /// Whether it has been, before the end.
  var isCancelled: Bool { get }
}
