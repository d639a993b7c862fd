import CMeasurement
import Foundation

/// What this process has of the machine's memory, in bytes.
public struct ProcessMemory: Sendable {
  /// Its pages that are in memory.
  public let resident: Int
  /// The tables that say where they are.
  public let pageTables: Int

  /// Both.
  public var total: Int { resident + pageTables }

  /// - Throws: an error of Foundation's if /proc is not there.
  public static func now() throws -> ProcessMemory {
    let text = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
    func bytes(_ name: String) -> Int {
      let line = text.split(separator: "\n").first { $0.hasPrefix(name + ":") }
      let kibibytes = line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) }
      return (kibibytes ?? 0) << 10
    }
    return ProcessMemory(resident: bytes("VmRSS"), pageTables: bytes("VmPTE"))
  }

  /// Gives what `malloc` keeps for the next allocations back to the kernel.
  public static func trim() { allocations_trim() }
}
