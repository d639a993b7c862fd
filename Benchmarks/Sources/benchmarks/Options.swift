import Foundation
import Measurement

/// What the command line asks for.
struct Options {
  var effort = Effort.quick
  /// Where the JSON goes; nowhere without it.
  var results: URL?
  /// The compiler's version, which only the build knows.
  var swift = "Swift (version not given)"
  /// Run the workloads whose names contain this, all of them without it.
  var only: String?
  /// Measure so many suspended coroutines in this process, print the reading as JSON, and nothing else.
  var suspended: Int?

  static let usage = """
    usage: benchmarks [--full] [--only TEXT] [--results FOLDER] [--swift VERSION]

      --full             three times as many rounds, longer ones
      --only TEXT        just the workloads whose names contain TEXT
      --results FOLDER   write latest.json and machine.json there
      --swift VERSION    the compiler's version, for the report
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
      case "--results": results = URL(fileURLWithPath: try value(of: option))
      case "--swift": swift = try value(of: option)
      case "--suspended":
        guard let count = Int(try value(of: option)), count > 0 else {
          throw Mistake(description: "--suspended needs a number")
        }
        suspended = count
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
