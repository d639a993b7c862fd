// SPDX-License-Identifier: Apache-2.0

/// Makes the caller's error of the cause of a wait's end.
extension ChannelStorage where Element: ~Copyable {
  /// Why there is no element.
  @inlinable @inline(never)
  func failure(_ cause: WakeCause, _ timeout: Duration?, _ onCancel: () -> Void = {}) -> any Error {
    if cause == .cancelled { onCancel() }
    return cause.failure(timeout) ?? closingError ?? ChannelClosed<Element>()
  }

  /// The element that came back, if one did, and why.
  @inlinable
  func outcome(_ cause: WakeCause, _ unsent: consuming sending Element?) -> sending SendOutcome<Element> {
    guard let element = consume unsent else { return .sent }
    return switch cause {
    case .cancelled: .cancelled(element)
    case .timedOut: .timedOut(element)
    default: .closed(element)
    }
  }
}

extension ChannelStorage where Element: Sendable {
  /// Throws why `unsent` was not sent.
  @inlinable @inline(never)
  func fail(
    _ cause: WakeCause, _ unsent: Element?, _ timeout: Duration?, _ onCancel: () -> Void = {}
  ) throws {
    if cause == .event, let element = unsent { throw ChannelClosed(unsent: element) }
    throw failure(cause, timeout, onCancel)
  }
}
