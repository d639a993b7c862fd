/// Ends the program with a message where the runtime is used in a way that it cannot recover from.
///
/// In place of `precondition`, whose message release builds drop: what went wrong and what to do must not be lost there.
@inlinable @inline(__always)
package func require(
  _ condition: Bool, _ message: @autoclosure () -> String, file: StaticString = #file, line: UInt = #line
) {
  if !condition { fatalError(message(), file: file, line: line) }
}
