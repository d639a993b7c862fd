// SPDX-License-Identifier: Apache-2.0

import CMeasurement
import Foundation

/// The memory that this process has, in bytes.
public struct ProcessMemory: Sendable {
  /// The resident pages.
  public let resident: Int
  /// The page tables.
  public let pageTables: Int

  /// Pages and page tables.
  public var total: Int { resident + pageTables }

  /// - Throws: an error of Foundation's if there is no /proc.
  public static func now() throws -> ProcessMemory {
    ProcessMemory(resident: try status("VmRSS"), pageTables: try status("VmPTE"))
  }

  /// A line of the kernel's status of this process, in bytes.
  private static func status(_ name: String) throws -> Int {
    let text = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
    let line = text.split(separator: "\n").first { $0.hasPrefix(name + ":") }
    let kibibytes = line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) }
    return (kibibytes ?? 0) << 10
  }

  /// The largest resident size since `restartPeak`, in bytes.
  ///
  /// - Throws: as `now()`.
  public static func peak() throws -> Int { try status("VmHWM") }

  /// Makes the present resident size the largest one.
  public static func restartPeak() throws {
    try "5".write(toFile: "/proc/self/clear_refs", atomically: false, encoding: .utf8)
  }

  /// Gives back to the kernel what `malloc` keeps for the next allocations.
  public static func trim() { allocations_trim() }
}
