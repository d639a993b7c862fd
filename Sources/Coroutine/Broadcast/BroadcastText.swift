// SPDX-License-Identifier: Apache-2.0

import Context

// What debuggers show of coroutines that wait at a broadcast or at a watched value.

extension WaitText {
  package static func broadcast(
    _ name: String, isValue: Bool, limit: Int, behind: Int, readers: Int, _ operation: WaitOperation
  ) -> String {
    let subject = broadcast(name, isValue: isValue, limit: limit, behind: behind, readers: readers)
    return isValue ? "a change of \(subject)" : "\(operation) on \(subject)"
  }

  /// It alone, as the one with an operation.
  static func broadcast(_ name: String, isValue: Bool, limit: Int, behind: Int, readers: Int) -> String {
    let kind = isValue ? "watched value" : "broadcast"
    var parts = [readers == 1 ? "1 subscription" : "\(readers) subscriptions"]
    if !isValue { parts.insert("\(behind)/\(limit) behind", at: 0) }
    return "\(named(kind, name)) (\(parts.joined(separator: ", ")))"
  }
}

extension BroadcastStorage: ShownWaitable {
  static var waitFields: [UInt64]? {
    guard let own = fieldOffsets("name", "isValue"), let machine = fieldOffset("machine", in: Self.self),
      let limit = fieldOffset("limit", in: BroadcastStateMachine<Element>.self),
      let behind = fieldOffset("behind", in: BroadcastStateMachine<Element>.self),
      let readers = fieldOffset("readerCount", in: BroadcastStateMachine<Element>.self)
    else { return nil }
    return own + [limit, behind, readers].map { UInt64(machine + $0) }
  }
  static func waitText(_ operation: WaitOperation, at object: some ForeignWaitable) throws -> String {
    try WaitText.broadcast(
      object.string(0), isValue: object.bool(1), limit: object.int(2), behind: object.int(3), readers: object.int(4),
      operation)
  }
}
