// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import CCoroutineSystem
import Context
import CoroutineLibc
import Synchronization

/// One of a pool's threads: what is ready on it, where it sleeps, and what it keeps for the coroutines that it runs.
///
/// What is ready is its superclass, and no object of its own: a reference between the two would be read at every pick.
// Unchecked: by the rule of `WorkerQueue`.
final class PoolWorker: WorkerQueue, @unchecked Sendable {
  /// At which worker it begins to look for work. The owner's.
  @exclusivity(unchecked) private var random: RandomWord
  /// What it begins: in no queue any more, and not yet on a stack. The owner's; debuggers read it during a freeze.
  private let starting = Atomic<WorkRing.Element?>(nil)
  /// A stack that the last coroutine here has left, for the next one, past the lock of the pool of stacks. The owner's.
  @exclusivity(unchecked) private var spareStack: Stack?
  /// Whether there is one: written by the owner alone, read by others.
  private let keepsStack = Atomic<Bool>(false)
  /// How many coroutines have ended here. Written by the owner alone.
  private let ended = Atomic<UInt64>(0)
  /// Numbers of blocks, unique to this worker. The owner's.
  @exclusivity(unchecked) private var blockNumbers: Range<UInt64> = 0..<0
  /// Where spare stacks come from; lives for ever.
  private let stackPool = Unmanaged.passUnretained(StackPool.default)
  /// The processor time of its thread, as a clock; 0: it has none yet. Written by the thread that becomes the worker.
  private let threadClock = Atomic<CInt>(0)
  /// Where its thread sleeps.
  let parker = Parker()
  /// Whether it has a thread, of its own or the calling one. Belongs to that thread. While the worker sleeps or has
  /// none, it belongs to the thread that takes the worker out of the sleeping ones.
  @exclusivity(unchecked) var hasThread = false

  override init(core: PoolCore, index: Int) {
    random = RandomWord(seed: UInt64(index))
    super.init(core: core, index: index)
  }

  deinit {
    if let spareStack { stackPool._withUnsafeGuaranteedRef { $0.release(spareStack) } }
    _ = CoroutineCore.addEndings(endedCount)
  }

  /// The worker that the calling thread is, if it is one of `core`'s. Read it anew after each switch.
  @inline(__always)
  static func current(of core: PoolCore) -> Unmanaged<PoolWorker>? {
    current(ofPoolAt: UnsafeRawPointer(Unmanaged.passUnretained(core).toOpaque()))
  }

  @inline(__always)
  static func current(ofPoolAt address: UnsafeRawPointer) -> Unmanaged<PoolWorker>? {
    guard let current = coroutine_worker() else { return nil }
    let worker = Unmanaged<PoolWorker>.fromOpaque(current)
    return worker._withUnsafeGuaranteedRef { UnsafeRawPointer($0.core.toOpaque()) == address } ? worker : nil
  }
}

// MARK: - What is ready, for code that runs on it

extension PoolWorker {
  /// Takes `core` out of the line of the calling thread's worker, if that is its pool's only one, and no other is ready
  /// there. It counts as a pick.
  @inline(__always)
  static func takeOnlyOne(_ core: CoroutineCore, ofPoolAt address: UnsafeRawPointer) -> Bool {
    current(ofPoolAt: address)?._withUnsafeGuaranteedRef { $0.takeOnlyOne(core) } ?? false
  }

  /// `isSerialAndBusy` of the calling thread's worker; also if it is none of that pool any more.
  @inline(__always)
  static func isSerialAndBusy(ofPoolAt address: UnsafeRawPointer) -> Bool {
    current(ofPoolAt: address)?._withUnsafeGuaranteedRef { $0.isSerialAndBusy } ?? true
  }

  /// A number below `limit`. The owner's.
  func randomNumber(below limit: Int) -> Int { random.next(below: limit) }
}

// MARK: - The spare stack

// To a sanitizer a stack comes from its pool and goes back to it: there is none where one is active.
extension PoolWorker {
  /// A stack of the default size, if the calling thread is a worker that has one to spare, and its pool.
  @inline(__always)
  static func takeSpareStack() -> (Stack, Unmanaged<StackPool>)? {
    guard let address = coroutine_worker() else { return nil }
    return Unmanaged<PoolWorker>.fromOpaque(address)._withUnsafeGuaranteedRef { worker in
      guard let stack = worker.spareStack.take() else { return nil }
      worker.keepsStack.store(false, ordering: .relaxed)
      return (stack, worker.stackPool)
    }
  }

