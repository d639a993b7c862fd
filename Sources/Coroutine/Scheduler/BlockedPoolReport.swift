// SPDX-License-Identifier: Apache-2.0

import CCoroutine
package import Context

/// What is said of a pool whose workers are all blocked: which coroutines block them, and where they stand.
///
/// It is made on a thread that has nothing else to do: no deadline waits for it. A blocked worker may hold a lock of the C
/// library, `malloc`'s or the loader's, for as long as it is blocked. So other coroutines are kept from running only while
/// nothing is allocated. And the backtraces, for which the loader is asked, come last, when all else is reported.
package struct BlockedPoolReport {
  /// A coroutine that runs on one of the pool's threads.
  private struct Blocker {
    let id: UInt64
    let name: String
    let stack: Stack

    var description: String { CoroutineCore.describe(id: id, name: name) }

    /// The system call that its thread is in. `nil` if that is unknown; also where the thread has left this stack, for a
    /// generator's or another coroutine's.
    var call: String? {
      var call = coroutine_blocked_call()
      let (bottom, top) = (UInt(bitPattern: stack.limit), UInt(bitPattern: stack.top))
      guard coroutine_blocked_call_on(bottom, top, &call) else { return nil }
      guard let name = coroutine_call_name(call.number) else { return "system call \(call.number)" }
      let text = String(cString: name)
      return text == "futex" ? "futex, for a lock, a semaphore or the like" : text
    }
  }

  private let pool: PoolCore
  private let blockers: [Blocker]
  private let otherCount: Int

  /// More are counted.
  private static var limit: Int { 16 }

  init(_ pool: PoolCore) {
    self.pool = pool
    var blockers: [Blocker] = []
    blockers.reserveCapacity(Self.limit)
    var others = 0
    // Empty where they can't be kept from ending meanwhile.
    pool.visitRunning { core, stack in
      if blockers.count < Self.limit {
        blockers.append(Blocker(id: core.id, name: core.name, stack: stack))
      } else {
        others += 1
      }
    }
    self.blockers = blockers.sorted { $0.id < $1.id }
    otherCount = others
  }

  /// Writes it to the standard error.
  ///
  /// - Parameters:
  ///   - seconds: for how long they have been blocked.
  ///   - advice: what else is to be said.
  func print(seconds: Int64, advice: String) {
    // Of one that has returned: no coroutine of it blocks a thread, but the main queue does not run. See `PoolCore.runInline`.
    if pool.isMainActors, blockers.isEmpty {
      return CoroutineErrors.print(
        "Coroutines that a runUntilComplete on the main thread has left behind are ready, and have waited for \(seconds) s for the "
          + "main queue. That does not run while the main thread is blocked, or in another runUntilComplete. Wait for them in "
          + "the one that begins them, or begin them on the pool, as Coroutine(on: .pool), AsyncGenerator(on: .pool). "
          + advice)
    }
    let backtracer = Self.debugger.value?.backtraces
    let workers = pool.count == 1 ? "The only thread of" : "All \(pool.count) threads of"
    let name = pool.description == SchedulerText.callingThread ? "runUntilComplete" : "a ThreadPool"
    var names = blockers.map { blocker in blocker.description + (blocker.call.map { " (in \($0))" } ?? "") }
    if otherCount > 0 { names.append("\(otherCount) more") }
    let hint =
      backtracer == nil
      ? "A program that links CoroutineDebug gets their backtraces here." : "Their backtraces follow."
    CoroutineErrors.print(
      "\(workers) \(name) \(pool.count == 1 ? "has" : "have") been blocked for \(seconds) s"
        + (names.isEmpty ? "" : ", in \(names.joined(separator: ", "))")
        + ", while others are ready to run there. Call what blocks its thread in blocking { }, and wait by what suspends "
        + "instead, such as Coroutine.sleep." + (names.isEmpty ? " " : " \(hint) ") + advice)
    if let backtracer, !blockers.isEmpty { printBacktraces(by: backtracer) }
  }

  private func printBacktraces(by backtracer: Backtracer) {
    let backtraces = backtracer(blockers.map(\.stack))
    // One that was still there afterwards was there meanwhile: no other has had the stack.
    var isThere = [Bool](repeating: false, count: blockers.count)
    pool.visitRunning { core, stack in
      for index in blockers.indices where blockers[index].id == core.id && blockers[index].stack == stack {
        isThere[index] = true
      }
    }
    var text = ""
    for index in blockers.indices {
      let backtrace = isThere[index] ? backtraces[index] : "     (it has gone on)\n"
      text += "\(blockers[index].description):\n\(backtrace)"
    }
    CoroutineErrors.print(text)
  }
}

// MARK: - The debugger

extension BlockedPoolReport {
  /// Says where the coroutines stand that run on these stacks: for each some lines of text. Must neither keep coroutines from
  /// running while it takes a lock, nor disturb what their threads do.
  package typealias Backtracer = @Sendable (_ stacks: [Stack]) -> [String]

  private struct Debugger {
    let backtraces: Backtracer
  }

  private static let debugger = Replaceable<Debugger?>(nil)

  /// From now on reports have backtraces; with `nil` they have none. From any thread.
  package static func use(_ backtracer: Backtracer?) { debugger.value = backtracer.map { Debugger(backtraces: $0) } }
}

// MARK: - Who runs

extension PoolCore {
  /// Passes those that run on its threads, which can't end meanwhile. None where they can't be kept from that. `body` must
  /// not allocate: see above.
  fileprivate func visitRunning(_ body: (CoroutineCore, Stack) -> Void) {
    let stackPools = StackPool.allShared
    let address = UnsafeRawPointer(Unmanaged.passUnretained(self).toOpaque())
    guard Freeze.begin() else { return }
    defer { Freeze.end() }
    for stackPool in stackPools {
      stackPool.forEachLiveStack { stack in
        let block = ControlBlock.address(on: stack)
        guard block.pointee.state.load(ordering: .acquiring) == .running else { return }
        let core = CoroutineCore.core(of: block).takeUnretainedValue()
        // A word that the coroutine changes when it moves elsewhere: the old one or the new one.
        coroutine_sanitizer_begin_unseen()
        let isHere = core.pool == address
        coroutine_sanitizer_end_unseen()
        if isHere { body(core, stack) }
      }
    }
  }
}
