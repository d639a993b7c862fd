// SPDX-License-Identifier: Apache-2.0

/// A one-shot handle (`Resumption`, `Promise.Resolver`) was used a second time. The second call changed nothing and
/// returned `false`; `CoroutineErrors.unhandled` gets this error, once for each handle.
///
/// Callbacks that are called twice, and branches that forget to return, show up so. A call that only lost to a
/// cancellation is not reported.
public struct SettledTwice: Error, CustomStringConvertible {
  /// The error that was passed the second time, and that no caller gets; `nil` if it was a value.
  public let ignoredError: (any Error)?

  public var description: String {
    "it was settled already; the second "
      + (ignoredError.map { "error was ignored: \($0)" } ?? "value was ignored") + " (only the first call counts)"
  }

  @usableFromInline
  static func report<Value>(_ ignored: Result<Value, any Error>, of origin: String) {
    var error: (any Error)?
    if case .failure(let ignored) = ignored { error = ignored }
    CoroutineErrors.report(SettledTwice(ignoredError: error), of: origin)
  }
}
