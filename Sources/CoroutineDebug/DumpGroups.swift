// SPDX-License-Identifier: Apache-2.0

/// Coroutines with equal stacks, and what is shown of them: a fixed amount, however many they are.
struct DumpGroup {
  /// Any of them.
  private(set) var sample: CoroutineBacktrace
  private(set) var count = 0
  /// Those with the lowest numbers.
  private(set) var members = Members()
  /// By what they wait for.
  private(set) var reasons: [String: (count: Int, members: Members)] = [:]
  /// How many wait for something that is not in `reasons`.
  private(set) var otherReasons = 0
  private(set) var shortest: Duration?
  private(set) var longest: Duration?
  /// The shortest and the longest time until one of them gives up waiting.
  private(set) var timeLeft: ClosedRange<Duration>?
  private(set) var mostUsed = 0
  /// The deepest that one of their stacks has been; 0: not known.
  private(set) var peak = 0
  /// What they have in common, if anything.
  private(set) var scheduler: String?
  private(set) var parentID: UInt64??
  private(set) var scope: CoroutineBacktrace.Scope??
  private(set) var stackSize: Int?

  /// So many members are named, and so many different things that they wait for.
  static var named: Int { 8 }
  /// So many different things are counted.
  private static var counted: Int { 64 }

  /// A few coroutines, in the order of their numbers.
  struct Members {
    private(set) var labels: [(id: UInt64, label: String)] = []

    var lowest: UInt64 { labels.first?.id ?? 0 }

    mutating func insert(_ coroutine: CoroutineBacktrace) {
      if let last = labels.last, labels.count == DumpGroup.named {
        guard coroutine.id < last.id else { return }
        labels.removeLast()
      }
      let index = labels.firstIndex { $0.id > coroutine.id } ?? labels.count
      labels.insert((coroutine.id, coroutine.label), at: index)
    }
  }

  init(_ first: CoroutineBacktrace) {
    sample = first
    scheduler = first.scheduler
    parentID = .some(first.parentID)
    scope = .some(first.scope)
    stackSize = first.stackSize
    insert(first)
  }

  mutating func insert(_ coroutine: CoroutineBacktrace) {
    count += 1
    members.insert(coroutine)
    if reasons[coroutine.waitsFor] != nil || reasons.count < Self.counted {
      var reason = reasons.removeValue(forKey: coroutine.waitsFor) ?? (0, Members())
      reason.count += 1
      reason.members.insert(coroutine)
      reasons[coroutine.waitsFor] = reason
    } else {
      otherReasons += 1
    }
    if let duration = coroutine.duration {
      shortest = min(shortest ?? duration, duration)
      longest = max(longest ?? duration, duration)
    }
    if let left = coroutine.timeLeft {
      timeLeft = min(timeLeft?.lowerBound ?? left, left)...max(timeLeft?.upperBound ?? left, left)
    }
    mostUsed = max(mostUsed, coroutine.stackUsed ?? 0)
    peak = max(peak, coroutine.stackPeak ?? 0)
    if scheduler != coroutine.scheduler { scheduler = nil }
    if parentID != .some(coroutine.parentID) { parentID = nil }
    if scope != .some(coroutine.scope) { scope = nil }
    if stackSize != coroutine.stackSize { stackSize = nil }
  }
}

/// All groups of a dump.
struct DumpGroups {
  private struct Key: Hashable {
    let state: CoroutineBacktrace.State
    let isGenerator: Bool
    let isCancelled: Bool
    let stack: Int
    let creators: Int?
  }

  private var groups: [Key: DumpGroup] = [:]
  private(set) var counts: [CoroutineBacktrace.State: Int] = [:]
  private(set) var generators = 0

  mutating func insert(_ coroutine: CoroutineBacktrace) {
    if coroutine.isGenerator { generators += 1 } else { counts[coroutine.state, default: 0] += 1 }
    let key = Key(
      state: coroutine.state, isGenerator: coroutine.isGenerator, isCancelled: coroutine.isCancelled,
      stack: coroutine.stackNumber, creators: coroutine.creatorsNumber)
    // In place: a copy for each member would be one for each of a hundred thousand.
    if groups[key]?.insert(coroutine) == nil { groups[key] = DumpGroup(coroutine) }
  }

  /// How many of each.
  var summary: String {
    let total = counts.values.reduce(0, +)
    var parts: [String] = []
    for state in CoroutineBacktrace.State.allCases {
      guard let count = counts[state] else { continue }
      parts.append("\(DumpStyle.number(count)) \(state == .new ? "not begun" : state.rawValue)")
    }
    var summary = "\(total == 1 ? "1 coroutine" : "\(total == 0 ? "no" : DumpStyle.number(total)) coroutines")"
    if !parts.isEmpty { summary += ": " + parts.joined(separator: ", ") }
    if generators > 0 {
      summary += "; \(generators == 1 ? "1 generator" : "\(DumpStyle.number(generators)) generators")"
    }
    return summary
  }

  /// The largest first; where two are equal in size, the one with the lowest number.
  var sorted: [DumpGroup] {
    groups.values.sorted { ($1.count, $0.members.lowest) < ($0.count, $1.members.lowest) }
  }
}

extension CoroutineBacktrace {
  /// Number and name: `12 "reader"`.
  var label: String { name.isEmpty ? "\(id)" : "\(id) \"\(name.onOneLine)\"" }
}
