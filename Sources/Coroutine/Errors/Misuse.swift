// SPDX-License-Identifier: Apache-2.0

import CoroutineLibc
import Synchronization

/// Ends the program with a message where the runtime is used in a way that it cannot recover from.
///
/// In place of `precondition`, whose message release builds drop: the message says what went wrong and what to do.
@inlinable @inline(__always)
package func require(
  _ condition: Bool, _ message: @autoclosure () -> String, file: StaticString = #file, line: UInt = #line
) {
  if !condition { fatalError(message(), file: file, line: line) }
}

/// Ends the program where `nil` stands for the function that is to run.
///
/// Functions that run their closure elsewhere than on their caller take it as an optional, for the compiler's sake.
/// Inside of an optional a function keeps its type until it is checked whether it may be sent, and so one of a global
/// actor is refused. Without the optional, Swift 6.3 first converts a method of the caller's own actor to a nonisolated
/// function, without a word, and accepts it.
@usableFromInline
func missingFunction() -> Never {
  fatalError("nil was given in place of the function that is to run")
}

/// Ends the program where the system refuses a thread without which nothing would go on.
func refused(_ thread: String, _ code: CInt, _ advice: String = "") -> Never {
  fatalError(
    "\(thread) could not be started: \(String(cString: strerror(code))). Allow more threads (ulimit -u, the container's "
      + "limit of processes) or more memory (ulimit -v)\(advice).")
}

/// Says on the standard error, once in the process, that the system refuses threads, and what that means.
func warnAboutRefusal(of thread: String, _ code: CInt, _ consequence: String) {
  guard !hasWarnedAboutRefusal.exchange(true, ordering: .relaxed) else { return }
  CoroutineErrors.print("\(thread) could not be started: \(String(cString: strerror(code))). \(consequence)")
}

private let hasWarnedAboutRefusal = Atomic<Bool>(false)

/// How long to wait between two tries for a thread without which nothing would go on: together about a second.
struct RetryBackoff {
  private var next: UInt32 = 1000
  private static var longest: UInt32 { 512_000 }

  /// Sleeps. False, at once, when it has been tried for long enough.
  mutating func wait() -> Bool {
    guard next <= Self.longest else { return false }
    usleep(next)
    next *= 2
    return true
  }
}

/// Ends the program where something in a child of `fork` needs threads that its parent has.
package func reportLeftInParent(_ what: String, _ advice: String) -> Never {
  fatalError(
    "\(what) in a child of fork, and the threads for it are in the parent: a child has the calling thread only. Call exec or "
      + "_exit in the child, or \(advice).")
}

/// Ends the program where what one coroutine began ends on another.
func reportEndElsewhere(of function: StaticString, _ coroutine: String) -> Never {
  fatalError(
    "\(function), which \(coroutine) began, ended elsewhere: a generator inside of it was moved to another coroutine")
}

/// Ends the program where a coroutine has ended in a place that it has not left by itself.
func reportEndWithThreadPinned(_ coroutine: String) -> Never {
  fatalError(
    "\(coroutine) has ended inside withThreadPinned, with its thread still pinned: a generator whose body is inside "
      + "was moved out of it. Consume such a generator in one coroutine.")
}

/// Ends the program where a coroutine suspends and leaves, in a thread-local, the address on its stack of a list.
func reportTracking(_ what: String) -> Never {
  fatalError(
    "\(what) inside withObservationTracking. What other code of its thread reads meanwhile would be noted on its "
      + "stack, also when that is gone. Read the properties there, and wait or yield outside.")
}
