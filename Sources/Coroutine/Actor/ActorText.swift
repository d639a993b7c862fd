// SPDX-License-Identifier: Apache-2.0

// What debuggers show of actors, and of askers that wait for an answer.

extension WaitText {
  package static func message(forActor name: String, _ operation: WaitOperation) -> String {
    operation == .send ? "room in the mailbox of \(describeActor(name))" : "a message for \(describeActor(name))"
  }

  package static func answer(ofActor name: String) -> String { "an answer of \(describeActor(name))" }
}

extension ActorCore: ShownWaitable {
  package static var waitFields: [UInt64]? { fieldOffsets("name") }
  package static func waitText(_ operation: WaitOperation, at object: some ForeignWaitable) throws -> String {
    try WaitText.message(forActor: object.string(0), operation)
  }
}

extension ReplyCore: ShownWaitable {
  package static var waitFields: [UInt64]? { fieldOffsets(nil, "recipient") }
  package static func waitText(_ operation: WaitOperation, at object: some ForeignWaitable) throws -> String {
    try WaitText.answer(ofActor: object.name(ofObjectIn: 1))
  }
}
