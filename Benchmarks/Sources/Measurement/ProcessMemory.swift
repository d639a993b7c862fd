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
    ProcessMemory(resident: try status("VmRSS"), pageTables: try status("VmPTE"))
  }

  /// A line of what the kernel tells, in bytes.
  private static func status(_ name: String) throws -> Int {
    let text = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
    let line = text.split(separator: "\n").first { $0.hasPrefix(name + ":") }
    let kibibytes = line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) }
    return (kibibytes ?? 0) << 10
  }

  /// The most that was in memory at a time since `restartPeak`, in bytes.
  ///
  /// - Throws: as `now()`.
  public static func peak() throws -> Int { try status("VmHWM") }

  /// What is in memory now is the most that was.
  public static func restartPeak() throws {
    try "5".write(toFile: "/proc/self/clear_refs", atomically: false, encoding: .utf8)
  }

  /// Gives what `malloc` keeps for the next allocations back to the kernel.
  public static func trim() { allocations_trim() }
}
