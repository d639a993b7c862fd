// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import Coroutine
import Synchronization

/// A descriptor's number, and how many use it at present.
///
/// It is given up after the last use. Another thread may have been handed the number, and be about to enter the kernel:
/// otherwise it would read from another descriptor that has got the same number.
final class DescriptorNumber: Sendable {
  private let number: CInt
  /// Whether the poller has it.
  private let isPolled: Bool
  /// How many use the number, and the two flags. With `closed`, no further one may.
  private let uses = Atomic<UInt32>(0)
  private static var closed: UInt32 { 1 << 31 }
  private static var givenUp: UInt32 { 1 << 30 }

  init(_ number: CInt, isPolled: Bool) {
    self.number = number
    self.isPolled = isPolled
  }

  /// The number, which stays the descriptor's until `endUse`; `nil` if it was closed.
  func beginUse() -> CInt? {  // litmus: descriptor-close
    if uses.wrappingAdd(1, ordering: .acquiring).oldValue & Self.closed == 0 { return number }
    endUse()
    return nil
  }

  func endUse() {  // litmus: descriptor-close
    if uses.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == Self.closed { giveUp() }
  }

  /// The number goes with the last use. Once.
  func close() {  // litmus: descriptor-close
    if uses.bitwiseOr(Self.closed, ordering: .acquiringAndReleasing).oldValue == 0 { giveUp() }
  }

  /// Whether it was closed: no further use begins.
  var isClosed: Bool { uses.load(ordering: .relaxed) & Self.closed != 0 }

  /// Other code has closed the number, and it is another descriptor's by now: it is used no more, and not closed.
  func disown() { uses.bitwiseOr(Self.closed | Self.givenUp, ordering: .acquiringAndReleasing) }

  /// Called when the count is zero after the close: by the last user, and perhaps by one that was refused. The first of
  /// them does it.
  private func giveUp() {
    guard
      uses.compareExchange(
        expected: Self.closed, desired: Self.closed | Self.givenUp, ordering: .acquiringAndReleasing
      ).exchanged
    else { return }
    // The poller exists: the descriptor was registered there. Not so in a child of fork, which has just its copy to close.
    if isPolled { try? EpollPoller.current().remove(number) }
    DescriptorShortage.close(number)
  }

  /// Whether an operation need not wait. A closed one is ready: to be refused.
  func isReady(_ readiness: Readiness) -> Bool {
    guard let number = beginUse() else { return true }
    defer { endUse() }
    return coroutine_io_is_ready(number, readiness == .writable)
  }
}
