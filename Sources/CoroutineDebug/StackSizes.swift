// SPDX-License-Identifier: Apache-2.0

import Context

extension CoroutineDump {
  /// What size of stack would do for the coroutines of one kind.
  public struct StackSize: Sendable, Hashable, CustomStringConvertible {
    /// Which ones: their name, with `*` in place of each number in it; for those without a name where they were created, if
    /// that was recorded, or else the function that they began with.
    public let label: String
    /// How many it rests on: those of them that the dump has.
    public let count: Int
    /// The deepest that the stack of one has been, in bytes.
    public let peak: Int
    /// The bytes that each has now, or at most.
    public let size: Int

    /// The deepest and half of that again, 8 KiB at least, rounded up to the next 16 KiB, 64 KiB at least: for
    /// `stackSize:`. Functions that none of them has called yet are not in it.
    public var suggestion: Int {
      let wanted = peak + max(peak / 2, 8 << 10)
      return max(StackPool.leastCoroutineStackSize, (wanted + (16 << 10) - 1) & ~((16 << 10) - 1))
    }

    /// As a dump's text has it.
    public var description: String {
      "\(label): \(suggestion >> 10) KiB (\(DumpStyle.number(count)) "
        + "\(count == 1 ? "coroutine" : "coroutines"), \(DumpStyle.kib(peak)) of \(DumpStyle.kib(size)) KiB at most)"
    }
  }

  /// Which sizes of stack would be enough, by how deep the stacks of the dump have been; the kind with most coroutines
  /// first. Empty unless the dump was to measure it (`stackPeaks: true`).
  ///
  /// ```swift
  /// CoroutineDump.measuresStacks = true              // before the work, so that no stack shows earlier users
  /// // ... the work ...
  /// for size in try CoroutineDump.capture(stackPeaks: true).stackSizes { print(size) }
  /// // "worker *": 64 KiB (64 coroutines, 9.2 of 256 KiB at most)
  /// ```
  public var stackSizes: [StackSize] {
    var peaks = StackPeaks()
    for coroutine in coroutines { peaks.insert(coroutine, label: coroutine.kindLabel) }
    return peaks.sizes { _ in [] }
  }
}

/// How deep stacks have been, by what they belong to: a fixed amount for each kind.
struct StackPeaks {
  private enum Key: Hashable {
    case label(String)
    /// The numbers of stacks: where it was created, where it is.
    case creators(Int)
    case stack(Int)
  }

  private var kinds: [Key: (count: Int, peak: Int, size: Int)] = [:]
  /// More kinds are not distinguished.
  private static let most = 4096

  /// One of a dump that is being made.
  mutating func insert(_ coroutine: CoroutineBacktrace) {
    if !coroutine.name.isEmpty {
      insert(coroutine, .label(CoroutineBacktrace.kind(ofName: coroutine.name)))
    } else if let creators = coroutine.creatorsNumber {
      insert(coroutine, .creators(creators))
    } else if coroutine.state != .running {
      // Behind the frames of one that runs are those of others.
      insert(coroutine, .stack(coroutine.stackNumber))
    }
  }

  /// One of a dump that has been made; without a label it is none of any kind.
  mutating func insert(_ coroutine: CoroutineBacktrace, label: String?) {
    if let label { insert(coroutine, .label(label)) }
  }

  private mutating func insert(_ coroutine: CoroutineBacktrace, _ key: Key) {
    guard let peak = coroutine.stackPeak, let size = coroutine.stackSize else { return }
    guard kinds[key] != nil || kinds.count < Self.most else { return }
    let known = kinds[key] ?? (0, 0, 0)
    kinds[key] = (known.count + 1, max(known.peak, peak), max(known.size, size))
  }

  /// The kinds, the largest first. `frames`: of a stack of the dump.
  func sizes(_ frames: (Int) -> [CoroutineBacktrace.Frame]) -> [CoroutineDump.StackSize] {
    var labelled: [String: (count: Int, peak: Int, size: Int)] = [:]
    for (key, kind) in kinds {
      let label: String
      switch key {
      case .label(let known): label = known
      case .creators(let number): label = CoroutineBacktrace.kind(ofCreators: frames(number))
      case .stack(let number): label = CoroutineBacktrace.kind(ofFrames: frames(number))
      }
      let known = labelled[label] ?? (0, 0, 0)
      labelled[label] = (known.count + kind.count, max(known.peak, kind.peak), max(known.size, kind.size))
    }
    return labelled.map { CoroutineDump.StackSize(label: $0, count: $1.count, peak: $1.peak, size: $1.size) }
      .sorted { ($1.count, $0.label) < ($0.count, $1.label) }
  }
}

extension CoroutineBacktrace {
  /// What it is counted under, as `StackPeaks.insert(_:)` has it.
  fileprivate var kindLabel: String? {
    if !name.isEmpty { return Self.kind(ofName: name) }
    if !creationFrames.isEmpty { return Self.kind(ofCreators: creationFrames) }
    return state == .running ? nil : Self.kind(ofFrames: frames)
  }

  /// Thousands may be numbered in their names.
  fileprivate static func kind(ofName name: String) -> String {
    var kind = ""
    for character in name {
      if !("0"..."9").contains(character) { kind.append(character) } else if kind.last != "*" { kind.append("*") }
    }
    return "\"\(kind)\""
  }

  fileprivate static func kind(ofCreators frames: [Frame]) -> String {
    "created in \(frames.first { !$0.isRuntime }?.function ?? "an unknown function")"
  }

  fileprivate static func kind(ofFrames frames: [Frame]) -> String {
    frames.last { !$0.isRuntime }?.function ?? "without a name"
  }
}
