import Context
import Foundation
import Testing

/// The running `CoroutineDumpedProgram`, and the dumps that it has made of itself.
final class DumpedProgram {
  private(set) var text = ""
  private(set) var json = ""
  private let process = Process()
  private let input = Pipe()
  private let output = Pipe()

  /// The run loop of a thread that has started a process. `Process` refers to it weakly, for which Swift's runtime
  /// allocates some bytes as long as the run loop lives. The leak checker does not see the runtime's own reference to
  /// them.
  private struct RunLoopReference {
    weak var runLoop: RunLoop?
  }
  nonisolated(unsafe) private static var runLoops: [RunLoopReference] = []  // guarded by `lock`
  private static let lock = Lock()

  /// Beside the executable of the tests.
  static let executable = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    .deletingLastPathComponent().appendingPathComponent("CoroutineDumpedProgram").path

  init(at path: String = DumpedProgram.executable) throws {
    process.executableURL = URL(fileURLWithPath: path)
    process.standardInput = input
    process.standardOutput = output
    try process.run()
    Self.lock.withLock { Self.runLoops.append(RunLoopReference(runLoop: .current)) }
    (text, json) = try read()
  }

  deinit {
    // A process that could not be started has the number 0, which means every process of the group.
    guard process.isRunning else { return }
    kill(id, SIGKILL)
    process.waitUntilExit()
  }

  var id: CInt { process.processIdentifier }

  /// The dumps that the program makes at signals.
  func dumpsBySignals() throws -> (text: String, json: String) {
    while true {
      kill(id, SIGQUIT)
      let beginning = output.fileHandleForReading.availableData
      // The first words are out, so the dump's thread writes the text. The JSON comes after it.
      kill(id, SIGUSR1)
      let dumps = try read(after: beginning)
      // On a busy machine a thread may get no processor in time.
      if !dumps.text.contains("did not answer"), !dumps.json.contains("unanswered") { return dumps }
    }
  }

  /// Reads a dump as text, and then one as JSON, which ends with the number of coroutines.
  private func read(after beginning: Data = Data()) throws -> (text: String, json: String) {
    var data = beginning
    while true {
      let dumps = String(decoding: data, as: UTF8.self)
      if dumps.hasSuffix("}\n"), let start = dumps.firstRange(of: "{\"format\":")?.lowerBound,
        dumps[start...].contains("\n],\"count\":")
      {
        return (String(dumps[..<start]), String(dumps[start...]))
      }
      let more = output.fileHandleForReading.availableData
      try #require(!more.isEmpty, "the program has ended: \(dumps)")
      data += more
    }
  }
}
