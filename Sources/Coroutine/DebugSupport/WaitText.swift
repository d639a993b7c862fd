// SPDX-License-Identifier: Apache-2.0

// What coroutines wait for, in words: what all have in common is here, each primitive adds its own beside itself.
// Functions of the facts alone, because two sources know these: the objects themselves, and readers of another
// process's memory. A change of a text raises `coroutine_debug_version`.

package enum WaitText {
  /// Nothing in particular: it yielded, or is pinned to a thread that is busy.
  package static var turn: String { "its turn" }
  /// What a generator waits for that is suspended in a `yield`.
  package static var nextElement: String { "the next element to be asked for" }

  package static func end(ofCoroutine id: UInt64, _ name: String, _ operation: WaitOperation) -> String {
    operation == .sleep ? "sleep" : "the end of \(coroutine(id, name))"
  }

  package static func coroutine(_ id: UInt64, _ name: String) -> String {
    name.isEmpty ? "coroutine \(id)" : "coroutine \(id) \"\(name)\""
  }

  package static func firstOf(_ cases: some Sequence<String>) -> String {
    "select: " + cases.joined(separator: ", ")
  }
  package static func timeout(_ duration: Duration) -> String { "a timeout of \(duration)" }
  package static var deadline: String { "a deadline" }
  package static var noCase: String { "nothing" }
}

/// What schedules coroutines, in words: as `WaitText`.
package enum SchedulerText {
  package static var sharedPool: String { "the pool" }
  package static func pool(_ count: Int) -> String { count == 1 ? "a serial pool" : "a pool of \(count)" }
  package static var callingThread: String { "runUntilComplete" }
  package static func queue(_ label: String) -> String { "queue \"\(label)\"" }
}
