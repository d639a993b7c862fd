import Foundation
import Measurement

/// What the command line asks for.
struct Options {
  var effort = Effort.quick
  /// Where the programs are that are measured.
  var programs = URL(fileURLWithPath: ".")
  /// Where the results go; nowhere without it.
  var results: URL?
  /// The versions of compilers and libraries, which only the build knows.
  var versions: [String] = []
  /// Run the workloads whose names contain this, all of them without it.
  var only: String?
  /// What the ratios are aimed at, and what is allowed.
  var thresholds = URL(fileURLWithPath: "Benchmarks/thresholds.json")
  /// Measure what the thresholds speak of, and fail if they are not kept, instead of reporting all there is.
  var checks = false
  /// Be one of the programs that are measured, asked by another process.
  var serves = false
  /// See `Server`. An environment variable, so that it reaches the programs that are started.
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
