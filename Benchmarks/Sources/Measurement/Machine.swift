import CMeasurement
import Foundation
import Glibc

/// Where the figures were taken, and with which versions.
public struct Machine: Codable, Sendable {
  public let processor: String
  /// The processors that the process was given, of those that the machine has.
  public let cores: Int
  public let coresOfMachine: Int
  public let kernel: String
  public let libc: String
  /// What everything was built with, by the compilers and packages: "go", "go version go1.19.8 linux/amd64".
  public let versions: [String]
  /// How busy the machine was when the run began: the load of the last minute.
  public let load: Double
  public let date: String

  /// This machine, now.
  ///
  /// - Parameter versions: of compilers and libraries, which a program can't ask for.
  public init(versions: [String]) {
    processor = Self.field("model name", in: "/proc/cpuinfo") ?? "unknown"
    cores = Self.givenProcessors
    coresOfMachine = Int(sysconf(CInt(_SC_NPROCESSORS_ONLN)))
    let version = ProcessInfo.processInfo.operatingSystemVersion
    kernel = "Linux \(version.majorVersion).\(version.minorVersion).\(version.patchVersion)"
    libc = "glibc " + String(cString: machine_libc_version())
    self.versions = versions
    var loads = [0.0, 0.0, 0.0]
    load = getloadavg(&loads, 3) > 0 ? loads[0] : 0
    date = ISO8601DateFormatter().string(from: Date())
  }

  /// For the head of the tables.
  public var description: String {
    """
    \(processor), \(cores) of \(coresOfMachine) processors, \(kernel), \(libc)
    \(versions.joined(separator: "; "))
    load \(load) at the start; \(date)
    """
  }

  /// The value of the first line `name: value` of a file of /proc.
  private static func field(_ name: String, in file: String) -> String? {
    guard let text = try? String(contentsOfFile: file, encoding: .utf8) else { return nil }
    let line = text.split(separator: "\n").first { $0.hasPrefix(name) }
    return line?.split(separator: ":", maxSplits: 1).last.map { $0.trimmingCharacters(in: .whitespaces) }
  }

  /// How many processors the process was given.
  static var givenProcessors: Int { Int(machine_processors()) }

  /// Confines the calling thread to one processor.
  public static func pinToOneCore() throws {
    guard machine_confine(1) == 1 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EINVAL) }
  }
}
