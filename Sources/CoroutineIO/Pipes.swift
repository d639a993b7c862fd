// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import CoroutineLibc

/// The reading end of a pipe, or of something like it (a terminal, a FIFO).
///
/// Copies are the same end, for any thread; with the last one it is closed.
public struct PipeReader: ReadableByteStream {
  public let endpoint: StreamEndpoint

  /// Takes over a descriptor that can be read: it no longer blocks, is closed by exec (but for a standard stream, 0 to 2), and is
  /// closed with the last copy.
  ///
  /// `O_NONBLOCK` is a property of the open file, which other processes may share: for the standard input use
  /// `standardInput()`, which opens it once more. Callable from any thread.
  ///
  /// - Throws: `IOError`: EPERM for a regular file, which never makes its reader wait; EBADF. Then the caller keeps the
  ///   descriptor, as it was.
  public init(adopting fileDescriptor: Int32, name: String = "") throws {
    endpoint = StreamEndpoint(
      try Descriptor(adopting: fileDescriptor, name: name.isEmpty ? "pipe \(fileDescriptor)" : name))
  }

  init(_ descriptor: Descriptor) {
    endpoint = StreamEndpoint(descriptor, socketDomain: nil)
  }

  init(_ endpoint: StreamEndpoint) { self.endpoint = endpoint }

  /// The program's standard input: each call gives the same stream, until that is closed. Callable from any thread.
  ///
  /// A pipe or a terminal is opened once more: processes that share it still block, as do those that share a socket. A file, and
  /// `/dev/null`, is read where the process stands in it; a read of it blocks the thread for as long as the disk takes.
  ///
  /// ```swift
  /// let lines = try PipeReader.standardInput().lines()
  /// while let line = try lines.next() { … }
  /// ```
  ///
  /// - Throws: `IOError`: EACCES where it is another user's pipe or terminal (a program that `su` has started): `init(adopting:)`
  ///   takes it. EBADF where the program has closed it: one that was closed when it began is `/dev/null`.
  public static func standardInput() throws -> PipeReader {
    PipeReader(try StandardStream.input.endpoint())
  }
}

/// The writing end of a pipe, or of something like it (a terminal, a FIFO).
///
/// Copies are the same end, for any thread; with the last one it is closed, and the reader gets the end.
public struct PipeWriter: WritableByteStream {
  public let endpoint: StreamEndpoint

  /// Takes over a descriptor that can be written to: it no longer blocks, is closed by exec (but for a standard stream, 0 to 2),
  /// and is closed with the last copy.
  ///
  /// `O_NONBLOCK` is a property of the open file, which other processes may share: for the standard output use
  /// `standardOutput()`, which opens it once more. Callable from any thread.
  ///
  /// - Throws: `IOError`: EPERM for a regular file, which never makes its writer wait; EBADF. Then the caller keeps the
  ///   descriptor, as it was.
  public init(adopting fileDescriptor: Int32, name: String = "") throws {
    endpoint = StreamEndpoint(
      try Descriptor(adopting: fileDescriptor, name: name.isEmpty ? "pipe \(fileDescriptor)" : name))
  }

  init(_ descriptor: Descriptor) {
    endpoint = StreamEndpoint(descriptor, socketDomain: nil)
  }

  init(_ endpoint: StreamEndpoint) { self.endpoint = endpoint }

  /// The program's standard output: each call gives the same stream, until that is closed. Callable from any thread.
  ///
  /// As `PipeReader.standardInput()`. What `print` writes has a buffer of its own: use one of the two.
  ///
  /// - Throws: `IOError`: EACCES where it is another user's pipe or terminal (a program that `su` has started): `init(adopting:)`
  ///   takes it. EBADF where the program has closed it: one that was closed when it began is `/dev/null`.
  public static func standardOutput() throws -> PipeWriter {
    PipeWriter(try StandardStream.output.endpoint())
  }

  /// The program's standard error, as `standardOutput()`. Callable from any thread.
  ///
  /// - Throws: as `standardOutput()`.
  public static func standardError() throws -> PipeWriter {
    PipeWriter(try StandardStream.error.endpoint())
  }
}

/// A new pipe: bytes that are written to one end come out of the other. Callable from any thread.
///
/// ```swift
/// let (reader, writer) = try makePipe()
/// Coroutine { try writer.write("hello\n"); writer.close() }
/// print(try reader.readLine() ?? "")
/// ```
///
/// - Throws: `IOError` if the process has no descriptor left.
public func makePipe() throws -> (reader: PipeReader, writer: PipeWriter) {
  var ends: [Int32] = [-1, -1]
  guard coroutine_io_pipe(&ends) == 0 else {
    throw IOError(operation: "pipe", code: coroutine_io_errno(), subject: "a new pipe")
  }
  let (reader, writer) = try adoptBoth(
    ends[0], "pipe \(ends[0]) from \(ends[1])", ends[1], "pipe \(ends[1]) to \(ends[0])")
  return (PipeReader(reader), PipeWriter(writer))
}
