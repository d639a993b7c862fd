// SPDX-License-Identifier: Apache-2.0

public import CoroutineDebug

/// A process whose coroutines are looked at from outside: a running one, or a core file of one.
public enum InspectedProcess: Sendable, Hashable {
  /// The one with this number. It may be any process that the caller may debug, but not the caller itself. All its threads
  /// stand still while it is read: a few microseconds for each coroutine.
  case running(CInt)
  /// The one that left this core file, and the executable that it ran, which may be stripped.
  case core(String, executable: String)
}

extension CoroutineDump {
  /// Reads the stacks of all coroutines of another process.
  ///
  /// ```swift
  /// let dump = try CoroutineDump.capture(of: .running(4711))
  /// ```
  ///
  /// The dump is the one that the process would make itself, with these exceptions: a scheduler of the program's own is
  /// named without the parameters of its type; how long something has lasted is not known of a core file. The process
  /// needs only the runtime, of the same version: neither symbols nor `CoroutineDebug`.
  ///
  /// - Parameters:
  ///   - process: the one to look at.
  ///   - frameLimit: how many frames of a coroutine are kept, innermost first; at least 1.
  ///   - stackPeaks: looks how deep each stack has been, too: for `stackSizes`.
  /// - Throws: `InspectionError`.
  public static func capture(
    of process: InspectedProcess, frameLimit: Int = 1000, stackPeaks: Bool = false
  ) throws(InspectionError) -> CoroutineDump {
    var capture = try OutsideCapture(process, frameLimit: frameLimit, stackPeaks: stackPeaks)
    do { return try capture.dump() } catch { throw InspectionError(error) }
  }

  /// Makes a dump of another process and writes it to a file descriptor, by default the standard output: the same text, or
  /// JSON, that the process would write itself.
  ///
  /// As `capture(of:frameLimit:)`. It runs again before anything is written.
  ///
  /// - Throws: `InspectionError`; `CoroutineDumpError` if the system refuses to write.
  public static func write(of process: InspectedProcess, to descriptor: CInt = 1, options: Options = Options()) throws {
    var capture = try OutsideCapture(process, frameLimit: options.frameLimit, stackPeaks: options.stackPeaks)
    try write(from: &capture, to: descriptor, options: options)
  }
}

/// Why another process can't be looked at.
public struct InspectionError: Error, CustomStringConvertible {
  /// The kind of an error, to decide by.
  public enum Reason: Sendable, Hashable {
    /// There is no such process, or it has ended.
    case noProcess
    /// It belongs to another user, or may not be debugged, or is being debugged already.
    case notPermitted
    /// There is no coroutine runtime in it.
    case noRuntime
    /// Its runtime is of another version than this one.
    case otherVersion
    /// The core file can't be used.
    case unusableCore
    /// The executable can't be used, or is not the one that the core file belongs to.
    case unusableExecutable
    /// The system refused something.
    case system
  }

  /// Which kind of error it is.
  public let reason: Reason
  /// What is wrong, and where something can be done, what.
  public let description: String

  init(_ reason: Reason, _ description: String) {
    // It has paths in it, of a process that any user may have made.
    (self.reason, self.description) = (reason, description.onOneLine)
  }

  init(_ error: any Error) {
    self = error as? InspectionError ?? InspectionError(.system, "\(error)")
  }
}
