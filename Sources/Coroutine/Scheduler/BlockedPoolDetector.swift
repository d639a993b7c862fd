// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import CCoroutineSystem
import Context
import CoroutineLibc
import Synchronization

/// The thread that reports, once in a process, that all workers of a pool are blocked and coroutines wait for one of
/// them.
///
///     absent ──begin: starts the thread──> checking <──begin── dormant
///                                             │  └─no pool has all workers awake─┘
///                                             └─reported, turned off, or no thread──> over
///
/// A pool's own monitor is one of its workers, and there is none when all are awake. So each pool calls `begin` whenever its
/// last worker wakes, which is a load of a word while the thread checks. The thread looks about once a second, as long as
/// some pool has all workers awake. In a program whose pools are idle it sleeps.
enum BlockedPoolDetector {
  private enum Mode {
    static var absent: UInt32 { 0 }
    static var dormant: UInt32 { 1 }
    static var checking: UInt32 { 2 }
    static var over: UInt32 { 3 }
  }

  /// The futex that the thread sleeps on.
  private static let mode = Atomic<UInt32>(Mode.absent)

  static var isOver: Bool { mode.load(ordering: .relaxed) == Mode.over }

  /// All workers of a pool are awake. Under the pool's lock, by which `lookAtAll` sees what this one has missed.
  @inline(__always)
  static func begin() {  // litmus: pool-watch
    if mode.load(ordering: .relaxed) < Mode.checking { beginSlowly() }
  }

  @inline(never)
  private static func beginSlowly() {
    let found = mode.load(ordering: .relaxed)
    guard found < Mode.checking,
      mode.compareExchange(expected: found, desired: Mode.checking, ordering: .acquiringAndReleasing).exchanged
    else { return }
    if found == Mode.dormant {
      Futex.wake(1, on: mode)
    } else if limit == .zero || !start() {
      mode.store(Mode.over, ordering: .relaxed)
    }
  }

  /// False if the system refuses a thread: then nothing is reported, and nothing else is affected.
  private static func start() -> Bool {
    let code = coroutine_system_start_thread(
      { _ in
        BlockedPoolDetector.run()
        return nil
      }, nil)
    return code == 0
  }

  // MARK: The thread

  private static func run() {
    coroutine_system_name_thread("coroutine-watch")
    let interval = limit / PoolStandstill.lookCount
    while true {
      switch mode.load(ordering: .acquiring) {
      case Mode.dormant: Futex.wait(on: mode, while: Mode.dormant)
      case Mode.over: return
      default:
        // Until the time is up: a spurious return would make the looks follow each other at once.
        while Futex.wait(on: mode, while: Mode.checking, for: interval) {}
        lookAtAll(slack: interval.nanosecondsRoundedUp / 100)
      }
    }
  }

  private static func lookAtAll(slack: UInt64) {
    var isSomePoolAwake = false
    // A debugger that keeps coroutines from going on keeps workers from it, too.
    let isFrozen = coroutine_requests_now() & COROUTINE_REQUEST_FREEZE.rawValue != 0
    for pool in PoolCore.all.all {
      let look = pool.lookAtWorkers()
      if look != nil { isSomePoolAwake = true }
      guard pool.standstill.takeLook(isFrozen ? nil : look, slack: slack) else { continue }
      mode.store(Mode.over, ordering: .relaxed)
      return report(pool)
    }
    guard !isSomePoolAwake else { return }
    mode.store(Mode.dormant, ordering: .relaxed)  // litmus: pool-watch
    // A pool whose last worker has woken before that did not call; from its lock on, which this takes, it sees the mode.
    if PoolCore.all.all.contains(where: { $0.lookAtWorkers() != nil }) {
      mode.store(Mode.checking, ordering: .relaxed)
    }
  }

  private static func report(_ pool: PoolCore) {
    BlockedPoolReport(pool).print(
      seconds: limit.components.seconds,
      advice: "(Said once; \(variable)=0 turns this off, or sets other seconds.)")
  }

  // MARK: The environment

  private static let variable = "COROUTINE_BLOCKED_SECONDS"

  /// For how long all workers are blocked before the report. Zero: there is none.
  private static let limit: Duration = {
    guard let value = getenv(variable) else { return .seconds(4) }
    let text = String(cString: value)
    guard let seconds = Int(text), 0...86_400 ~= seconds else {
      fatalError(
        "the environment variable \(variable) must be a number of seconds up to 86400, or 0 to turn the report off, "
          + "not \"\(text)\"")
    }
    return .seconds(seconds)
  }()
}
