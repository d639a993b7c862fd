// SPDX-License-Identifier: Apache-2.0

import CCoroutine

// How a thread waits with the coroutine that is pinned to it, and how it gets its turn back.

extension CoroutineCore {
  /// Keeps the thread, while the pinned coroutine, which is off its stack, waits. In place of the end of a turn; when it
  /// returns, the next one begins.
  @inline(never)
  final func stay(
    _ block: UnsafeMutablePointer<ControlBlock>, _ afterSwitch: ControlBlock.AfterSwitch, keepsWorker: Bool
  ) {
    guard let pin else { fatalError("\(description) stays on a thread to which it is not pinned") }
    if case .finish = afterSwitch {
      reportEndWithThreadPinned(description)
    }
    // Without a worker, the waker resumes it directly, past the scheduler: there is no turn to wait for.
    let worker = keepsWorker ? nil : poolWorker
    pin.hasHandedOff = worker != nil
    // From here on the worker has no thread, until it gets another one.
    if worker != nil { coroutine_set_worker(nil) }
    if case .enqueue = afterSwitch {
      block.pointee.state.store(.ready, ordering: .releasing)
      state.store(.ready, ordering: .relaxed)
      guard worker != nil else { return }
      CoroutineJob(.passUnretained(self)).enqueue(.yielded)
    } else {
      publishWait(block, afterSwitch)
    }
    worker?._withUnsafeGuaranteedRef { $0.replaceThread() }
    if let explorer, explorer.isCurrent { return explorer.keepThread(for: self) { pin.waitForTurn(until: $0) } }
    if case .queue(let queue) = scheduler, !keepsWorker {
      queue.drainStays()
      _ = pin.waitForTurn()
      return queue.drainGoesOn()
    }
    if let worker = pin.waitForTurn() {
      coroutine_set_worker(worker)
      Unmanaged<PoolWorker>.fromOpaque(worker)._withUnsafeGuaranteedRef { $0.noteThread() }
    }
  }

  /// The worker of its own pool on whose thread it runs, if it does, and if another thread can take over.
  private final var poolWorker: Unmanaged<PoolWorker>? {
    let worker: Unmanaged<PoolWorker>?
    switch scheduler {
    case .sharedPool: worker = ThreadPool.sharedCore._withUnsafeGuaranteedRef { PoolWorker.current(of: $0) }
    case .pool(let pool): worker = PoolWorker.current(of: pool.core)
    case .queue, .other: worker = nil
    }
    guard let worker, worker._withUnsafeGuaranteedRef({ $0.isReplaceable }) else { return nil }
    return worker
  }

  /// If the pinned thread has not given its worker away, lets the ready coroutine go on there at once. Returns whether it did.
  final func resumePinned() -> Bool {
    guard let pin, !pin.hasHandedOff else { return false }
    pin.giveTurn(nil)
    return true
  }

  /// It is a pinned coroutine's turn: its thread becomes the calling one's worker, and the calling one none.
  @inline(never)
  final func runPinned() {
    guard let pin, let worker = coroutine_worker() else { fatalError("\(description) is pinned, and run by no pool") }
    coroutine_set_worker(nil)
    pin.giveTurn(worker)
  }
}

/// The thread that a pinned coroutine keeps, and where it waits for the coroutine's turn.
// Unchecked: `hasHandedOff` is written before a waker can wake the coroutine, `worker` before the turn is given.
final class ThreadPin: @unchecked Sendable {
  private let turn = ThreadSemaphore()
  /// Whether the thread gave its pool's worker away: then the wake goes through the pool, which gives it a worker with the turn.
  var hasHandedOff = false
  private var worker: UnsafeMutableRawPointer?

  /// Blocks the thread until it is the coroutine's turn. Returns the worker that the thread is from then on.
  func waitForTurn() -> UnsafeMutableRawPointer? {
    turn.wait()
    return worker
  }

  /// The same without a worker, at most until `deadline`, by the kernel's time. Whether it is its turn.
  func waitForTurn(until deadline: UInt64) -> Bool { turn.wait(until: deadline) }

  func giveTurn(_ worker: UnsafeMutableRawPointer?) {
    self.worker = worker
    turn.signal()
  }
}
