// What coroutines wait for, in words. Here, and not beside what it is about, because two sources know the facts: the objects
// themselves, and those who read another process's memory. Whoever changes a text raises `coroutine_debug_version`.

package enum WaitText {
  /// Nothing in particular: it yielded, or is pinned to a thread that is busy.
  package static var turn: String { "its turn" }
  /// What a generator waits for that is suspended in a `yield`.
  package static var nextElement: String { "the next element to be asked for" }

  package static func suspension(_ operation: WaitReason.Operation) -> String {
    operation == .async ? "async code" : "a callback"
  }

  package static func end(ofCoroutine id: UInt64, _ name: String, _ operation: WaitReason.Operation) -> String {
    operation == .sleep ? "sleep" : "the end of \(CoroutineCore.describe(id: id, name: name))"
  }

  /// - Parameter limit: of the buffer; 0 for a rendezvous, `.max` for no limit.
  package static func channel(
    _ name: String, limit: Int, isConflated: Bool, count: Int, senders: Int, receivers: Int,
    _ operation: WaitReason.Operation
  ) -> String {
    let place = channel(
      name, limit: limit, isConflated: isConflated, count: count, senders: senders, receivers: receivers)
    return "\(operation) on \(place)"
  }

  /// The channel alone, as the one with an operation.
  static func channel(
    _ name: String, limit: Int, isConflated: Bool, count: Int, senders: Int, receivers: Int
  ) -> String {
    var parts: [String] = []
    if isConflated {
      parts.append(limit == 1 ? "conflated" : "newest \(count)/\(limit)")
    } else if limit == .max {
      parts.append("buffered \(count)")
    } else if limit > 0 {
      parts.append("buffered \(count)/\(limit)")
    }
    if senders > 0 { parts.append(senders == 1 ? "1 sender" : "\(senders) senders") }
    if receivers > 0 { parts.append(receivers == 1 ? "1 receiver" : "\(receivers) receivers") }
    let place = name.isEmpty ? "an unnamed channel" : "channel \"\(name)\""
    return place + (parts.isEmpty ? "" : " (\(parts.joined(separator: ", ")))")
  }

  package static func promise(_ name: String, _ operation: WaitReason.Operation) -> String {
    let promise = name.isEmpty ? "an unnamed promise" : "promise \"\(name)\""
    return operation == .promise ? promise : "\(operation) of \(promise)"
  }

  package static func ends(_ count: Int) -> String { "\(count) ends at once" }

  package static func generator(_ name: String, _ operation: WaitReason.Operation) -> String {
    let what = name.isEmpty ? "a generator" : "generator \"\(name)\""
    return operation == .receive ? "an element of \(what)" : "being asked for an element of \(what)"
  }

  package static func children(ofScope name: String) -> String { "the children of \(scope(name))" }
  package static func scope(_ name: String) -> String { name.isEmpty ? "a scope" : "scope \"\(name)\"" }

  package static func barrier(_ name: String) -> String { named("barrier", name) }

  package static func group(_ name: String, count: Int) -> String {
    "\(named("wait group", name)), with \(count) to be done"
  }

  /// - Parameter holder: who has it, in words; `nil` for nobody.
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

  package static func message(forActor name: String, _ operation: WaitReason.Operation) -> String {
    operation == .send ? "room in the mailbox of \(describeActor(name))" : "a message for \(describeActor(name))"
  }

  package static func answer(ofActor name: String) -> String { "an answer of \(describeActor(name))" }

  package static func select(_ cases: some Sequence<String>) -> String {
    "select: " + cases.joined(separator: ", ")
  }
  package static func timeout(_ duration: Duration) -> String { "a timeout of \(duration)" }
  package static var noCase: String { "nothing" }
}

/// What schedules coroutines, in words: as `WaitText`.
package enum SchedulerText {
  package static var sharedPool: String { "the pool" }
  package static func pool(_ count: Int) -> String { count == 1 ? "a serial pool" : "a pool of \(count)" }
  package static var lentThread: String { "runUntilComplete" }
  package static func queue(_ label: String) -> String { "queue \"\(label)\"" }
}
