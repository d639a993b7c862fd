// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import Context
import Coroutine
import CoroutineLibc

/// Ends a child process with the last copy of its `ChildProcess`.
final class ChildOwner: Sendable {
  let storage: ChildStorage

  init(_ storage: ChildStorage) { self.storage = storage }

  deinit { storage.abandon() }
}

/// A child process, until it is reaped.
///
/// One that leads a group of its own stays a zombie until its last handle is gone, so that its number, by which the group is
/// signalled, is not given to another process before. (A pidfd can stand for a group since Linux 6.9 only.)
///
/// Whether it has been reaped is asked of the kernel each time, by the pidfd: other code of the program may do that as well,
/// such as a library that waits for any child, and so does the kernel where SIGCHLD is ignored.
// Unchecked: the lock guards the end.
final class ChildStorage: HiddenFromMirrors, @unchecked Sendable {
  let processID: pid_t
  let name: String
  /// Whether it leads a group that was made for it.
  let ownsGroup: Bool
  /// Of the process itself (a pidfd): it can be read when that has ended, and never means another one.
  private let descriptor: Descriptor
  /// `Fork.count` of the process whose child it is.
  private let madeIn = Fork.count
  private let lock = Lock()
  /// Guarded by the lock.
  private var end: ChildProcess.End?

  /// - Throws: and then the process is gone.
  init(_ process: pid_t, _ program: String, ownsGroup: Bool) throws {
    processID = process
    self.ownsGroup = ownsGroup
    name = "process \(process) (\(program))"
    let name = name
    do {
      let number = coroutine_io_process_open(process)
      guard number >= 0 else {
        let code = coroutine_io_errno()
        // It has ended and been reaped already: its end is as unknown as if that had come later.
        if code == ESRCH { throw IOError(operation: "wait", code: ECHILD, subject: name) }
        throw IOError(operation: "pidfd_open", code: code, subject: name)
      }
      descriptor = try SocketSetup.closingOnError(number) { try Descriptor(adopting: number, name: name) }
    } catch {
      // Only one that runs and has not been reaped: there is no pidfd yet, and the number may be another's by now.
      if waitpid(process, nil, WNOHANG) == 0 {
        CoroutineLibc.kill(ownsGroup ? -process : process, SIGKILL)
        while waitpid(process, nil, 0) < 0, coroutine_io_errno() == EINTR {}
      }
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
      // What has ended by itself leaves its group alone.
      if try learnEnd() == nil { try killAndWait() }
      throw CancellationError()
    }
  }

  private func wait(_ limit: WaitLimit) throws -> ChildProcess.End {
    var isReadable = false
    while true {
      if let end = try learnEnd() { return end }
      // A debugger gets the end first, and nothing says when it has taken it.
      if isReadable { try limit.pause(for: .milliseconds(10)) }
      // There may be several waiters: all of them are woken, and one reaps.
      let result = try descriptor.perform(.read, limit) { number in
        coroutine_io_is_ready(number, false) ? 0 : Int(coroutine_io_fail(EAGAIN))
      }
      assert(result == 0)
      isReadable = true
    }
  }

  /// For a select; what `handler` is given is known when it is chosen.
  func onEnd<Output>(
    _ handler: @escaping (ChildProcess.End) throws -> Output
  ) -> Select.Case<Select.DescriptorReadiness, Output> {
    descriptor.onReadable { try handler(self.wait(WaitLimit(nil))) }
  }

  /// How it has ended; `nil` while it runs.
  private func learnEnd() throws -> ChildProcess.End? {
    try lock.withLock {
      if let end { return end }
      end = try waitForEnd(reaping: !ownsGroup)
      return end
    }
  }

  /// The caller holds `lock`.
  ///
  /// - Throws: `IOError` (ECHILD) if it has been reaped, and in a copy of its parent that was made by `fork`.
  private func waitForEnd(reaping: Bool) throws -> ChildProcess.End? {
    var status: Int32 = 0
    var isSignal = false
    switch try descriptor.withFileDescriptor({ coroutine_io_process_wait($0, reaping, &status, &isSignal) }) {
    case 0: return nil
    case 1: return isSignal ? .signalled(status) : .exited(status)
    default: throw IOError(operation: "wait", code: coroutine_io_errno(), subject: name)
    }
  }

