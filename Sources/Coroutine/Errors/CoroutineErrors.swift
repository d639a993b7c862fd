// SPDX-License-Identifier: Apache-2.0

import CoroutineLibc

/// Where errors go that no caller receives: a coroutine's whose `get()` was not called, a generator's whose `next`
/// can't throw.
public enum CoroutineErrors {
  /// Called for each such error, once, with the name of the coroutine, generator, promise or actor that it comes from, on the
  /// thread that drops the last handle, without a lock. The default prints a line to the standard error.
  ///
  /// May be set at any time from any thread; applies to errors that become lost after that.
  public static var unhandled: @Sendable (_ error: any Error, _ origin: String) -> Void {
    get { handler.value.call }
    set { handler.value = Handler(call: newValue) }
  }

  package typealias Taker = @Sendable (_ error: any Error, _ origin: String) -> Bool

  /// Takes the errors of the code that runs here, before any other handler: returns whether it has.
  @TaskLocal private static var taker: Taker?

  /// Runs `body`, whose lost errors `taker` gets first, as those of the coroutines and tasks that are created in it.
  ///
  /// A function, since another module that inlines `$taker` in a release build may read it before it is initialised.
  @inline(never)
  package static func withTaker<Result>(_ taker: @escaping Taker, _ body: () throws -> Result) rethrows -> Result {
    try Self.$taker.withValue(taker, operation: body)
  }

  static func report(_ error: any Error, of origin: String) {
    if !take(error, of: origin) { unhandled(error, origin) }
  }

  /// Whether the taker of the code that runs here has taken the error.
  package static func take(_ error: any Error, of origin: String) -> Bool { taker?(error, origin) ?? false }

  /// Writes a line to the standard error, in one piece.
  package static func print(_ line: String) {
    var line = line + "\n"
    line.withUTF8 { _ = write(STDERR_FILENO, $0.baseAddress, $0.count) }
  }

  private struct Handler: Sendable {
    let call: @Sendable (any Error, String) -> Void
  }

  private static let handler = Replaceable(
    Handler { error, origin in CoroutineErrors.print("\(origin): no caller handled the error: \(error)") })
}
