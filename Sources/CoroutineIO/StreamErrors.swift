// SPDX-License-Identifier: Apache-2.0

/// A second coroutine began to read a stream, or to write to it, while another one was at it. The second one has touched
/// nothing; the first one goes on.
///
/// One coroutine may read while another writes. Several that write messages do so one at a time, by a `CoroutineMutex` or by
/// one writing coroutine with a channel.
public struct StreamInUse: Error, Equatable, CustomStringConvertible {
  /// "read" or "write".
  public let operation: String
  /// The stream's name.
  public let subject: String
  /// The number of the coroutine that holds it.
  public let holder: UInt64

  public var description: String {
    "\(operation) on \(subject): coroutine #\(holder) does that at this moment; "
      + "a stream has one reader and one writer at a time"
  }
}

/// A stream ended before as many bytes had come as were requested.
public struct UnexpectedEndOfStream: Error, Equatable, CustomStringConvertible {
  /// What had come. Nothing follows it.
  public let bytes: [UInt8]
  /// How many were requested.
  public let expected: Int
  /// The stream's name.
  public let subject: String

  public var description: String { "\(subject) ended after \(bytes.count) of \(expected) bytes" }
}

/// A line, or a part that ends with another delimiter, is longer than allowed. The stream is as before: its bytes can still be
/// read in another way.
public struct LineTooLong: Error, Equatable, CustomStringConvertible {
  /// How many bytes were allowed.
  public let limit: Int
  /// The stream's name.
  public let subject: String

  public var description: String { "\(subject) sent a line of more than \(limit) bytes" }
}

/// A stream, or a file, has more bytes than allowed before its end. It is as before: its bytes can still be read in another way.
public struct StreamTooLong: Error, Equatable, CustomStringConvertible {
  /// How many bytes were allowed.
  public let limit: Int
  /// The stream's name, or the file's path.
  public let subject: String

  public var description: String { "\(subject) has more than \(limit) bytes before its end" }
}

/// A write ended after a part of its bytes: the time was up, the stream was closed, the peer has gone.
///
/// The kernel has the first `bytesWritten` bytes, and sends them to the peer, unless the connection is reset before: by the
/// peer, or by a close while the peer still sends (`SocketConnection.finishWriting()`). A write that ends before its first byte
/// throws the `cause` itself. One that is cancelled in the middle throws `CancellationError`, as all cancelled operations do;
/// if `withTimeout` has cancelled it, the `cause` of its `TimeoutError` is a `PartialWrite`.
public struct PartialWrite: Error, CustomStringConvertible {
  /// How many bytes the kernel has taken, from the first on.
  public let bytesWritten: Int
  /// How many there were to write.
  public let bytesAsked: Int
  /// Why it ended: `TimeoutError`, `IOError`, `DescriptorClosed`, `CancellationError`.
  public let cause: any Error

  public var description: String { "\(bytesWritten) of \(bytesAsked) bytes were written: \(cause)" }
}