  func send(signal number: Int32) throws {
    try check(descriptor.withFileDescriptor { coroutine_io_process_signal($0, number) })
  }

  func sendToGroup(signal number: Int32) throws {
    guard ownsGroup else { fatalError("\(name) has no group of its own: start it with `group: .new`") }
    // In another child the lock may be that of a thread which is not there.
    guard Fork.count == madeIn else { throw IOError(operation: "kill", code: ECHILD, subject: name) }
    try lock.withLock {
      // As long as it is to be waited for, its number is its group's and no other's. With the lock: this module does not reap it
      // between the look and the signal. (Other code may. Its number is given again after all the others.)
      _ = try waitForEnd(reaping: false)
      try check(CoroutineLibc.kill(-processID, number))
    }
  }

  private func check(_ result: Int32) throws {
    let code = coroutine_io_errno()
    guard result == 0 || code == ESRCH else { throw IOError(operation: "kill", code: code, subject: name) }
  }

  /// Ends it by force, with its group if that is its own.
  func kill() throws {
    if ownsGroup { try sendToGroup(signal: SIGKILL) }
    // Also where the group has got it: its leader may run as another user than the rest.
    try send(signal: SIGKILL)
  }

  /// The same, for a coroutine that is cancelled: suspends it until the process has ended. One that may not be killed, as it runs
  /// as another user, would have it for ever: it goes on, and a timeout says why.
  func killAndWait() throws {
    do { try kill() } catch let refusal as IOError where refusal.code == EPERM {
      CoroutineCore.current?.noteCause(refusal)
      return
    } catch {
      // Other code has reaped it, as the wait finds out.
    }
    try withCancellationShield { _ = try wait(WaitLimit(nil)) }
  }

  /// Its last handle is gone; in another child, a copy of it that is of no account.
  ///
  /// - Parameter stackSize: of the coroutine that waits for its end, if it still runs. For tests.
  func abandon(stackSize: Int? = nil) {
    guard Fork.count == madeIn else { return }
    do {
      if try learnEnd() != nil { return reap() }
    } catch {
      // Other code has reaped it: nothing that bears its number is known to be its own.
      return
    }
    // Where it may not be killed, it is reaped when it ends by itself.
    try? kill()
    let reaper = Coroutine.detached(name: "the end of \(name)", stackSize: stackSize) {
      // If other code has reaped it, there is nothing to do.
      _ = try? self.wait(timeout: nil)
      self.reap()
    }
    reaper.atEnd { error in
      // It would stay a zombie for want of a stack.
      guard let error else { return }
      Self.reapers.runUnawaited { mayBlock in self.reap(blocking: mayBlock, insteadOf: error) }
    }
  }

  /// Threads for the ends of children for which there was no stack. A child that may not be killed may keep one for long.
  private static let reapers = BlockingPool(threadLimit: 64, name: "the pool of children's ends")
  /// In microseconds: 10 ms between two looks whether the debugger has done with it.
  private static var waitForDebugger: UInt32 { 10_000 }

  /// Waits for the end on the calling thread, if that may block, and reaps it.
  private func reap(blocking mayBlock: Bool, insteadOf error: any Error) {
    do {
      var isReadable = false
      while try learnEnd() == nil {
        guard mayBlock else { return CoroutineErrors.unhandled(error, "the end of \(name), which stays a zombie") }
        // A debugger gets the end first.
        if isReadable { usleep(Self.waitForDebugger) }
        try descriptor.withFileDescriptor { number in
          var look = pollfd(fd: number, events: Int16(POLLIN), revents: 0)
          while poll(&look, 1, -1) < 0, coroutine_io_errno() == EINTR {}
        }
        isReadable = true
      }
      reap()
    } catch {
      // Other code has reaped it.
    }
  }

  /// Lets go of one that has ended, and of its number.
  private func reap() {
    guard ownsGroup else { return }
    lock.withLock { if end != nil { _ = try? waitForEnd(reaping: true) } }
  }
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
