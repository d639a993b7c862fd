// SPDX-License-Identifier: Apache-2.0

// What debuggers show of coroutines that wait for a descriptor.

extension WaitText {
  package static func readiness(_ name: String, _ operation: WaitOperation) -> String {
    let subject = name.isEmpty ? "an unnamed descriptor" : name
    switch operation {
    case .connect: return "connect of \(subject)"
    default: return "\(operation) on \(subject)"
    }
  }
}

extension ReadinessStorage: ShownWaitable {
  package static var waitFields: [UInt64]? { fieldOffsets("name") }
  package static func waitText(_ operation: WaitOperation, at object: some ForeignWaitable) throws -> String {
    try WaitText.readiness(object.string(0), operation)
  }
}
