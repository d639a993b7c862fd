// SPDX-License-Identifier: Apache-2.0

import Context

// What debuggers show of coroutines that wait at a channel.

extension WaitText {
  /// - Parameter limit: of the buffer; 0 for a rendezvous, `.max` for no limit.
  package static func channel(
    _ name: String, limit: Int, isConflated: Bool, count: Int, senders: Int, receivers: Int,
    _ operation: WaitOperation
  ) -> String {
    let subject = channel(
      name, limit: limit, isConflated: isConflated, count: count, senders: senders, receivers: receivers)
    return "\(operation) on \(subject)"
  }

  /// The channel alone, as the one with an operation.
  static func channel(
    _ name: String, limit: Int, isConflated: Bool, count: Int, senders: Int, receivers: Int
  ) -> String {
    var parts: [String] = []
    if isConflated {
      parts.append(limit == 1 ? "conflated" : "newest \(count)/\(limit)")
    } else if limit == .max {
      parts.append("buffered \(count)")
    } else if limit > 0 {
      parts.append("buffered \(count)/\(limit)")
    }
    if senders > 0 { parts.append(senders == 1 ? "1 sender" : "\(senders) senders") }
    if receivers > 0 { parts.append(receivers == 1 ? "1 receiver" : "\(receivers) receivers") }
    let subject = name.isEmpty ? "an unnamed channel" : "channel \"\(name)\""
    return subject + (parts.isEmpty ? "" : " (\(parts.joined(separator: ", ")))")
  }
}

extension ChannelStorage: ShownWaitable where Element: ~Copyable {
  static var waitFields: [UInt64]? {
    guard let name = fieldOffsets("name"), let machine = fieldOffset("machine", in: Self.self),
      let fields = ChannelStateMachine<Element>.shownFields
    else { return nil }
    return name + fields.map { UInt64(machine + $0) }
  }
  static func waitText(_ operation: WaitOperation, at object: some ForeignWaitable) throws -> String {
    try WaitText.channel(
      object.string(0), limit: object.int(2), isConflated: object.bool(1), count: object.int(3), senders: object.int(4),
      receivers: object.int(5), operation)
  }
}

extension ChannelStateMachine where Element: ~Copyable {
  fileprivate static var shownFields: [UInt]? {
    guard let isConflated = fieldOffset("isConflated", in: Self.self),
      let limit = fieldOffset("limit", in: Self.self), let buffer = fieldOffset("buffer", in: Self.self),
      let filled = fieldOffset("count", in: ElementRing<Element>.self),
      let senders = fieldOffset("senders", in: Self.self), let receivers = fieldOffset("receivers", in: Self.self),
      let count = fieldOffset("count", in: WaitList.self)
    else { return nil }
    return [isConflated, limit, buffer + filled, senders + count, receivers + count]
  }
}
