// SPDX-License-Identifier: Apache-2.0

// What debuggers show of coroutines that wait for one another. Fields behind the name: the count (group); the holder's
// word and the address of its block (mutex, once); the same of the writer, and the number of readers; the mutex
// (condition).

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
  package static var waitKind: WaitKind { .barrier }
  package static var waitFields: [UInt64]? { fieldOffsets("name") }
}

extension WaitGroupStorage: ShownWaitable {
  package static var waitKind: WaitKind { .group }
  package static var waitFields: [UInt64]? { fieldOffsets("name", "published") }
}

extension MutexCore: ShownWaitable {
  package static var waitKind: WaitKind { .mutex }
  package static var waitFields: [UInt64]? { fieldOffsets("name", "word", "holderBlock") }
}

extension ReadWriteLockCore: ShownWaitable {
  package static var waitKind: WaitKind { .readWriteLock }
  package static var waitFields: [UInt64]? { fieldOffsets("name", "writer", "writerBlock", "readers") }
}

extension OnceCore: ShownWaitable {
  package static var waitKind: WaitKind { .once }
  package static var waitFields: [UInt64]? { fieldOffsets("name", "maker", "makerBlock") }
}

extension SemaphoreStorage: ShownWaitable {
  package static var waitKind: WaitKind { .semaphore }
  package static var waitFields: [UInt64]? { fieldOffsets("name") }
}

extension ConditionStorage: ShownWaitable {
  package static var waitKind: WaitKind { .condition }
  package static var waitFields: [UInt64]? { fieldOffsets("name", "mutex") }
}
