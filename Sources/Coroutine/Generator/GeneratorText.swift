// SPDX-License-Identifier: Apache-2.0

// What debuggers show of coroutines that wait for an `AsyncGenerator`.

extension WaitText {
  package static func generator(_ name: String, _ operation: WaitOperation) -> String {
    let what = name.isEmpty ? "a generator" : "generator \"\(name)\""
    return operation == .receive ? "an element of \(what)" : "being asked for an element of \(what)"
  }
}

extension AsyncGeneratorStorage: ShownWaitable {
  package static var waitFields: [UInt64]? { fieldOffsets("name") }
  package static func waitText(_ operation: WaitOperation, at object: some ForeignWaitable) throws -> String {
    try WaitText.generator(object.string(0), operation)
  }
}
