// SPDX-License-Identifier: Apache-2.0

import CCoroutineUnwind
import Context
import Coroutine

/// Whether anything can still happen in the process but what the calling thread does.
enum Quiet {
  /// What can, in words; `nil`: nothing.
  static var activity: String? {
    var activity = census_activity()
    guard !coroutine_census_is_quiet(Futex.idleMark, { Inspection.timerCount == 0 }, &activity) else { return nil }
    let what = text(activity.what)
    return activity.thread == 0 ? what : "thread \(activity.thread) (\(text(activity.name))) \(what)"
  }

  private static func text(_ characters: some Any) -> String {
    withUnsafeBytes(of: characters) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
  }
}

/// Whether nothing can happen any more. One look is not enough: a timer that has run out may not have woken a waiter
/// yet, as its interrupt is late.
struct Standstill {
  private var wasQuiet = false

  /// Whether all was quiet at this look, and at the one before.
  mutating func look() -> Bool {
    let isQuiet = Quiet.activity == nil
    defer { wasQuiet = isQuiet }
    return isQuiet && wasQuiet
  }
}
