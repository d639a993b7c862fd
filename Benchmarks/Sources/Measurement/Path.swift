// SPDX-License-Identifier: Apache-2.0

import CMeasurement

/// What a loop does per operation, counted instruction by instruction.
public struct Path: Codable, Sendable, Equatable {
  /// All instructions.
  public var instructions: Double
  /// The instructions outside the program, by library: "libswiftCore.so", "libc.so.6".
  public var inLibraries: [String: Double]
  /// The instructions that lock the bus. Every lock, every reference count and every other atomic change has one.
  public var locking: Double
  /// System calls.
  public var systemCalls: Double
}

extension Path {
  /// How many of its instructions break the promises.
  fileprivate func detours(_ promises: Promises) -> Double {
    var detours = promises.contains(.noLock) ? abs(locking) : 0
    if promises.contains(.noCallOut) {
      detours += abs(systemCalls) + others.values.reduce(0) { $0 + abs($1) }
    }
    return detours
  }

  /// The instructions in libraries that are no part of a short path.
  var others: [String: Double] {
    inLibraries.filter { library in !Promises.allowed.contains { library.key.hasPrefix($0) } }
  }
}

extension Subject {
  /// The path of one operation, or `nil` where instructions can't be counted.
  ///
  /// Now and then a run does something once that others do not do, such as a trim of a pool. That can happen in the
  /// longer run or in the shorter one. So there are several attempts, and the one without it counts.
  func path() -> Path? {
    guard steps_are_possible else { return nil }
    // Without a promise a few operations of many instructions are enough, as stepping takes long.
    guard promises.speakOfPath else { return pathInOneAttempt(10) }
    var best = pathInOneAttempt(50)
    for attempt in 1..<5 where best.detours(promises) != 0 {
      // What happens in every second run, or every third, must not always meet the longer run.
      for _ in 0..<attempt { _ = checkedRead(granularity) }
      let next = pathInOneAttempt(50)
      if next.detours(promises) < best.detours(promises) { best = next }
    }
    return best
  }

  /// The difference between runs of two lengths, so that what a run does once is not counted.
  private func pathInOneAttempt(_ operations: Int) -> Path {
    let short = granularity * Swift.max(1, operations / granularity)
    // Binds symbols and fills caches.
    _ = checkedRead(short)
    let steps = [short, 2 * short].map { Steps(of: self, $0) }
    func difference(_ count: (Steps) -> Int) -> Double {
      Double(count(steps[1]) - count(steps[0])) / Double(short)
    }
    var inLibraries: [String: Double] = [:]
    for library in Set(steps.flatMap(\.inLibraries.keys)) {
      let count = difference { $0.inLibraries[library] ?? 0 }
      if count != 0 { inLibraries[library] = count }
    }
    return Path(
      instructions: difference(\.instructions), inLibraries: inLibraries, locking: difference(\.locking),
      systemCalls: difference(\.systemCalls))
  }
}

/// The instructions of one run.
final class Steps {
  private(set) var instructions = 0
  private(set) var inLibraries: [String: Int] = [:]
  private(set) var locking = 0
  private(set) var systemCalls = 0

  /// Set while the next timed loop is to be stepped through instead.
  // Set by the thread that measures, which waits for the end of the thread that runs the loop and reads it.
  nonisolated(unsafe) private(set) static var wanted: Steps?

  /// Steps through one run.
  init(of subject: Subject, _ operations: Int) {
    Self.wanted = self
    _ = subject.checkedRead(operations)
    Self.wanted = nil
  }

  /// More than any loop here takes.
  private static let capacity = 1 << 20

  /// Runs `loop` instruction by instruction. Returns what it computed.
  func note(_ loop: () -> Int) -> Int {
    let addresses = UnsafeMutablePointer<UInt>.allocate(capacity: Self.capacity)
    defer { addresses.deallocate() }
    steps_start(addresses, Self.capacity)
    let computed = loop()
    let count = steps_stop()
    precondition(count <= Self.capacity, "the loop takes \(count) instructions")
    // If a run has several loops, they are layouts of the same one. The shortest counts, as it has no padding.
    if instructions == 0 || count < instructions {
      classify(UnsafeBufferPointer(start: addresses, count: count))
    }
    return computed
  }

  private func classify(_ addresses: UnsafeBufferPointer<UInt>) {
    instructions = addresses.count
    inLibraries = [:]
    locking = 0
    systemCalls = 0
    let program = Self.file(at: UInt(bitPattern: #dsohandle))
    var files: [UInt: String] = [:]
    for address in addresses {
      let file = files[address] ?? Self.file(at: address)
      files[address] = file
      if file != program { inLibraries[file, default: 0] += 1 }
      let code = UnsafePointer<UInt8>(bitPattern: address)!
      if Self.locks(code) { locking += 1 }
      if code[0] == 0x0f && code[1] == 0x05 { systemCalls += 1 }
    }
  }

  /// The name of the file that an instruction was loaded from.
  private static func file(at address: UInt) -> String {
    guard let path = steps_file(address) else { return "the kernel" }
    return String(String(cString: path).split(separator: "/").last ?? "")
  }

  /// Whether an instruction of x86-64 has the lock prefix, or is an exchange with memory, which needs none.
  private static func locks(_ code: UnsafePointer<UInt8>) -> Bool {
    if code[0] == 0xf0 { return true }
    let opcode = code[0] & 0xf0 == 0x40 ? 1 : 0  // behind a REX prefix
    return (code[opcode] == 0x86 || code[opcode] == 0x87) && code[opcode + 1] < 0xc0
  }
}
