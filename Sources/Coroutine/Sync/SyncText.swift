// SPDX-License-Identifier: Apache-2.0

// What debuggers show of coroutines that wait for one another.

extension WaitText {
  package static func barrier(_ name: String) -> String { named("barrier", name) }

  package static func group(_ name: String, count: Int) -> String {
    "\(named("wait group", name)), with \(count) to be done"
  }

  /// - Parameter holder: the holder, in words; `nil` if there is none.
  package static func mutex(_ name: String, holder: String?) -> String {
    let label = named("mutex", name)
    return holder.map { "\(label), held by \($0)" } ?? label
  }

  package static func readWriteLock(_ name: String, writer: String?, readers: Int) -> String {
    let label = named("read-write lock", name)
    if let writer { return "\(label), held by writer \(writer)" }
    return readers > 0 ? "\(label), held by \(readers) reader\(readers == 1 ? "" : "s")" : label
  }

  package static func once(_ name: String, maker: String?) -> String {
    let label = "the value of \(named("once", name))"
    return maker.map { "\(label), made by \($0)" } ?? label
  }

  package static func permit(ofSemaphore name: String) -> String { "a permit of \(named("semaphore", name))" }

  package static func condition(_ name: String, ofMutex mutex: String) -> String {
    "\(named("condition", name)) of \(named("mutex", mutex))"
  }
}

extension BarrierStorage: ShownWaitable {
  package static var waitFields: [UInt64]? { fieldOffsets("name") }
  package static func waitText(_ operation: WaitOperation, at object: some ForeignWaitable) throws -> String {
    try WaitText.barrier(object.string(0))
  }
}

extension WaitGroupStorage: ShownWaitable {
  package static var waitFields: [UInt64]? { fieldOffsets("name", "published") }
  package static func waitText(_ operation: WaitOperation, at object: some ForeignWaitable) throws -> String {
    try WaitText.group(object.string(0), count: object.int(1))
  }
}

extension MutexCore: ShownWaitable {
  package static var waitFields: [UInt64]? { fieldOffsets("name", "word", "holderBlock") }
  package static func waitText(_ operation: WaitOperation, at object: some ForeignWaitable) throws -> String {
    try WaitText.mutex(object.string(0), holder: object.holder(1))
  }
}

extension ReadWriteLockCore: ShownWaitable {
  package static var waitFields: [UInt64]? { fieldOffsets("name", "writer", "writerBlock", "readers") }
  package static func waitText(_ operation: WaitOperation, at object: some ForeignWaitable) throws -> String {
    try WaitText.readWriteLock(object.string(0), writer: object.holder(1), readers: object.int(3))
  }
}

extension OnceCore: ShownWaitable {
  package static var waitFields: [UInt64]? { fieldOffsets("name", "maker", "makerBlock") }
  package static func waitText(_ operation: WaitOperation, at object: some ForeignWaitable) throws -> String {
    try WaitText.once(object.string(0), maker: object.holder(1))
  }
}

extension SemaphoreStorage: ShownWaitable {
  package static var waitFields: [UInt64]? { fieldOffsets("name") }
  package static func waitText(_ operation: WaitOperation, at object: some ForeignWaitable) throws -> String {
    try WaitText.permit(ofSemaphore: object.string(0))
  }
}

extension ConditionStorage: ShownWaitable {
  package static var waitFields: [UInt64]? { fieldOffsets("name", "mutex") }
  package static func waitText(_ operation: WaitOperation, at object: some ForeignWaitable) throws -> String {
    try WaitText.condition(object.string(0), ofMutex: object.name(ofObjectIn: 1))
  }
}
