import ArgumentParser
import Coroutine
import CoroutineTracing
import Foundation

/// The command: its arguments, and its output.
@main
struct IndexFiles: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "index-files",
    abstract: "Counts the lines and words in all files of a directory, with coroutines.",
    discussion: """
      Halfway it stops for a moment and prints where each of its coroutines is suspended. At the end it measures what \
      switching between them costs.
      """)

  @Argument(help: "What to index. By default the C library's headers, which are wherever Swift programs can be built.")
  var directory = "/usr/include"

  @Option(help: ArgumentHelp("How many coroutines read files.", valueName: "number"))
  var workers = ThreadPool.processorCount

  @Option(help: ArgumentHelp("Write what was measured to a file, as one line.", valueName: "file"))
  var stats: String?

  @Option(help: ArgumentHelp("Write what ran when and where to a file for Perfetto.", valueName: "file"))
  var trace: String?

  func validate() throws {
    guard (1...1000).contains(workers) else {
      throw ValidationError("--workers must be between 1 and 1000, not \(workers).")
    }
    guard let stream = opendir(directory) else {
      throw ValidationError("\(SystemError(errno, "Can't read the directory '\(directory)'"))")
    }
    closedir(stream)
  }

  func run() throws {
    // Opened at the beginning, so that a mistake in the path does not cost a whole run.
    let statsFile = try stats.map { path in
      guard let file = fopen(path, "w") else {
        throw ValidationError("\(SystemError(errno, "Can't write to '\(path)'"))")
      }
      return file
    }

    let trace = try trace.map { try CoroutineTrace.start(to: $0) }

    let start = ContinuousClock.now
    let summary = try summarize(directory, workerCount: workers)
    let time = ContinuousClock.now - start
    try trace?.stop()
    print("\(directory):\n\(summary.report)")

    let measurements = try Measurements(program: time)
    print(measurements.report)
    if let stats, let statsFile {
      fputs(measurements.line, statsFile)
      guard fclose(statsFile) == 0 else { throw SystemError(errno, "Can't write to '\(stats)'") }
    }
  }
}

/// A system call that failed.
private struct SystemError: Error, CustomStringConvertible {
  let description: String

  /// - Parameters:
  ///   - code: `errno`; the first argument, since that is evaluated first.
  ///   - action: what failed.
  init(_ code: Int32, _ action: String) {
    description = "\(action): \(String(cString: strerror(code)))."
  }
}
