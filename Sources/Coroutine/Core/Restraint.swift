import CCoroutine
import Glibc

/// Runs `body`, in which the calling coroutine must not suspend: a suspension ends the program with the coroutine's name.
///
/// For code that holds a lock that belongs to the thread (`Mutex`, a pthread lock) and calls something that might wait:
/// the coroutine could go on elsewhere, and the lock would never be unlocked.
///
/// ```swift
/// cache.withLock { entries in
///   withoutSuspension { entries[key] = makeEntry() }      // traps if makeEntry() waits for anything
/// }
/// ```
///
/// They nest. A `yield` of a generator is no suspension, since it stays on the thread; but as long as the generator's body
/// is inside, its consumer is too. Outside of coroutines it runs `body` and nothing else.
///
/// - Parameter body: runs at once, on the caller's thread.
/// - Throws: what `body` throws.
@_disfavoredOverload @available(*, noasync, message: "an async function suspends at each 'await'")
public func withoutSuspension<Result: ~Copyable, Failure: Error>(
  _ body: () throws(Failure) -> Result
) throws(Failure) -> Result {
  guard let core = CoroutineCore.current else { return try body() }
  core.restraint.bans += 1
  defer {
    core.requireIsCurrent(atTheEndOf: "withoutSuspension")
    core.restraint.bans -= 1
  }
  return try body()
}

/// Runs `body` on one thread: a suspension in it keeps the thread, which blocks until the coroutine goes on.
///
/// For what belongs to a thread and must outlast a wait: a lock of the system's, a graphics context, a thread-local of a C
/// library.
///
/// ```swift
/// try withThreadPinned {
///   pthread_mutex_lock(lock)
///   defer { pthread_mutex_unlock(lock) }
///   try requests.send(request)      // comes back on this thread
/// }
/// ```
///
/// A `ThreadPool` goes on meanwhile with another thread, which it starts: each wait costs as much as a thread. What the
/// coroutine waits for may run in the same pool, even in a serial one, and the rule that one at a time runs there holds.
/// It comes back when one of the pool's threads is free: others that block in a lock which it holds must be fewer than
/// those, or it never does.
/// On a `DispatchQueue`, in `runUntilComplete`, and on a scheduler of one's own the thread is missing: on a serial one
/// nothing else runs until the wait is over, and `Coroutine.yield()` returns at once. The same holds where
/// `Coroutine.immediate` runs the coroutine inside of another, which waits with it.
///
/// They nest. A generator whose body is inside pins its consumer too. Outside of coroutines it runs `body` and nothing else.
///
/// - Parameter body: runs on one thread, to its end; on a pool others may run before it begins. Must not move to another
///   scheduler by `on`: traps.
/// - Throws: what `body` throws.
@_disfavoredOverload @available(*, noasync, message: "a task can't be pinned to a thread")
public func withThreadPinned<Result: ~Copyable, Failure: Error>(
  _ body: () throws(Failure) -> Result
) throws(Failure) -> Result {
  guard let core = CoroutineCore.current else { return try body() }
  core.leaveBorrowedTurn()
  if core.pin == nil { core.pin = ThreadPin() }
  core.restraint.pins += 1
  defer {
    core.requireIsCurrent(atTheEndOf: "withThreadPinned")
    core.restraint.pins -= 1
    if core.restraint.pins == 0 { core.pin = nil }
  }
  return try body()
}

/// How often a coroutine is, at present, inside of what keeps it from leaving its thread. Changed by itself.
@usableFromInline
struct Restraint: BitwiseCopyable {
  /// In `withoutSuspension`.
  @usableFromInline var bans: UInt32 = 0
  /// In `withThreadPinned`.
  @usableFromInline var pins: UInt32 = 0
}

extension CoroutineCore {
  /// Whether it may suspend, and go on elsewhere.
  @inline(__always)
  final var isUnrestrained: Bool { restraint.bans | restraint.pins == 0 }

  /// What it begins on one coroutine a generator could end on another.
  final func requireIsCurrent(atTheEndOf function: StaticString) {
    require(
      CoroutineCore.current === self,
      "\(function), which \(description) began, ended elsewhere: a generator inside of it was moved to another coroutine"
    )
  }

  /// Goes on in a turn of its own, if it has one on top of a coroutine that asked it or joins it, and goes on after it. If it
  /// waited there with the thread pinned, that one could not go on: though it has its answer, or is cancelled, and though it
  /// may be the one who ends the wait. One that was begun at once on top of another has no pool yet: that one waits with it.
  final func leaveBorrowedTurn() {
    guard pool != nil, let block, block.pointee.mode.contains(.onTop), isUnrestrained, !coroutine_is_inside_task()
    else { return }
    yieldTurn()
  }

  @inline(never)
  final func reportBannedSuspension() -> Never {
    fatalError(
      "\(description) suspends (\(waitReason.map { "\($0.operation)" } ?? "turn")) inside withoutSuspension. Wait outside of "
        + "it, use a form that doesn't wait, or keep the thread with withThreadPinned.")
  }

  /// Keeps the thread, while the pinned coroutine, which is off its stack, waits. In place of the end of a turn; when it
  /// returns, the next one begins.
  @inline(never)
  final func stay(
    _ block: UnsafeMutablePointer<ControlBlock>, _ departure: ControlBlock.Departure, isNested: Bool
  ) {
    guard let pin else { fatalError("\(description) stays on a thread to which it is not pinned") }
    if case .finish = departure {
      fatalError(
        "\(description) has ended inside withThreadPinned, with its thread still pinned: a generator whose body is inside "
          + "was moved out of it. Consume such a generator in one coroutine.")
    }
    // Without one whoever wakes it lets it go on at once, past its scheduler, and there is no turn to wait for.
    let worker = isNested ? nil : poolWorker
    pin.isLent = worker != nil
    // From here on the worker has no thread, until it gets another one.
    if worker != nil { coroutine_set_worker(nil) }
    if case .enqueue = departure {
      block.pointee.state.store(.ready, ordering: .releasing)
      state.store(.ready, ordering: .relaxed)
      guard worker != nil else { return }
      Ready(.passUnretained(self)).enqueue(.yielded)
    } else {
      publishWait(block, departure)
    }
    worker?._withUnsafeGuaranteedRef { $0.replaceThread() }
    if let worker = pin.waitForTurn() { coroutine_set_worker(worker) }
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

  /// Lets a pinned coroutine, which is ready, go on at once, if its thread is missing to its scheduler: whether it is.
  final func resumePinned() -> Bool {
    guard let pin, !pin.isLent else { return false }
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
// Unchecked: `isLent` is written before somebody can wake the coroutine, `worker` before the turn is given.
final class ThreadPin: @unchecked Sendable {
  private let turn = ThreadSemaphore()
  /// A pool's: the wake goes through the pool, which gives the thread a worker with the turn.
  var isLent = false
  private var worker: UnsafeMutableRawPointer?

  /// Blocks the thread until it is the coroutine's turn. Returns the worker that the thread is from then on.
  func waitForTurn() -> UnsafeMutableRawPointer? {
    turn.wait()
    return worker
  }

  func giveTurn(_ worker: UnsafeMutableRawPointer?) {
    self.worker = worker
    turn.signal()
  }
}
