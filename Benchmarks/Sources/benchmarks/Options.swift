// SPDX-License-Identifier: Apache-2.0

import Foundation
import Measurement

/// The options of the command line.
struct Options {
  var effort = Effort.quick
  /// The folder of the measured programs.
  var programs = URL(fileURLWithPath: ".")
  /// The folder for the results. `nil`: they are not written.
  var results: URL?
  /// The versions of compilers and libraries, which only the build knows.
  var versions: [String] = []
  /// Run only the workloads whose names contain this. `nil`: all of them.
  var only: String?
  /// The file of the targets and the limits of the ratios.
  var thresholds = URL(fileURLWithPath: "Benchmarks/thresholds.json")
  /// Whether to measure only what the thresholds name, and to fail if they are not kept, instead of a report.
  var checks = false
  /// Whether to be one of the measured programs, which another process asks.
  var serves = false
  /// See `Server`. An environment variable, so that the started programs get it, too.
  let slowdown = ProcessInfo.processInfo.environment["BENCHMARKS_SLOWDOWN"].flatMap(Double.init) ?? 1

  static let usage = """
    usage: benchmarks --programs FOLDER [--full] [--only TEXT] [--results FOLDER] [--version TEXT]...
           benchmarks --programs FOLDER --check
           benchmarks --serve

      --programs FOLDER  where runtime-ASM, runtime-Boost, runtime-Ucontext and the peers' programs are
      --full             more rounds, longer ones
      --only TEXT        just the workloads whose names contain TEXT
      --results FOLDER   write latest.json, ratios.json, machine.json and report.md there
      --check            measure what the thresholds speak of, and nothing else; fail if they are not kept
      --thresholds FILE  other ones than Benchmarks/thresholds.json
      --version TEXT     the version of a compiler or a library, for the report
      --serve            run loops as asked on the standard input, see Worker.swift
    """

  init(_ arguments: [String]) throws {
    var rest = arguments[...]
    func value(of option: String) throws -> String {
      guard let value = rest.popFirst() else { throw Mistake(description: "\(option) needs a value") }
      return value
    }
    while let option = rest.popFirst() {
      switch option {
      case "--full": effort = .full
      case "--only": only = try value(of: option)
      case "--programs": programs = URL(fileURLWithPath: try value(of: option))
      case "--results": results = URL(fileURLWithPath: try value(of: option))
      case "--version": versions.append(try value(of: option))
      case "--check": checks = true
      case "--thresholds": thresholds = URL(fileURLWithPath: try value(of: option))
      case "--serve": serves = true
      default: throw Mistake(description: "unknown option \(option)")
      }
    }
  }

  func selects(_ workload: String) -> Bool {
    only.map { workload.contains($0) } ?? true
  }

  struct Mistake: Error, CustomStringConvertible {
    let description: String
  }
}
