// SPDX-License-Identifier: Apache-2.0

import CMeasurement
import Foundation
import Glibc

/// Where the figures were taken, and with which versions.
public struct Machine: Codable, Sendable {
  public let processor: String
  /// The number of processors that the process may use, of those of the machine.
  public let cores: Int
  public let coresOfMachine: Int
  /// The processors that are measured on: on one core the first one, on two cores both.
  let processors: [Processor]
  /// Whether both are threads of one core. `nil` if there is one processor, or if the kernel does not tell.
  let processorsShareCore: Bool?
  /// Whether both share the last cache.
  let processorsShareLastCache: Bool?
  public let kernel: String
  public let libc: String
  /// The versions of the compilers and packages that built everything: "go", "go version go1.19.8 linux/amd64".
  public let versions: [String]
  /// How busy the machine was when the run began: the load average of the last minute.
  public let load: Double
  public let date: String

  /// Describes this machine, now.
  ///
  /// - Parameter versions: of compilers and libraries, which a program can't ask for.
  public init(versions: [String]) {
    processor = Self.field("model name", in: "/proc/cpuinfo") ?? "unknown"
    cores = Processors.given.count
    coresOfMachine = Int(sysconf(CInt(_SC_NPROCESSORS_ONLN)))
    processors = Processors.chosen(2)
    processorsShareCore = Self.haveInCommon(processors, \.core)
    processorsShareLastCache = Self.haveInCommon(processors, \.lastCache)
    let version = ProcessInfo.processInfo.operatingSystemVersion
    kernel = "Linux \(version.majorVersion).\(version.minorVersion).\(version.patchVersion)"
    libc = "glibc " + String(cString: machine_libc_version())
    self.versions = versions
    var loads = [0.0, 0.0, 0.0]
    load = getloadavg(&loads, 3) > 0 ? loads[0] : 0
    date = ISO8601DateFormatter().string(from: Date())
  }

  /// The text for the head of the tables.
  public var description: String {
    """
    \(processor), \(cores) of \(coresOfMachine) processors, \(kernel), \(libc)
    \(places)
    \(versions.joined(separator: "; "))
    load \(load) at the start; \(date)
    """
  }

  /// "one core: processor 3; two cores: processors 3 and 2, of different cores, with a last cache in common".
  private var places: String {
    guard let first = processors.first else { return "no processor" }
    let one = "one core: processor \(first.number)"
    guard processors.count == 2 else { return one }
    func words(_ shared: Bool?, _ yes: String, _ no: String) -> String { shared.map { $0 ? yes : no } ?? "" }
    return one + "; two cores: processors \(first.number) and \(processors[1].number)"
      + words(processorsShareCore, ", which share a core", ", of different cores")
      + words(processorsShareLastCache, ", with a last cache in common", ", with a last cache each")
  }

  private static func haveInCommon(_ processors: [Processor], _ place: KeyPath<Processor, String?>) -> Bool? {
    guard processors.count == 2, let first = processors[0][keyPath: place], let second = processors[1][keyPath: place]
    else { return nil }
    return first == second
  }

  /// The value of the first line `name: value` of a file of /proc.
  private static func field(_ name: String, in file: String) -> String? {
    guard let text = try? String(contentsOfFile: file, encoding: .utf8) else { return nil }
    let line = text.split(separator: "\n").first { $0.hasPrefix(name) }
    return line?.split(separator: ":", maxSplits: 1).last.map { $0.trimmingCharacters(in: .whitespaces) }
  }

  /// Confines the calling thread to one processor.
  public static func pinToOneCore() throws { try Processors.confine(to: 1) }
}
