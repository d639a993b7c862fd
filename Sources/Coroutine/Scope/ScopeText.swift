// SPDX-License-Identifier: Apache-2.0

// What debuggers show of coroutines that wait for their children.

extension WaitText {
  package static func children(ofScope name: String) -> String { "the children of \(scope(name))" }
  package static func scope(_ name: String) -> String { name.isEmpty ? "a scope" : "scope \"\(name)\"" }
}

extension ScopeStorage: ShownWaitable {
  package static var waitFields: [UInt64]? { fieldOffsets("name") }
  package static func waitText(_ operation: WaitOperation, at object: some ForeignWaitable) throws -> String {
    try WaitText.children(ofScope: object.string(0))
  }
}
