// SPDX-License-Identifier: Apache-2.0

import Context
import CoroutineLibc

/// Coroutines that can never go on, or keep others from it, as a `DeadlockDetector` found them.
///
/// Its description is what is printed:
///
///     deadlock: 2 coroutines wait for each other
///       coroutine 3 "transfer" waits for mutex "savings", held by coroutine 4 "audit",
///       which waits for mutex "giro", held by coroutine 3 "transfer"
///     and 1 more waits for them: 1 "main"
///
/// and the backtrace of each behind it.
public struct DeadlockReport: Sendable {
  /// What is wrong.
  public let kind: Kind
  /// Of a cycle its members: each waits for the next, the last one for the first. Otherwise in the order of their numbers.
  public let coroutines: [CoroutineBacktrace]
  /// Those that are in no cycle, but wait for one of its members, perhaps by way of others.
  public let waiting: [CoroutineBacktrace]

  /// What is wrong.
  public enum Kind: Sendable, Hashable {
    /// Each waits for what only the next one could do.
    case cycle
    /// No thread of the process can go on: each waits for another one, and there is no timer, no socket, no other process
    /// that could wake one.
    case standstill
    /// It has suspended inside the initialiser of a static or global variable. It may go on; but other code that uses the variable
    /// meanwhile blocks its thread for ever, since Swift's lock of the variable belongs to a thread. Said once for each coroutine. (In
    /// release builds of the library. A debug build traps when a coroutine suspends there.)
    case initialiser
    /// They are suspended, and the caller of `findLeaks` states that nothing will happen that could wake them.
    case leak
  }

  init(kind: Kind, coroutines: [CoroutineBacktrace], waiting: [CoroutineBacktrace] = []) {
    (self.kind, self.coroutines, self.waiting) = (kind, coroutines, waiting)
  }

  /// Writes the report to the standard error, in one piece.
  @Sendable
  public static func print(_ report: DeadlockReport) {
    var text = "\n\(report)\n"
    text.withUTF8 { try? writeAll(UnsafeRawBufferPointer($0), to: STDERR_FILENO) }
  }
}

extension DeadlockReport: CustomStringConvertible {
  public var description: String {
    switch kind {
    case .cycle: return "\(headline)\n\(chain)\(bystanders)\n" + stacks
    case .initialiser:
      let advice = "other code that uses it meanwhile blocks its thread for ever: wait before its first use"
      return "\(headline)\n  \(advice)\n\n" + stacks
    case .standstill, .leak: return "\(headline)\n\n" + CoroutineDump(coroutines: coroutines).text()
    }
  }

  /// Its first line.
  public var headline: String {
    switch kind {
    case .cycle where coroutines.count == 1: "deadlock: a coroutine waits for itself"
    case .cycle: "deadlock: \(coroutines.count) coroutines wait for each other"
    case .initialiser:
      "deadlock: a coroutine has suspended inside the initialiser of a static or global variable"
    case .standstill:
      "deadlock: nothing in the process can go on, and \(Self.text(coroutines.count)) not ended"
    case .leak:
      "leak: \(Self.text(coroutines.count)) not ended, and nothing happens any more that could wake "
        + (coroutines.count == 1 ? "it" : "them")
    }
  }

  private static func text(_ count: Int) -> String { count == 1 ? "1 coroutine has" : "\(count) coroutines have" }

  /// Which one waits for which, once around.
  private var chain: String {
    var text = "  "
    for (index, coroutine) in coroutines.enumerated() {
      let next = coroutines[(index + 1) % coroutines.count]
      text += index == 0 ? "coroutine \(coroutine.label) waits for " : ",\n  which waits for "
      let waitsFor = coroutine.waitsFor.onOneLine
      text += waitsFor
      // The text of what it waits for mostly names the holder.
      if !waitsFor.hasSuffix("coroutine \(next.label)") { text += ": coroutine \(next.label)" }
    }
    return text + "\n"
  }

  private var bystanders: String {
    guard !waiting.isEmpty else { return "" }
    let named = waiting.prefix(DumpGroup.named).map(\.label).joined(separator: ", ")
    let others = waiting.count - DumpGroup.named
    let wait = waiting.count == 1 ? "waits" : "wait"
    return "and \(waiting.count) more \(wait) for \(coroutines.count == 1 ? "it" : "them"): \(named)"
      + (others > 0 ? ", and \(others) more" : "") + "\n"
  }

  private var stacks: String {
    coroutines.map { "\($0)" }.joined(separator: "\n")
  }
}
