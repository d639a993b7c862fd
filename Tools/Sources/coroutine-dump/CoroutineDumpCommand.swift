// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import CoroutineDebug
import CoroutineInspection
import Glibc

@main
struct CoroutineDumpCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "coroutine-dump",
    abstract: "Shows what the coroutines of a process are doing, and what they wait for.",
    usage: """
      coroutine-dump [<options>] <pid>
      coroutine-dump [<options>] <core> <executable>
      """,
    discussion: """
      A process that runs stands still for as long as it is read: some microseconds for each coroutine. It has to be one \
      that you may debug. The executable may be stripped: then names and lines are missing.
      """)

  @Argument(help: ArgumentHelp("The number of a process, or a core file.", valueName: "pid or core"))
  var subject: String

  @Argument(help: "The executable that the core file is of.")
  var executable: String?

  @Flag(help: "Write JSON, as docs/dump-schema.json describes it.")
  var json = false

  @Flag(inversion: .prefixedNo, help: "Show coroutines with equal stacks once.")
  var groups = true

  @Flag(help: "Show the frames of the runtime, too.")
  var allFrames = false

  @Flag(help: "Show the whole paths of source files.")
  var fullPaths = false

  @Flag(inversion: .prefixedNo, help: "Look up the names of functions, and lines.")
  var names = true

  @Flag(help: "Show, after the coroutines, what belongs to what. Not with --json.")
  var tree = false

  @Flag(help: "Show how deep each stack has been, and what sizes would do.")
  var stackPeaks = false

  @Option(help: ArgumentHelp("Show so many frames of a coroutine, innermost first.", valueName: "count"))
  var frames = 1000

  @Option(help: "Use colors: automatic, always, never.")
  var color = Color.automatic

  enum Color: String, ExpressibleByArgument {
    case automatic, always, never
  }

  func validate() throws {
    guard frames > 0 else { throw ValidationError("--frames must be at least 1") }
    if json, tree {
      throw ValidationError("--tree is text: JSON has each coroutine's parent and scope, of which a tree can be made")
    }
    if executable == nil, CInt(subject) == nil {
      throw ValidationError(
        "'\(subject)' is not the number of a process. For a core file: coroutine-dump \(subject) <executable>")
    }
  }

  private var process: InspectedProcess {
    get throws {
      if let executable { return .core(subject, executable: executable) }
      guard let id = CInt(subject) else { throw ValidationError("'\(subject)' is not the number of a process") }
      return .running(id)
    }
  }

  private var options: CoroutineDump.Options {
    var options = CoroutineDump.Options(format: json ? .json : .text)
    options.groups = groups
    options.folds = !allFrames
    options.fullPaths = fullPaths
    options.names = names
    options.frameLimit = frames
    options.tree = tree
    options.stackPeaks = stackPeaks
    options.colors =
      switch color {
      case .automatic: .automatic
      case .always: .always
      case .never: .never
      }
    return options
  }

  func run() throws {
    do {
      try CoroutineDump.write(of: process, options: options)
    } catch let error as CoroutineDumpError where error.code == EPIPE {
      // The reader of the output has read enough.
    } catch {
      let message = "coroutine-dump: \(error)\n"
      _ = message.withCString { write(2, $0, strlen($0)) }
      throw ExitCode.failure
    }
  }
}
