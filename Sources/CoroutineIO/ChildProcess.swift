// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import Coroutine
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
/// for any thread. `ChildProcess.run` does all of the above at once.
///
/// The child has these three descriptors and no other, and begins without any signal blocked or ignored.
public struct ChildProcess: Sendable {
  /// What a standard stream of the child is connected to.
  public enum Connection: Hashable, Sendable {
    /// A pipe, whose other end is the stream of the `ChildProcess`. An output that is not read holds the child up.
    case pipe
    /// The same as in this process.
    case inherited
    /// `/dev/null`.
    case null
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

  private let handle: ChildHandle
  private let input: PipeWriter?
  private let output: PipeReader?
  private let error: PipeReader?

  /// Starts a program. Callable from any thread; blocks it for as long as `posix_spawn` takes.
  ///
  /// - Parameters:
  ///   - program: a path, or a name that is looked for in this process's `PATH`.
  ///   - arguments: without the program's name.
  ///   - environment: `nil`: that of this process.
  ///   - directory: where it begins; `nil`: where this process is. A relative path of the program counts from there.
  ///   - input: what its standard input is connected to.
  ///   - output: what its standard output is connected to.
  ///   - error: what its standard error is connected to.
  /// - Throws: `IOError`, such as ENOENT, EACCES, EMFILE.
  public init(
    _ program: String, _ arguments: [String] = [], environment: [String: String]? = nil, directory: String? = nil,
    input: Connection = .pipe, output: Connection = .pipe, error: Connection = .pipe
  ) throws {
    for text in [program, directory ?? ""] + arguments + (environment ?? [:]).flatMap({ [$0.key, $0.value] }) {
      try FilePool.requireNoZero(in: text, "spawn")
    }
    let stdin = try ChildFile(input, .input, of: program)
    let stdout = try ChildFile(output, .output, of: program)
    let stderr = try ChildFile(error, .error, of: program)
    // The child's ends are open until it has them.
    let process = withExtendedLifetime((stdin, stdout, stderr)) {
      withCStrings([program] + arguments) { arguments in
        withEnvironment(environment) { environment in
          coroutine_io_spawn(
            program, arguments, environment, directory, [stdin.childEnd, stdout.childEnd, stderr.childEnd])
        }
      }
    }
    guard process > 0 else { throw IOError(operation: "spawn", code: -process, subject: program) }
    handle = ChildHandle(try ChildStorage(process, program))
    self.input = stdin.ours.map { PipeWriter($0) }
    self.output = stdout.ours.map { PipeReader($0) }
    self.error = stderr.ours.map { PipeReader($0) }
  }

  /// Its number. Signals are sent by `send(signal:)`, which can't reach another process that has got the same number.
  public var processID: Int32 { handle.storage.processID }

  /// What the child reads from its standard input. Close it, and the child reads the end.
  ///
  /// - Precondition: it is a pipe: traps otherwise.
  public var standardInput: PipeWriter { piped(input, "input") }

  /// What the child writes to its standard output.
  ///
  /// - Precondition: it is a pipe: traps otherwise.
  public var standardOutput: PipeReader { piped(output, "output") }

  /// What the child writes to its standard error.
  ///
  /// - Precondition: it is a pipe: traps otherwise.
  public var standardError: PipeReader { piped(error, "error") }

  private func piped<Stream>(_ stream: Stream?, _ name: String) -> Stream {
    guard let stream else { fatalError("\(handle.storage.name): its standard \(name) was not started as a pipe") }
    return stream
  }

  /// Waits for the end; suspends the calling coroutine. Any number may wait.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: not at all; `nil`: for ever.
  /// - Throws: `TimeoutError`: it goes on. `CancellationError` if the caller is cancelled: the process was killed then, and has
  ///   ended. `IOError` (ECHILD) if other code of the program has reaped it.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @discardableResult
  @available(*, noasync, message: "call it in a coroutine")
  public func wait(timeout: Duration? = nil) throws -> End {
    try handle.storage.wait(timeout: timeout)
  }

  /// Sends a signal; has no effect once it has ended. Callable from any thread.
  ///
  /// - Parameter number: such as SIGTERM.
  /// - Throws: `IOError`, such as EPERM, EINVAL.
  public func send(signal number: Int32) throws { try handle.storage.send(signal: number) }

  /// What a program has written, and how it has ended.
  public struct Output: Sendable {
    /// How it has ended.
    public let end: End
    /// What it has written to its standard output.
    public let output: [UInt8]
    /// What it has written to its standard error.
    public let error: [UInt8]
  }

  /// Runs a program to its end: gives it its input and collects what it writes; suspends the calling coroutine.
  ///
  /// ```swift
  /// let result = try ChildProcess.run("git", ["rev-parse", "HEAD"], timeout: .seconds(5))
  /// guard result.end.isSuccess else { … }
  /// ```
  ///
  /// - Parameters:
  ///   - program: a path, or a name that is looked for in this process's `PATH`.
  ///   - arguments: without the program's name.
  ///   - environment: `nil`: that of this process.
  ///   - directory: where it begins; `nil`: where this process is.
  ///   - input: what it reads from its standard input. It need not read all of it.
  ///   - timeout: how long it may take; `nil`: any time.
  /// - Throws: `TimeoutError`, `CancellationError`: it was killed, and has ended. `IOError`, such as ENOENT.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public static func run(
    _ program: String, _ arguments: [String] = [], environment: [String: String]? = nil, directory: String? = nil,
    input: [UInt8] = [], timeout: Duration? = nil
  ) throws -> Output {
    _ = CoroutineCore.running(for: "ChildProcess.run")
    guard let timeout else {
      return try ChildProcess(program, arguments, environment: environment, directory: directory).communicate(input)
    }
    return try withTimeout(timeout) {
      try ChildProcess(program, arguments, environment: environment, directory: directory).communicate(input)
    }
  }

  private func communicate(_ bytes: [UInt8]) throws -> Output {
    do {
      return try withScope(name: handle.storage.name) { scope in
        scope.launch(name: "input of \(handle.storage.name)") {
          defer { self.standardInput.close() }
          do { try self.standardInput.write(bytes) } catch {
            guard Self.isEndOfReader(error) else { throw error }
          }
        }
        let error = scope.launch(name: "error of \(handle.storage.name)") { try Self.readAll(self.standardError) }
        let output = try Self.readAll(standardOutput)
        return Output(end: try wait(), output: output, error: try error.get())
      }
    } catch {
      try? send(signal: SIGKILL)
      // Its end, however it came, is not the error.
      _ = try? withCancellationShield { try wait() }
      throw error
    }
  }

  /// A program may end before it has read all.
  private static func isEndOfReader(_ error: any Error) -> Bool {
    ((error as? PartialWrite)?.cause as? IOError ?? error as? IOError)?.code == EPIPE
  }

  private static func readAll(_ stream: PipeReader) throws -> [UInt8] {
    var all: [UInt8] = []
    while let bytes = try stream.read(upTo: 65_536) { all += bytes }
    return all
  }
}
