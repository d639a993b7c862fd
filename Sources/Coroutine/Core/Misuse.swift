import Glibc

/// Ends the program with a message where the runtime is used in a way that it cannot recover from.
///
/// In place of `precondition`, whose message release builds drop: what went wrong and what to do must not be lost there.
@inlinable @inline(__always)
package func require(
  _ condition: Bool, _ message: @autoclosure () -> String, file: StaticString = #file, line: UInt = #line
) {
  if !condition { fatalError(message(), file: file, line: line) }
}

/// Ends the program where the system refuses a thread without which nothing would go on.
func refused(_ thread: String, _ code: CInt, _ advice: String = "") -> Never {
  fatalError(
    "\(thread) could not be started: \(String(cString: strerror(code))). Allow more threads (ulimit -u, the container's "
      + "limit of processes) or more memory (ulimit -v)\(advice).")
}
