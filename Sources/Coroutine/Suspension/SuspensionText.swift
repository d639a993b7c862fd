// SPDX-License-Identifier: Apache-2.0

// What debuggers show of a coroutine that waits for a callback.

extension WaitText {
  package static func suspension(_ operation: WaitOperation, awaitsThread: Bool) -> String {
    switch operation {
    case .async: "async code"
    case .join: "a child to be ready"
    case .blocking: awaitsThread ? "a thread for work that blocks" : "work that blocks a thread"
    case .promise: "a future"
    default: "a callback"
    }
  }
}

extension SuspensionStorage: ShownWaitable {
  package static var waitFields: [UInt64]? { fieldOffsets(nil, "awaitsThread") }
  package static func waitText(_ operation: WaitOperation, at object: some ForeignWaitable) throws -> String {
    try WaitText.suspension(operation, awaitsThread: object.bool(1))
  }
}
