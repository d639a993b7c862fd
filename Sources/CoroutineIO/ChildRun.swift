// SPDX-License-Identifier: Apache-2.0

import Coroutine
import CoroutineLibc

extension ChildProcess {
  /// What a program has written, and how it has ended.
  public struct Output: Sendable {
    /// How it has ended.
    public let end: End
    /// What it has written to its standard output, if that was a pipe.
    public let output: [UInt8]
    /// What it has written to its standard error, if that was a pipe.
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
  ///   - output: what its standard output is connected to; collected if it is a pipe.
  ///   - error: what its standard error is connected to; collected if it is a pipe. With `.sameAsOutput` it is in the output.
  ///   - group: which group of processes it belongs to. In a group of its own its children are killed with it.
  ///   - timeout: how long it may take; `nil`: without a limit.
  /// - Throws: `TimeoutError`, `CancellationError`: it was killed, and has ended. `IOError`, such as ENOENT. One
  ///   that may not be killed, as it runs as another user, goes on: then `IOError` (EPERM) is the cause of the `TimeoutError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public static func run(
    _ program: String, _ arguments: [String] = [], environment: [String: String]? = nil, directory: String? = nil,
    input: [UInt8] = [], output: Connection = .pipe, error: Connection = .pipe, group: Group = .inherited,
    timeout: Duration? = nil
  ) throws -> Output {
    _ = CoroutineCore.running(for: "ChildProcess.run")
    let body = {
      try ChildProcess(
        program, arguments, environment: environment, directory: directory, output: output, error: error, group: group
      ).communicate(input)
    }
    guard let timeout else { return try body() }
    return try withTimeout(timeout) { try body() }
  }

  private func communicate(_ bytes: [UInt8]) throws -> Output {
    do {
      return try withScope(name: storage.name) { scope in
        scope.launch(name: "input of \(storage.name)") {
          defer { self.standardInput.close() }
          do { try self.standardInput.write(bytes) } catch {
            guard Self.isEndOfReader(error) else { throw error }
          }
        }
        let errors = scope.launch(name: "error of \(storage.name)") { try Self.readAll(self.error) }
        let output = try Self.readAll(self.output)
        return Output(end: try wait(), output: output, error: try errors.get())
      }
    } catch {
      // Its end, however it came, is not the error.
      try? storage.killAndWait()
      throw error
    }
  }

  /// A program may end before it has read all.
  private static func isEndOfReader(_ error: any Error) -> Bool {
    ((error as? PartialWrite)?.cause as? IOError ?? error as? IOError)?.code == EPIPE
  }

  private static func readAll(_ stream: PipeReader?) throws -> [UInt8] {
    var all: [UInt8] = []
    while let bytes = try stream?.read(upTo: 65_536) { all += bytes }
    return all
  }
}
