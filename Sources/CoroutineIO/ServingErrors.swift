// SPDX-License-Identifier: Apache-2.0

import Context
import Coroutine

/// Reports the errors of a server's connections. Each goes to the program's handler; without one, only the first of
/// each kind is reported, so that a thousand clients that vanish write one line.
// Unchecked: the lock guards what changes.
package final class ServingErrors<Peer: Sendable>: @unchecked Sendable {
  private let origin: String
  private let onError: (@Sendable (any Error, Peer) -> Void)?
  private let lock = Lock()
  // Guarded by the lock, both.
  /// How often each kind came after the first time.
  private var repeated: [String: Int] = [:]
  /// Those of connections that never began, for `onError`.
  private var late: [(error: any Error, peer: Peer)] = []

  /// More kinds than a server has; further ones are counted as one.
  private static var mostKinds: Int { 64 }

  package init(origin: String, onError: (@Sendable (any Error, Peer) -> Void)?) {
    self.origin = origin
    self.onError = onError
  }

  package func report(_ error: any Error, of peer: Peer) {
    if let onError { return onError(error, peer) }
    // A test's run takes each of them.
    let origin = "\(origin), connection from \(peer)"
    if CoroutineErrors.take(error, of: origin) { return }
    let isFirst = lock.withLock {
      var kind = Self.kind(of: error)
      if repeated[kind] == nil, repeated.count >= Self.mostKinds { kind = "other errors" }
      let isFirst = repeated[kind] == nil
      repeated[kind, default: -1] += 1
      return isFirst
    }
    if isFirst { CoroutineErrors.unhandled(error, origin) }
  }

  /// The same for what has no coroutine to be reported in. `onError` may wait for something: `reportLate` calls it.
  package func reportOutside(_ error: any Error, of peer: Peer) {
    guard onError != nil else { return report(error, of: peer) }
    lock.withLock { late.append((error, peer)) }
  }

  /// By the server's coroutine: calls `onError` with what has come outside of coroutines.
  package func reportLate() {
    guard let onError else { return }
    let all = lock.withLock {
      defer { late = [] }
      return late
    }
    for (error, peer) in all { onError(error, peer) }
  }

  /// The server ends: reports what is left, and the number of those that were not reported one by one.
  package func reportRest() {
    reportLate()
    let counts = lock.withLock { repeated.filter { $0.value > 0 } }
    guard !counts.isEmpty else { return }
    CoroutineErrors.unhandled(RepeatedErrors(counts: counts), origin)
  }

  /// What is the same for all clients: no address, no number.
  private static func kind(of error: any Error) -> String {
    switch error {
    case let error as IOError: "\(error.operation), errno \(error.code)"
    case let error as PartialWrite: "a part written, " + kind(of: error.cause)
    default: String(reflecting: type(of: error))
    }
  }
}

/// The errors of a server's connections that were not reported one by one, when it ends.
public struct RepeatedErrors: Error, CustomStringConvertible {
  /// How often each kind came again, after the first that was reported.
  public let counts: [String: Int]

  public var description: String {
    "errors that came again: "
      + counts.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }.joined(separator: "; ")
  }
}
