// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
public import Coroutine
import CoroutineLibc

/// Another program, which runs as a child of this one, with its standard input, output and error as streams.
///
/// ```swift
/// let sort = try ChildProcess("sort", ["-u"], error: .inherited)
/// try sort.standardInput.write("b\na\nb\n")
/// sort.standardInput.close()
/// while let line = try sort.standardOutput.readLine() { print(line) }
/// let end = try sort.wait()
/// ```
///
/// It does not outlive its last copy, which kills it if it still runs; no zombie stays. Copies are the same process,
/// for any thread. `ChildProcess.run` does all of the above at once. What it has started itself is killed with it where it has
/// a group of its own: `group: .new`.
///
/// The child has these three descriptors and no other, and begins without any signal blocked or ignored.
public struct ChildProcess: Sendable {
  /// Which group of processes a child belongs to: those that one signal reaches, as that of Ctrl-C at a terminal.
  ///
  /// A child in a group of its own is ended with its group: what ends it by force (its last copy, a cancelled `wait()`, the
  /// timeout of a `run`, `terminate(grace:)`) ends the processes that it has started as well, unless they have left the group.
  /// A child that has ended by itself leaves them alone; but a `run` that is late or cancelled ends those, too, for it may be they
  /// that hold its outputs open.
  public enum Group: Hashable, Sendable {
    /// That of this process.
    case inherited
    /// A new one, whose number is the child's. It is not in the terminal's foreground: it is stopped where it reads from that.
    case new
    /// A new session with a new group: without a terminal.
    case newSession
    /// One that there is already, by its number, which is above 0: that of another child, whose `group` is `.new`.
    case existing(Int32)
  }

  /// How a process has ended.
  public enum End: Hashable, Sendable, CustomStringConvertible {
    /// By itself, with a status; 0 means success.
    case exited(Int32)
    /// By a signal.
    case signalled(Int32)

    /// Whether it has exited with 0.
    public var isSuccess: Bool { self == .exited(0) }

    public var description: String {
      switch self {
      case .exited(let status): "exited with \(status)"
      case .signalled(let number): "ended by signal \(number) (\(String(cString: strsignal(number))))"
      }
    }
  }

  private let owner: ChildOwner
  private let input: PipeWriter?
  let output: PipeReader?
  let error: PipeReader?
  var storage: ChildStorage { owner.storage }

  /// Starts a program. Callable from any thread; blocks it for as long as it takes to open files, and `posix_spawn`.
  ///
  /// - Parameters:
  ///   - program: a path, or a name that is looked for in this process's `PATH`.
  ///   - arguments: without the program's name.
  ///   - environment: all of it; `nil`: that of this process. `currentEnvironment` is there to be added to.
  ///   - directory: where it begins; `nil`: where this process is. A relative path of the program counts from there.
  ///   - input: what its standard input is connected to.
  ///   - output: what its standard output is connected to.
  ///   - error: what its standard error is connected to.
  ///   - group: which group of processes it belongs to.
  /// - Throws: `IOError`, such as ENOENT, EACCES, EMFILE; EPERM for a group of another session or none; EINVAL for a group whose
  ///   number is 0 or less.
  public init(
    _ program: String, _ arguments: [String] = [], environment: [String: String]? = nil, directory: String? = nil,
    input: Connection = .pipe, output: Connection = .pipe, error: Connection = .pipe, group: Group = .inherited
  ) throws {
    for text in [program, directory ?? ""] + arguments + (environment ?? [:]).flatMap({ [$0.key, $0.value] }) {
      try FilePool.requireNoZero(in: text, "spawn")
    }
    // For C these are a new group that no code would end, and the caller's.
    if case .existing(let number) = group, number <= 0 {
      throw IOError(operation: "spawn", code: EINVAL, subject: "\(program) in group \(number): its number is above 0")
    }
    let stdin = try ChildFile(input, .input, of: program)
    let stdout = try ChildFile(output, .output, of: program)
    let stderr = try ChildFile(error, .error, of: program)
    // The child's ends are open until it has them.
    let process = withExtendedLifetime((stdin, stdout, stderr)) {
      withCStrings([program] + arguments) { arguments in
        withEnvironment(environment) { environment in
          coroutine_io_spawn(
            program, arguments, environment, directory, [stdin.childEnd, stdout.childEnd, stderr.childEnd],
            group.number, group == .newSession)
        }
      }
    }
    guard process > 0 else { throw Self.failure(-process, of: program, in: directory) }
    owner = ChildOwner(try ChildStorage(process, program, ownsGroup: group.isOwn))
    self.input = stdin.ours.map { PipeWriter($0) }
    self.output = stdout.ours.map { PipeReader($0) }
    self.error = stderr.ours.map { PipeReader($0) }
  }

  /// The kernel's number may be of the folder, too, such as ENOENT.
  private static func failure(_ code: Int32, of program: String, in directory: String?) -> IOError {
    if let directory, access(directory + "/.", X_OK) != 0 {
      return IOError(operation: "chdir", code: coroutine_io_errno(), subject: directory)
    }
    return IOError(operation: "spawn", code: code, subject: program)
  }

  /// Its number. Signals are sent by `send(signal:)`, which can't reach another process that has got the same number.
  public var processID: Int32 { owner.storage.processID }

  /// What the child reads from its standard input. Close it, and the child reads the end.
  ///
  /// - Precondition: it is a pipe: traps otherwise.
  public var standardInput: PipeWriter { piped(input, "input") }

