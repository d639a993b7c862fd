// SPDX-License-Identifier: Apache-2.0

// What debuggers show of coroutines that wait for promises, or for several ends at once.

extension WaitText {
  package static func promise(_ name: String, _ operation: WaitOperation) -> String {
    let promise = name.isEmpty ? "an unnamed promise" : "promise \"\(name)\""
    return operation == .promise ? promise : "\(operation) of \(promise)"
  }

  package static func ends(_ count: Int) -> String { count == 1 ? "1 end" : "\(count) ends at once" }
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
    try WaitText.ends(object.arrayCount(1))
  }
}
