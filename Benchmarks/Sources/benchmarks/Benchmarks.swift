// SPDX-License-Identifier: Apache-2.0

import CoroutineDebug
import Foundation
import Measurement

@main
enum Benchmarks {
  static func main() {
    // It is linked for the dumps alone. The cost of recording times is measured by itself: "yield, one turn of two".
    CoroutineDump.recordsTimes = false
    do {
      let options = try Options(Array(CommandLine.arguments.dropFirst()))
      if options.serves {
        try Server(suite(), slowdown: options.slowdown).run()
      } else {
        try run(options)
      }
    } catch let mistake as Options.Mistake {
      fail("\(mistake.description)\n\(Options.usage)", code: 2)
    } catch {
      fail("\(error)", code: 1)
    }
  }

  /// All workloads, in the order of the report.
  private static func suite() -> [Workload] {
    [.switching(), .creating()] + Workload.generating() + [.treeWalk()] + Workload.inTurn() + Workload.scheduling()
      + Workload.channels() + Workload.locking() + Workload.acting() + Workload.masses() + Workload.looking()
      + Workload.suspended() + Workload.crowded()
  }

  private static func run(_ options: Options) throws {
    // The programs that run the loops have processors of their own. This one stays out of their way, as it only
    // waits.
    try Machine.pinToOneCore()
    let programs = Programs(in: options.programs)
    let machine = Machine(versions: options.versions)
    FileHandle.standardOutput.write(Data("\(machine.description)\n\n".utf8))
    let thresholds = try Thresholds(from: options.thresholds)
    if options.checks {
      let problems = try thresholds.check(suite(), programs, options.effort)
      if !problems.isEmpty { fail(problems.joined(separator: "\n"), code: 1) }
      return
    }
    var report = Report(options.effort, programs, thresholds, on: machine)
    for workload in suite() where options.selects(workload.name) { try report.measure(workload) }
    try report.sayRatios()
    // Results of a part of the workloads must not replace the results of all of them.
    if let folder = options.results, options.only == nil { try report.write(to: folder) }
    if !report.brokenPromises.isEmpty { fail(report.brokenPromises.joined(separator: "\n"), code: 1) }
  }

  private static func fail(_ message: String, code: Int32) -> Never {
    FileHandle.standardError.write(Data("benchmarks: \(message)\n".utf8))
    exit(code)
  }
}
