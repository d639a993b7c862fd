// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import CoroutineLibc

extension ChildProcess {
  /// What a standard stream of the child is connected to.
  ///
  /// ```swift
  /// try ChildProcess("make", input: .null, output: .file("build.log"), error: .sameAsOutput)      // > build.log 2>&1
  /// ```
  public enum Connection: Hashable, Sendable {
    /// A pipe, whose other end is the stream of the `ChildProcess`. An output that is not read holds the child up.
    case pipe
    /// The same as in this process. If this process has adopted it, the child has it without blocking, too, and may take that for
    /// an error where nothing is there.
    case inherited
    /// `/dev/null`.
    case null
    /// A file or a device. As an input it is read from its beginning; as an output it is made if it is missing, and emptied.
    ///
    /// Opened by this process before the child begins, so a relative path counts from where this process is. To open a FIFO
    /// blocks the thread until there is another process at its other end.
    case file(String)
    /// The end of a file, which is made if it is missing: for outputs only, traps for an input.
    case appending(to: String)
    /// An open descriptor of this process: a file, a terminal, a socket, the end of a pipe to another child. It stays the
    /// caller's, which may close it once the child has been started.
    ///
    /// Whether it blocks is a property of what is open, and so the same in both. Most programs expect that it does; what a
    /// `Descriptor` or a stream has adopted does not.
    case descriptor(Int32)
    /// What the standard output is connected to (`2>&1`): for the standard error only, traps for others. What is written to
    /// both comes in the order of the writes.
    case sameAsOutput
  }
}

/// One of the three descriptors that a child begins with, on both sides.
final class ChildFile {
  enum Role: Int {
    case input, output, error
  }

  /// What the child gets a copy of: -1 for what this process has by that number; 1 for the child's own standard output. Open
  /// until the child has it.
  let childEnd: Int32
  /// The other end of a pipe.
  let ours: Descriptor?

  init(_ connection: ChildProcess.Connection, _ role: Role, of program: String) throws {
    let name = "standard \(role) of \(program)"
    let isInput = role == .input
    switch connection {
    case .inherited: (childEnd, ours) = (-1, nil)
    case .sameAsOutput:
      guard role == .error else { fatalError("\(name) can't be the same as the output: only the standard error can") }
      (childEnd, ours) = (1, nil)
    case .null: (childEnd, ours) = (try Self.open("/dev/null", isInput ? O_RDONLY : O_WRONLY), nil)
    case .file(let path):
      (childEnd, ours) = (try Self.open(path, isInput ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC), nil)
    case .appending(let path):
      guard !isInput else { fatalError("\(name) can't be the end of a file: give it a file") }
      (childEnd, ours) = (try Self.open(path, O_WRONLY | O_CREAT | O_APPEND), nil)
    case .descriptor(let number): (childEnd, ours) = (try Self.copy(number, name), nil)
    case .pipe: (childEnd, ours) = try Self.pipe(childReads: isInput, name)
    }
  }

  deinit { if childEnd > 2 { DescriptorShortage.close(childEnd) } }

  private static func open(_ path: String, _ flags: Int32) throws -> Int32 {
    try FilePool.requireNoZero(in: path, "open")
    var number: Int32
    repeat {
      number = CoroutineLibc.open(path, flags | O_CLOEXEC | O_NOCTTY, 0o666)
    } while number < 0 && coroutine_io_errno() == EINTR
    guard number >= 0 else { throw IOError(operation: "open", code: coroutine_io_errno(), subject: path) }
    defer { CoroutineLibc.close(number) }
    return try copy(number, path)
  }

  /// Beyond the standard ones, as the ends of pipes: where the child gets one, the others are still to be copied.
  private static func copy(_ number: Int32, _ name: String) throws -> Int32 {
    let copy = fcntl(number, F_DUPFD_CLOEXEC, 3)
    guard copy >= 0 else { throw IOError(operation: "dup", code: coroutine_io_errno(), subject: name) }
    return copy
  }

  private static func pipe(childReads: Bool, _ name: String) throws -> (childEnd: Int32, ours: Descriptor?) {
    var ends: [Int32] = [-1, -1]
    guard coroutine_io_blocking_pipe(&ends) == 0 else {
      throw IOError(operation: "pipe", code: coroutine_io_errno(), subject: name)
    }
    let (child, own) = childReads ? (ends[0], ends[1]) : (ends[1], ends[0])
    do {
      return (child, try SocketSetup.closingOnError(own) { try Descriptor(adopting: own, name: name) })
    } catch {
      CoroutineLibc.close(child)
      throw error
    }
  }
}
