// SPDX-License-Identifier: Apache-2.0

// What debuggers show of coroutines that wait for promises, or for several ends at once.

extension WaitText {
  package static func promise(_ name: String, _ operation: WaitOperation) -> String {
    let promise = name.isEmpty ? "an unnamed promise" : "promise \"\(name)\""
    return operation == .promise ? promise : "\(operation) of \(promise)"
  }

  /// - Parameter first: the texts of the first `mostEnds` of them.
  package static func ends(_ count: Int, _ first: [String]) -> String {
    first.joined(separator: ", ") + (count > first.count ? " and \(count - first.count) more" : "")
  }

  package static var mostEnds: Int { 4 }
}

extension PromiseCore: ShownWaitable {
  package static var waitFields: [UInt64]? { fieldOffsets("name") }
  package static func waitText(_ operation: WaitOperation, at object: some ForeignWaitable) throws -> String {
    try WaitText.promise(object.string(0), operation)
  }
}

extension BatchStorage: ShownWaitable {
  package static var waitFields: [UInt64]? { fieldOffsets(nil, "sources") }
  package static func waitText(_ operation: WaitOperation, at object: some ForeignWaitable) throws -> String {
    try WaitText.ends(object.arrayCount(1), object.texts(ofEndsIn: 1, upTo: WaitText.mostEnds))
  }
}
