import CSwitchLoops
import Coroutine
import Foundation
import Measurement

@main
enum Benchmarks {
  static func main() {
    do {
      let options = try Options(Array(CommandLine.arguments.dropFirst()))
      // Before anything else: threads that start from now on stay on this processor.
      try Machine.pinToOneCore()
      if let count = options.suspended {
        print(String(decoding: try JSONEncoder().encode(Suspended(measuring: count)), as: UTF8.self))
      } else {
        try run(options)
      }
    } catch let mistake as Options.Mistake {
      fail("\(mistake.description)\n\(Options.usage)", code: 2)
    } catch {
      fail("\(error)", code: 1)
    }
  }

  private static func run(_ options: Options) throws {
    let boost = switch_loops_boost_file().map { String(cString: $0) }
    let machine = Machine(swift: options.swift, boost: boost, backend: Coroutine.backendName)
    var report = Report(options.effort, on: machine)
    // One after the other: what one keeps in memory must not be there when the next is measured.
    let suite: [() throws -> [Workload]] = [
      { [try .switching()] }, Workload.generating, { [.treeWalk()] }, { [.inTurn()] }, Workload.scheduling,
      Workload.acting,
    ]
    for workloads in suite {
      for workload in try workloads() where options.selects(workload.name) { report.measure(workload) }
    }
    if options.selects(Suspended.name) {
      report.add(try Suspended.records(runs: 3, cores: machine.cores))
    }
    // What a part of the workloads says must not take the place of what all of them said.
    if let folder = options.results, options.only == nil { try report.write(to: folder) }
    if !report.brokenPromises.isEmpty { fail(report.brokenPromises.joined(separator: "\n"), code: 1) }
  }

  private static func fail(_ message: String, code: Int32) -> Never {
    FileHandle.standardError.write(Data("benchmarks: \(message)\n".utf8))
    exit(code)
  }
}