  /// Keeps an unused stack, if the calling thread is a worker that needs one.
  @inline(__always)
  static func keepSpareStack(_ stack: Stack, of pool: Unmanaged<StackPool>) -> Bool {
    guard let address = coroutine_worker() else { return false }
    return Unmanaged<PoolWorker>.fromOpaque(address)._withUnsafeGuaranteedRef { worker in
      guard worker.spareStack == nil, worker.stackPool.toOpaque() == pool.toOpaque() else { return false }
      worker.spareStack = stack
      worker.keepsStack.store(true, ordering: .relaxed)
      return true
    }
  }

  /// Gives it back to its pool, which can take its memory away: a worker that sleeps may do so for hours. The owner's.
  func returnSpareStack() {
    guard let stack = spareStack.take() else { return }
    keepsStack.store(false, ordering: .relaxed)
    stackPool._withUnsafeGuaranteedRef { $0.release(stack) }
  }

  var hasSpareStack: Bool { keepsStack.load(ordering: .relaxed) }
}

// MARK: - Counting

// Counters that all threads share cost more than the rest of a short coroutine, as soon as several threads use them.
extension PoolWorker {
  /// Counts a coroutine that ends on the calling thread: by itself, if that is a worker.
  @inline(__always)
  static func countEnding() {  // litmus: end-result
    let count: UInt64
    if let address = coroutine_worker() {
      count = Unmanaged<PoolWorker>.fromOpaque(address)._withUnsafeGuaranteedRef { worker in
        let count = worker.ended.load(ordering: .relaxed) &+ 1
        worker.ended.store(count, ordering: .releasing)
        return count
      }
    } else {
      count = CoroutineCore.addEndings(1)
    }
    if count & (MallocTuning.endingsBetweenLooks - 1) == 0 { MallocTuning.lookAtEndings() }
  }

  var endedCount: UInt64 { ended.load(ordering: .acquiring) }  // litmus: end-result

  /// A number that no other block gets: of those that the calling thread has reserved as a worker, or, on any other thread,
  /// the next one of all.
  @inline(__always)
  static func numberOfBlock(reserving reserve: (UInt64) -> Range<UInt64>) -> UInt64 {
    guard let address = coroutine_worker() else { return reserve(1).lowerBound }
    return Unmanaged<PoolWorker>.fromOpaque(address)._withUnsafeGuaranteedRef { worker in
      if worker.blockNumbers.isEmpty { worker.blockNumbers = reserve(256) }
      let number = worker.blockNumbers.lowerBound
      worker.blockNumbers = number + 1..<worker.blockNumbers.upperBound
      return number
    }
  }
}

// MARK: - The thread

extension PoolWorker {
  /// Wakes it up, or gives it a thread. Called by the thread that took it out of the sleeping ones; the pool is kept
  /// alive meanwhile. Returns 0, or the reason why the system refuses a thread.
  func unpark(starts: Bool) -> CInt {
    guard !hasThread else {
      parker.unpark()
      return 0
    }
    return starts ? start() : 0
  }

  /// Lets the pool's host run it. Called by the thread that took it out of the sleeping ones, or by the thread that ran
  /// it so far. Returns 0, or the reason why the system refuses a thread.
  func start() -> CInt {
    _ = core.retain()  // the thread's reference
    switch core._withUnsafeGuaranteedRef({ $0.host }) {
    case .threads:
      hasThread = true
      let code = startThread(runWorker)
      if code != 0 {
        hasThread = false
        core.release()
      }
      return code
    case .callingThread(let queue, _):
      queue.async { [self] in
        let accesses = AttachedAccesses(core._withUnsafeGuaranteedRef { $0.sharedAccesses })
        run(isSearching: true, accesses)
      }
      return 0
    }
  }

  /// Whether a thread can take over from the one that runs it.
  var isReplaceable: Bool {
    guard case .threads = core._withUnsafeGuaranteedRef({ $0.host }) else { return false }
    return true
  }

  /// Gets another thread in place of the calling one, which keeps its coroutine, to run the other ready ones.
  func replaceThread() {
    _ = core.retain()  // the thread's reference
    let code = startThread(runReplacement)
    guard code != 0 else { return }
    // The owner is still this thread: no other can have taken over.
    hasThread = false
    returnSpareStack()
    core._withUnsafeGuaranteedRef { $0.retire(self, code) }
    core.release()
  }

