// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import Context
import Coroutine
import CoroutineLibc

/// Ends a child process with the last copy of its `ChildProcess`.
final class ChildHandle: Sendable {
  let storage: ChildStorage

  init(_ storage: ChildStorage) { self.storage = storage }

  deinit { storage.abandon() }
}

/// A child process, until it is reaped.
// Unchecked: the lock guards the end.
final class ChildStorage: @unchecked Sendable {
  let processID: pid_t
  let name: String
  /// Of the process itself (a pidfd): it can be read when that has ended, and never means another one.
  private let descriptor: Descriptor
  /// `Fork.count` of the process whose child it is.
  private let madeIn = Fork.count
  private let lock = Lock()
  private var end: ChildProcess.End?

  /// - Throws: and then the process is gone.
  init(_ process: pid_t, _ program: String) throws {
    processID = process
    name = "process \(process) (\(program))"
    let name = name
    do {
      let number = coroutine_io_process_open(process)
      guard number >= 0 else { throw IOError(operation: "pidfd_open", code: coroutine_io_errno(), subject: name) }
      descriptor = try SocketSetup.closingOnError(number) { try Descriptor(adopting: number, name: name) }
    } catch {
      kill(process, SIGKILL)
      waitpid(process, nil, 0)
      throw error
    }
  }

  func wait(timeout: Duration?) throws -> ChildProcess.End {
    let limit = WaitLimit(timeout)
    _ = CoroutineCore.running(for: "ChildProcess.wait()")
    do {
      try Coroutine.checkCancellation()
      return try wait(limit)
    } catch is CancellationError {
      try? send(signal: SIGKILL)
      try withCancellationShield { _ = try wait(WaitLimit(nil)) }
      throw CancellationError()
    }
  }

  private func wait(_ limit: WaitLimit) throws -> ChildProcess.End {
    while true {
      if let end = try reap() { return end }
      // There may be several waiters: all of them are woken, and one reaps.
      let result = try descriptor.perform(.read, limit) { number in
        coroutine_io_is_ready(number, false) ? 0 : Int(coroutine_io_fail(EAGAIN))
      }
      assert(result == 0)
    }
  }

  /// How it has ended; `nil` while it runs.
  private func reap() throws -> ChildProcess.End? {
    try lock.withLock {
      if let end { return end }
      var status: Int32 = 0
      var isSignal = false
      switch try descriptor.withFileDescriptor({ coroutine_io_process_reap($0, &status, &isSignal) }) {
      case 0: return nil
      case 1:
        end = isSignal ? .signalled(status) : .exited(status)
        return end
      default: throw IOError(operation: "wait", code: coroutine_io_errno(), subject: name)
      }
    }
  }

  func send(signal number: Int32) throws {
    let result = try descriptor.withFileDescriptor { coroutine_io_process_signal($0, number) }
    let code = coroutine_io_errno()
    guard result == 0 || code == ESRCH else { throw IOError(operation: "kill", code: code, subject: name) }
  }

  /// Its last handle is gone; in another child, a copy of it that is of no account.
  func abandon() {
    guard Fork.count == madeIn else { return }
    guard lock.withLock({ end == nil }) else { return }
    if (try? reap()) ?? nil != nil { return }
    try? send(signal: SIGKILL)
    Coroutine.detached(name: "the end of \(name)") {
      // If other code has reaped it, there is nothing to do.
      _ = try? self.wait(timeout: nil)
    }
  }
}

/// One of the three descriptors that a child begins with, on both sides.
final class ChildFile {
  enum Role: Int {
    case input, output, error
  }

  /// Open until the child has its copy. -1: it gets this process's own.
  let childEnd: Int32
  /// The other end of a pipe.
  let ours: Descriptor?

  init(_ connection: ChildProcess.Connection, _ role: Role, of program: String) throws {
    let name = "standard \(role) of \(program)"
    switch connection {
    case .inherited:
      childEnd = -1
      ours = nil
    case .null:
      // Beyond the standard ones, as the ends of pipes.
      let number = open("/dev/null", (role == .input ? O_RDONLY : O_WRONLY) | O_CLOEXEC)
      let moved = number < 0 ? -1 : fcntl(number, F_DUPFD_CLOEXEC, 3)
      let code = coroutine_io_errno()
      if number >= 0 { CoroutineLibc.close(number) }
      guard moved >= 0 else { throw IOError(operation: "open", code: code, subject: name) }
      childEnd = moved
      ours = nil
    case .pipe:
      var ends: [Int32] = [-1, -1]
      guard coroutine_io_blocking_pipe(&ends) == 0 else {
        throw IOError(operation: "pipe", code: coroutine_io_errno(), subject: name)
      }
      let (child, own) = role == .input ? (ends[0], ends[1]) : (ends[1], ends[0])
      do {
        ours = try SocketSetup.closingOnError(own) { try Descriptor(adopting: own, name: name) }
      } catch {
        CoroutineLibc.close(child)
        throw error
      }
      childEnd = child
    }
  }

  deinit { if childEnd >= 0 { CoroutineLibc.close(childEnd) } }
}

/// Calls `body` with C's form of a list of texts, with a null behind the last.
func withCStrings<Result>(
  _ texts: [String], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Result
) -> Result {
  var pointers: [UnsafeMutablePointer<CChar>?] = texts.map { strdup($0) }
  defer { for pointer in pointers { free(pointer) } }
  pointers.append(nil)
  return pointers.withUnsafeBufferPointer {
    guard let base = $0.baseAddress else { fatalError("a list with a null has no elements") }
    return body(base)
  }
}

/// Calls `body` with an environment, or with that of this process.
func withEnvironment<Result>(
  _ environment: [String: String]?, _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>?) -> Result
) -> Result {
  guard let environment else { return body(nil) }
  return withCStrings(environment.map { "\($0.key)=\($0.value)" }) { body($0) }
}
