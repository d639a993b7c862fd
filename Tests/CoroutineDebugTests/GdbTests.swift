import Coroutine
import CoroutineInspection
import CoroutineTestSupport
import Foundation
import Testing

@testable import CoroutineDebug

/// The gdb script, run on a program that has told what there is to find.
@Suite(
  .ownThreads,
  .enabled(if: Gdb.isThere, "there is no gdb with Python"),
  .enabled(if: ForkedProcess.canBeInspected, "no process may look at another one here"))
struct GdbTests {
  @Test func theScriptFindsTheCoroutinesAndWalksTheirStacks() throws {
    let program = try DumpedProgram()
    let dump = try JSONDecoder().decode(Dump.self, from: Data(program.json.utf8))
    let pipe = try #require(dump.coroutines.first { $0.name == "pipe" })
    let diver = try #require(dump.coroutines.first { $0.name == "diver 2" })
    let text = try Gdb.run(
      ["coroutines", "coroutine \(pipe.id) bt", "coroutine bt \(diver.id)", "coroutine select \(diver.id)", "bt 40"],
      on: program.id)
    withExtendedLifetime(program) {}
    for coroutine in dump.coroutines where coroutine.kind == "coroutine" {
      let state = coroutine.state == "new" ? "not begun" : coroutine.state
      #expect(text.contains("\ncoroutine \(coroutine.label): \(state)"), "\(coroutine.id)")
    }
    // A name's control characters, which a terminal would obey, are escaped.
    #expect(text.contains(#"fifteen bytes: Ä\u{1b}[2J\u{202e}\u{a}": suspended"#) && !text.contains("\u{1b}[2J"))
    #expect(text.contains("receive, channel \"food\""))
    #expect(text.contains("lock, mutex \"gate\""))
    // The addresses are those of the dump. For inlined functions gdb prints the same address again.
    for coroutine in [pipe, diver] {
      let expected = dump.stacks[coroutine.stack].compactMap { UInt($0.address.dropFirst(2), radix: 16) }
      #expect(addresses(in: text, after: coroutine.label) == expected.withoutRepetitions)
    }
    // After the thread's own frame 0.
    #expect(text.contains("\n#1 ") && text.components(separatedBy: "descend").count > 6)
  }

  @Test func theScriptSaysThatNothingRuns() throws {
    let text = try Gdb.run(["coroutines", "coroutine 1 bt"], on: nil)
    #expect(text.components(separatedBy: "There is no process, and no core file, to look at").count == 3)
    #expect(!text.contains("Python Exception"))
  }
}

/// As much of a JSON dump as these tests look at.
private struct Dump: Decodable {
  struct Coroutine: Decodable {
    let id: UInt64
    let kind: String
    let name: String
    let state: String
    let stack: Int

    var label: String { name.isEmpty ? "\(id)" : "\(id) \"\(name.onOneLine)\"" }
  }

  struct Frame: Decodable {
    let address: String
  }

  let coroutines: [Coroutine]
  let stacks: [[Frame]]
}

/// The addresses of the backtrace after the second mention of the coroutine.
private func addresses(in text: String, after label: String) -> [UInt] {
  let parts = text.components(separatedBy: "\ncoroutine \(label): ")
  guard parts.count > 2 else { return [] }
  let lines = parts[2].split(separator: "\n").dropFirst().prefix { $0.hasPrefix("#") }
  return lines.compactMap { line in
    line.split(separator: " ").dropFirst().first.flatMap { UInt($0.dropFirst(2), radix: 16) }
  }.withoutRepetitions
}

extension [UInt] {
  fileprivate var withoutRepetitions: [UInt] {
    enumerated().filter { $0.offset == 0 || self[$0.offset - 1] != $0.element }.map(\.element)
  }
}

@Suite(.ownThreads) struct GdbScriptTests {
  /// The script repeats these names, because gdb can't ask the program for them.
  @Test func theScriptKnowsTheNamesOfTheLayout() throws {
    let header = try String(
      contentsOf: Gdb.package.appending(path: "Sources/CCoroutine/include/debug_layout.h"), encoding: .utf8)
    let layout = try #require(
      header.components(separatedBy: "struct coroutine_debug_layout {").dropFirst().first?
        .components(separatedBy: "struct coroutine_debug_kind kinds").first)
    let names = layout.split(separator: "\n").flatMap { line -> [String] in
      let line = line.trimmingCharacters(in: .whitespaces)
      guard line.hasPrefix("uint64_t "), let end = line.firstIndex(of: ";") else { return [] }
      return line[..<end].dropFirst(9).split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
    }
    #expect(try Gdb.list("FIELDS") == names)
    #expect(
      try Gdb.list("OPERATIONS")
        == (0...).lazy.map { WaitReason.Operation(rawValue: $0) }.prefix { $0 != nil }.map {
          "\($0!)"
        })
    #expect(names.count > 50)
  }
}

private enum Gdb {
  private static let path = "/usr/bin/gdb"
  static let package = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
  private static let script = package.appending(path: "Tools/gdb/coroutines.py").path

  /// The strings of a list in the script.
  static func list(_ name: String) throws -> [String] {
    let text = try String(contentsOfFile: script, encoding: .utf8)
    let parts = text.components(separatedBy: "\n\(name) = \"\"\"")
    return parts.count < 2
      ? [] : parts[1].components(separatedBy: "\"\"\"")[0].split { $0.isWhitespace }.map(String.init)
  }

  /// Whether there is a gdb. Those of the distributions have Python.
  static var isThere: Bool { access(path, X_OK) == 0 && access(script, R_OK) == 0 }

  /// What the script prints. Without a process, its error messages too.
  static func run(_ commands: [String], on process: CInt?) throws -> String {
    let gdb = Process()
    gdb.executableURL = URL(filePath: path)
    gdb.arguments =
      ["-nx", "-batch", "-iex", "set debuginfod enabled off"] + (process.map { ["-p", "\($0)"] } ?? [])
      + (["source \(script)"] + commands).flatMap { ["-ex", $0] }
    let output = Pipe()
    gdb.standardOutput = output
    if process == nil { gdb.standardError = output } else { gdb.standardError = FileHandle.nullDevice }
    gdb.standardInput = FileHandle.nullDevice
    // Dispatch's threads block all signals, and a program inherits that. gdb would not hear that the process has
    // stopped.
    var (none, before) = (sigset_t(), sigset_t())
    pthread_sigmask(SIG_SETMASK, &none, &before)
    defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
    try gdb.run()
    let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
    gdb.waitUntilExit()
    return text
  }
}