  private func startThread(
    _ main: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer?
  ) -> CInt {
    coroutine_make_thread_keys()
    let code = coroutine_system_start_thread(main, Unmanaged.passUnretained(self).toOpaque())
    #if COROUTINE_INTERLEAVINGS
      if code == 0 { Interleaving.explorer?.awaitNewThread() }
    #endif
    return code
  }

  /// On the thread or queue that it was started on; there with `accesses`.
  fileprivate func run(isSearching: Bool, _ accesses: AttachedAccesses? = nil) {
    if hasThread { coroutine_system_name_thread("coroutine-pool") }
    let core = core
    core._withUnsafeGuaranteedRef { core in
      makeCurrent { core.work(self, isSearching: isSearching, accesses) }
    }
    core.release()  // the last one takes the workers with it
  }

  /// Makes it the calling thread's worker meanwhile.
  func makeCurrent(_ body: () -> Void) {
    coroutine_prepare_thread()
    noteThread()
    let previous = coroutine_worker()
    coroutine_set_worker(Unmanaged.passUnretained(self).toOpaque())
    body()
    coroutine_set_worker(previous)
  }

  /// The calling thread becomes this worker.
  func noteThread() {
    var clock = clockid_t()
    if pthread_getcpuclockid(pthread_self(), &clock) == 0 { threadClock.store(clock, ordering: .relaxed) }
  }

  /// Whether the calling thread is this worker.
  @inline(__always)
  var isCurrent: Bool { coroutine_worker() == Unmanaged.passUnretained(self).toOpaque() }

  /// The calling thread is not `worker` any more. Whether it is another one, which is `worker` from then on.
  @inline(never)
  static func change(_ worker: inout PoolWorker) -> Bool {
    guard let address = coroutine_worker() else { return false }
    worker = Unmanaged<PoolWorker>.fromOpaque(address).takeUnretainedValue()
    return true
  }
}

private func runWorker(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  runThread(argument, isSearching: true)
}

private func runReplacement(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  runThread(argument, isSearching: false)
}

private func runThread(_ worker: UnsafeMutableRawPointer?, isSearching: Bool) -> UnsafeMutableRawPointer? {
  coroutine_pool_thread_begins(reportLostThread)
  #if COROUTINE_INTERLEAVINGS
    Interleaving.explorer?.adoptThread()
    defer { Interleaving.explorer?.dismissThread() }
  #endif
  Unmanaged<PoolWorker>.fromOpaque(worker!)._withUnsafeGuaranteedRef { $0.run(isSearching: isSearching) }
  coroutine_pool_thread_returns()
  return nil
}

/// Ends the program: the frames of the coroutine that ran here are gone, with all that they held.
private func reportLostThread() {
  let caller = CoroutineCore.current?.description ?? "what runs on a thread of a ThreadPool"
  fatalError(
    "\(caller) has called pthread_exit, which ends the thread and leaves the coroutine running for ever. End a coroutine by "
      + "returning or throwing.")
}

/// The calling thread, which is no pool's, is about to run coroutines.
func prepareThread() {
  coroutine_prepare_thread()
  coroutine_thread_runs_coroutines(reportLostThread)
}

// MARK: - For the detector of blocked pools

extension PoolWorker {
  /// Of its thread, in nanoseconds; `nil` if it has none, or that has ended.
  var processorTime: UInt64? {
    let clock = threadClock.load(ordering: .relaxed)
    var time = timespec()
    guard clock != 0, clock_gettime(clock, &time) == 0 else { return nil }
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }
}

// MARK: - For debuggers

extension PoolWorker {
  /// Shows what the calling thread begins, if that is a worker: one that is begun on another thread was never in a queue.
  @inline(__always)
  static func showStarting(_ core: CoroutineCore) { setStarting(.passUnretained(core)) }

  /// On the same thread.
  @inline(__always)
  static func hideStarting() { setStarting(nil) }  // litmus: freeze-none

  @inline(__always)
  private static func setStarting(_ core: WorkRing.Element?) {
    guard let address = coroutine_worker() else { return }
    Unmanaged<PoolWorker>.fromOpaque(address)._withUnsafeGuaranteedRef { $0.starting.store(core, ordering: .releasing) }
  }

  /// Passes what it begins. During a freeze, in which that does not change places.
  func visitStarting(_ body: (CoroutineCore) throws -> Void) rethrows {
    if let element = starting.load(ordering: .acquiring) { try body(element.takeUnretainedValue()) }
  }
}
