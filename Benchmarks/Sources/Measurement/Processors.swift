// SPDX-License-Identifier: Apache-2.0

import CMeasurement
import Foundation

/// A processor of the machine, as the kernel counts them: several may be threads of one core.
public struct Processor: Codable, Sendable, Equatable {
  let number: Int
  /// The processors of its core, itself included, in the kernel's form of a list: "3", "1,3". `nil` if the kernel
  /// does not tell.
  let core: String?
  /// The processors that share its last cache.
  let lastCache: String?

  init(_ number: Int) {
    self.number = number
    core = Self.line("\(number)/topology/thread_siblings_list")
    // The highest cache level that exists.
    lastCache = (0..<5).reversed().lazy.compactMap { Self.line("\(number)/cache/index\($0)/shared_cpu_list") }.first
  }

  private static func line(_ file: String) -> String? {
    let text = try? String(contentsOfFile: "/sys/devices/system/cpu/cpu\(file)", encoding: .utf8)
    return text.map { $0.trimmingCharacters(in: .whitespacesAndNewlines) }
  }
}

/// The processors that the process may use, and those that it measures on.
enum Processors {
  /// Taken at the start, as later the process is confined to fewer.
  static let given = (0..<Int(machine_processor_limit())).filter { machine_gives(CInt($0)) }

  /// All given ones, in the order in which they are chosen. The last ones come first, as they get the fewest
  /// interrupts. A core's second processor comes only after each core has one.
  private static let inOrder: [Processor] = {
    var cores: Set<String> = []
    var first: [Processor] = []
    var second: [Processor] = []
    for processor in given.reversed().map(Processor.init) {
      let isFirst = processor.core.map { cores.insert($0).inserted } ?? true
      if isFirst { first.append(processor) } else { second.append(processor) }
    }
    return first + second
  }()

  /// The processors for a comparison on `count` of them, or fewer if there are fewer.
  static func chosen(_ count: Int) -> [Processor] { Array(inOrder.prefix(count)) }

  /// Confines the calling thread, and what it starts, to `count` processors.
  static func confine(to count: Int) throws {
    let processors = chosen(count)
    guard processors.count == count else { throw Failure("there are not \(count) processors") }
    guard machine_confine(processors.map { CInt($0.number) }, CInt(count)) == 0 else {
      throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EINVAL)
    }
  }
}
