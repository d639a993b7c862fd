// SPDX-License-Identifier: Apache-2.0

import Coroutine

/// The coroutines that were launched in a run on other schedulers, and have not been seen to end.
///
/// It keeps them, since a run that can't go on asks for their states. An error that no caller has got is reported when a
/// coroutine goes: so the thread that removes those that have ended lets go of them where that may be said, outside of locks.
struct Outsiders {
  private(set) var cores: [CoroutineCore] = []
  /// When those that have ended are removed next, so that a run which is never held up does not keep them all.
  private var limit = 64
  private var someHaveEnded = false

  /// How long a run's time stands still for what they may be about to do.
  static let grace = Duration.milliseconds(20)

  /// How long it does for one that is ready there: its scheduler has other work, and comes to it. Not for ever: the other work
  /// may wait for the run.
  static let queueing = Duration.seconds(10)

  /// Returns some that have ended, which the caller lets go of.
  mutating func add(_ core: CoroutineCore) -> [CoroutineCore] {
    cores.append(core)
    guard cores.count >= limit else { return [] }
    let ended = removeEnded()
    limit = max(64, 2 * cores.count)
    return ended
  }

  mutating func removeEnded() -> [CoroutineCore] {
    var (live, ended): ([CoroutineCore], [CoroutineCore]) = ([], [])
    // Each is asked once: one that ends in between must not go here.
    for core in cores { if core.isFinished { ended.append(core) } else { live.append(core) } }
    cores = live
    if !ended.isEmpty { someHaveEnded = true }
    return ended
  }

  /// Whether some have been removed since the last call.
  mutating func haveSomeEnded() -> Bool {
    defer { someHaveEnded = false }
    return someHaveEnded
  }

  /// Whether one that is suspended waits for something from outside of the process's coroutines, `orTime`.
  static func waitsForOthers(_ core: CoroutineCore, orTime time: Bool) -> Bool {
    // It has gone on in between, or this can't be known.
    guard let suspension = Inspection.suspension(of: core) else { return true }
    return switch suspension.reason {
    case .blocking, .async, .callback, .read, .write, .accept, .connect: true
    case .sleep: time
    default: false
    }
  }
}