  /// What the child writes to its standard output. Keep the `ChildProcess` as long as you read: with its last copy the child is killed,
  /// and this ends as if it had written no more.
  ///
  /// - Precondition: it is a pipe: traps otherwise.
  public var standardOutput: PipeReader { piped(output, "output") }

  /// What the child writes to its standard error. Keep the `ChildProcess` as long as you read: with its last copy the child is killed,
  /// and this ends as if it had written no more.
  ///
  /// - Precondition: it is a pipe: traps otherwise.
  public var standardError: PipeReader { piped(error, "error") }

  private func piped<Stream>(_ stream: Stream?, _ name: String) -> Stream {
    guard let stream else { fatalError("\(owner.storage.name): its standard \(name) was not started as a pipe") }
    return stream
  }

  /// Waits for the end; suspends the calling coroutine. Any number may wait. A cancel of the caller, also by a `withTimeout` around
  /// this, kills the process; the end of this `timeout` does not.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `TimeoutError`: it goes on. `CancellationError` if the caller is cancelled: the process was killed then, if it had
  ///   not ended, and has ended. (One that may not be killed, as it runs as another user, goes on; a `TimeoutError` of a
  ///   `withTimeout` has `IOError` (EPERM) as its cause then.) `IOError` (ECHILD) if other code of the program has reaped it, as
  ///   `waitpid(-1, …)` does, and if the program ignores SIGCHLD.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @discardableResult
  @available(*, noasync, message: "call it in a coroutine")
  public func wait(timeout: Duration? = nil) throws -> End {
    try owner.storage.wait(timeout: timeout)
  }

  /// A case of a `select`: chosen when it has ended.
  ///
  /// ```swift
  /// try select {
  ///   server.onEnd { end in throw ServerEnded(end) }
  ///   stop.onReceive { _ in try server.terminate(grace: .seconds(10)) }
  /// }
  /// ```
  ///
  /// A select that is cancelled leaves the process alone, other than `wait(timeout:)`. The chosen case throws `IOError`
  /// (ECHILD) where that does.
  ///
  /// - Parameter handler: runs after the choice, on the calling coroutine; may suspend and throw.
  public func onEnd<Output>(
    _ handler: @escaping (End) throws -> Output
  ) -> Select.Case<Select.DescriptorReadiness, Output> {
    // The owner, too: a process whose last one is gone is killed.
    storage.onEnd { [self] end in try withExtendedLifetime(self) { try handler(end) } }
  }

  /// Sends a signal; has no effect once all that it would reach has ended. Callable from any thread.
  ///
  /// It can't reach another process that has got the same number. A group's number is the child's, which is kept as long as there
  /// is a copy of the `ChildProcess`, by a zombie if it has ended. If it has been reaped nevertheless, nothing is sent.
  ///
  /// - Parameters:
  ///   - number: such as SIGTERM.
  ///   - toGroup: to all processes of the child's group, also those that have outlived the child.
  /// - Throws: `IOError`, such as EPERM, EINVAL. To a group also ECHILD: if other code of the program has reaped the child, and
  ///   in a copy of this process that was made by `fork`.
  /// - Precondition: with `toGroup`, it was started with `group: .new` or `.newSession`: traps otherwise.
  public func send(signal number: Int32, toGroup: Bool = false) throws {
    try toGroup ? storage.sendToGroup(signal: number) : storage.send(signal: number)
  }

  /// Asks it to end, by SIGTERM, and kills it if it has not ended after some time; suspends the calling coroutine. Both go to
  /// its group, if that is its own.
  ///
  /// - Parameter grace: how long it has.
  /// - Returns: how it has ended. Other processes of its group may have outlived a child that did as it was asked.
  /// - Throws: `CancellationError`, and `IOError`, as `wait(timeout:)`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @discardableResult
  @available(*, noasync, message: "call it in a coroutine")
  public func terminate(grace: Duration) throws -> End {
    _ = CoroutineCore.running(for: "ChildProcess.terminate(grace:)")
    try send(signal: SIGTERM, toGroup: storage.ownsGroup)
    do { return try wait(timeout: grace) } catch is TimeoutError {
      try storage.kill()
      return try wait()
    }
  }
}

extension ChildProcess {
  /// The environment of this process, for a child that gets that and more:
  ///
  /// ```swift
  /// let environment = ChildProcess.currentEnvironment.merging(["LANG": "C"]) { _, new in new }
  /// ```
  ///
  /// What is not UTF-8 is repaired. Of several values of a name it has the first, as `getenv`. As with all functions that read the
  /// environment, no other thread may change it meanwhile.
  public static var currentEnvironment: [String: String] { environment(in: coroutine_io_environment()) }

  /// From C's form: a list with a null behind the last.
  static func environment(in list: UnsafePointer<UnsafeMutablePointer<CChar>?>?) -> [String: String] {
    var environment: [String: String] = [:]
    var next = list
    while let slot = next, let entry = slot.pointee {
      // By bytes: a `Character` may be the sign together with what follows it.
      if let sign = strchr(entry, 0x3D) {
        let name = String(decoding: UnsafeRawBufferPointer(start: entry, count: sign - entry), as: UTF8.self)
        if environment[name] == nil { environment[name] = String(cString: sign + 1) }
      }
      next = slot + 1
    }
    return environment
  }
}

extension ChildProcess.Group {
  /// Whether it ends with the child.
  var isOwn: Bool { self == .new || self == .newSession }

  /// As C takes it: -1 for that of this process, 0 for a new one. (A session brings its own.)
  var number: Int32 {
    switch self {
    case .inherited, .newSession: -1
    case .new: 0
    case .existing(let number): number
    }
  }
}
