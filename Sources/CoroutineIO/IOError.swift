// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import CoroutineLibc

/// A system call of input or output has failed.
///
/// ```swift
/// do {
///   try connection.write(answer)
/// } catch let error as IOError where error.code == EPIPE {
///   // The peer has gone.
/// }
/// ```
public struct IOError: Error, Equatable, CustomStringConvertible {
  /// What was done: `read`, `connect`, …
  public let operation: String
  /// The system's number for the error: `ECONNRESET`, …
  public let code: Int32
  /// What it was done at: `TCP 127.0.0.1:5432`.
  public let subject: String

  /// For system calls of your own, which fail as the runtime's do.
  public init(operation: String, code: Int32, subject: String) {
    self.operation = operation
    self.code = code
    self.subject = subject
  }

  public var description: String {
    let call = subject.isEmpty ? operation : "\(operation) on \(subject)"
    if operation == "adopt", code == EPERM {
      return
        "\(call): a regular file, a directory or a device such as /dev/null is always ready, so that nothing tells when it is; read it inside of blocking { }"
    }
    if operation == "adopt", code == EEXIST {
      return
        "\(call): this number was adopted before, and belongs to that Descriptor or stream; use that, or adopt a copy (dup)"
    }
    if operation == "adopt", code == EINVAL {
      return "\(call): this socket does not listen; one that is connected is a TCPConnection or a UnixConnection"
    }
    if operation == "adopt", code == EPROTOTYPE {
      return "\(call): this is no socket of streams; adopt it as a Descriptor"
    }
    if operation == "open", code == ESPIPE {
      return
        "\(call): it is no regular file, and has no offsets; open it yourself, and adopt it as a Descriptor, or, if it is a device that is always ready, use it inside of blocking { }"
    }
    let text = String(cString: strerror(code))
    guard let name = coroutine_io_error_name(code) else { return "\(call): \(text) (\(code))" }
    return "\(call): \(text) (\(String(cString: name)))"
  }
}

/// A descriptor was closed while an operation waited for it, or before it began.
public struct DescriptorClosed: Error, Equatable, CustomStringConvertible {
  /// What was closed: `TCP 127.0.0.1:5432`.
  public let subject: String

  init(_ subject: String) { self.subject = subject }

  public var description: String { "\(subject.isEmpty ? "the descriptor" : subject) is closed" }
}
