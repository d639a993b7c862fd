// SPDX-License-Identifier: Apache-2.0

/// A time was up before what was waited for had happened.
public struct TimeoutError: Error, Equatable, CustomStringConvertible {
  /// What was allowed, if it was given as a duration.
  public let duration: Duration?
  /// Which timeout it was, where that was given a name: `withTimeout(_:name:throwing:_:)`. Empty otherwise.
  public let name: String
  /// What `async` code threw instead of `CancellationError` when the time was up: an error of its library's for the same.
  public internal(set) var cause: (any Error)?

  /// For timeouts of your own making, and for tests.
  public init(after duration: Duration? = nil, name: String = "") {
    self.duration = duration
    self.name = name
  }

  /// Whether both were given the same duration and name; the causes are not compared.
  public static func == (left: TimeoutError, right: TimeoutError) -> Bool {
    left.duration == right.duration && left.name == right.name
  }

  public var description: String {
    let text = duration.map { "timed out after \($0)" } ?? "timed out"
    return name.isEmpty ? text : "\"\(name)\" \(text)"
  }
}
