// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import CCoroutineSystem
import Context
import CoroutineLibc
import Synchronization

/// Work that no caller waits for.
private final class UnawaitedWork: BlockingWork {
  private let work: @Sendable (_ mayBlock: Bool) -> Void

  init(_ work: @escaping @Sendable (_ mayBlock: Bool) -> Void) { self.work = work }

  func perform(_ refusal: ThreadRefused?) { work(refusal == nil) }

  var isWanted: Bool { true }
}

/// What a thread of a `BlockingPool` does.
protocol BlockingWork: AnyObject, Sendable {
  /// With an error, if there is no thread to do it.
  func perform(_ refusal: ThreadRefused?)

  /// False: there is nothing to do any more.
  var isWanted: Bool { get }
}

/// Threads for work that blocks: as many as are needed at a time, up to a limit; beyond it, work waits in line, first in,
/// first out.
///
/// A thread that has had nothing to do for a while ends. One pool serves the whole program. A limited resource (a
/// database that takes four connections) may have one of its own. So should work that holds a thread for long or
/// without an end: it would take the threads of other work. Files and hosts' names (CoroutineIO) have pools of their
/// own for that reason.
///
/// If all threads are taken, work waits, and no thread has become free for five seconds, the standard error says so
/// once.
public final class BlockingPool: HiddenFromMirrors, Sendable {
  /// The pool that `blocking` uses by default: 512 threads at most, which begin as they are needed.
  public static let shared = BlockingPool(threadLimit: 512, idleTime: .seconds(10), name: "BlockingPool.shared")

  /// For messages.
  public let name: String

  private let lock = Lock()
  // Guarded by the lock, all of them.
  nonisolated(unsafe) private var machine: BlockingStateMachine<BlockingThread, any BlockingWork>
  nonisolated(unsafe) private var timeout: Duration
  /// When a thread was last given work or became free.
  nonisolated(unsafe) private var lastChange = ContinuousClock.now
  nonisolated(unsafe) private var isStandstillReported = false
  /// Whether a thread is going to look for it: what waits may be all the work that there will ever be.
  nonisolated(unsafe) private var isLookDue = false

  /// How long no thread must have become free before that is said.
  private let standstillTime: Duration
  /// `Fork.count` of the process that has its threads.
  private let madeIn = Fork.count

  /// A pool without threads: they come with the work.
  ///
  /// - Parameters:
  ///   - threadLimit: how many threads at a time, at least 1: traps otherwise.
  ///   - idleTime: how long a thread stays without work; not negative: traps otherwise.
  ///   - name: for messages.
  public convenience init(threadLimit: Int, idleTime: Duration = .seconds(10), name: String = "a BlockingPool") {
    self.init(threadLimit: threadLimit, idleTime: idleTime, name: name, standstillTime: .seconds(5))
  }

  init(threadLimit: Int, idleTime: Duration, name: String, standstillTime: Duration) {
    Self.check(threadLimit)
    Self.check(idleTime)
    machine = BlockingStateMachine(limit: threadLimit)
    timeout = idleTime
    self.name = name
    self.standstillTime = standstillTime
  }

  /// How many threads work at a time, at most. May be changed at any time; threads beyond a lower limit end when they have
  /// done what they do, or have been idle for long enough.
  ///
  /// - Precondition: at least 1: traps otherwise.
  public var threadLimit: Int {
    get { lock.withLock { machine.limit } }
    set {
      Self.check(newValue)
      let actions = lock.withLock {
        let actions = machine.changeLimit(newValue)
        if !actions.isEmpty { lastChange = .now }
        return actions
      }
      for action in actions { perform(action) }
    }
  }

  /// How long a thread stays without work. May be changed at any time; applies to threads that run out of work after that.
  ///
  /// - Precondition: not negative: traps otherwise.
  public var idleTime: Duration {
    get { lock.withLock { timeout } }
    set {
      Self.check(newValue)
      lock.withLock { timeout = newValue }
    }
  }

  /// How many threads it has now.
  public var threadCount: Int { lock.withLock { machine.threads } }

  /// For how much work no thread is free; some of it may have been cancelled. For tests.
  var waitingCount: Int { lock.withLock { machine.waiting.count } }

  private static func check(_ limit: Int) {
    require(limit > 0, "a BlockingPool needs at least one thread, not \(limit)")
  }

  private static func check(_ idleTime: Duration) {
    require(idleTime >= .zero, "a BlockingPool's threads can't stay for a negative time, \(idleTime): use zero")
  }

  /// Runs `work` on a thread of the pool; with an error, perhaps on this one, if there is none and can't be one.
  func submit(_ work: any BlockingWork) {
    if Fork.count != madeIn { reportLeftInParent("a BlockingPool gets work", "make another pool there") }
    let now = ContinuousClock.now
    var message: String?
    var timeOfLook: Duration?
    lock.lock()
    let action = machine.submit(work)
    if case .wait = action {
      message = isStandstillReported ? nil : standstill(at: now)
      if !isStandstillReported, !isLookDue {
        isLookDue = true
        timeOfLook = timeUntilLook(from: now)
      }
    } else {
      lastChange = now
    }
    lock.unlock()
    perform(action)
    if let message { CoroutineErrors.print(message) }
    if let timeOfLook { startLooks(in: timeOfLook) }
  }

  /// Runs `work` on a thread of the pool, and returns at once. On the calling thread if there is none and can't be one, and in
  /// a child of `fork` whose parent has them. From any thread.
  ///
  /// - Parameter work: is given whether it may block: whether the thread is the pool's.
  package func runUnawaited(_ work: @escaping @Sendable (_ mayBlock: Bool) -> Void) {
    guard Fork.count == madeIn else { return work(false) }
    submit(UnawaitedWork(work))
  }

  /// Work that may wait is wanted no more.
  func withdraw() {
    // Let go of outside of the lock.
    _ = lock.withLock { machine.withdraw { $0.isWanted } }
  }

  /// Looks for a standstill as long as work waits: by a thread of its own, since the timers' must not wait for the reader of the
  /// standard error. Where there can be no thread, the next work that comes looks.
  private func startLooks(in time: Duration) {
    let thread = Unmanaged.passRetained(StandstillThread(of: self, in: time))
    let code = coroutine_system_start_thread(
      { thread in
        Unmanaged<StandstillThread>.fromOpaque(thread!).takeRetainedValue().run()
        return nil
      }, thread.toOpaque())
    guard code != 0 else { return }
    thread.release()
    lock.withLock { isLookDue = false }
  }

  /// Reports a standstill, if there is one. How long until the next look; `nil`: there is none.
  fileprivate func lookForStandstill() -> Duration? {
    let now = ContinuousClock.now
    let (message, next): (String?, Duration?) = lock.withLock {
      let message = isStandstillReported || machine.waiting.isEmpty ? nil : standstill(at: now)
      isLookDue = !isStandstillReported && !machine.waiting.isEmpty
      return (message, isLookDue ? timeUntilLook(from: now) : nil)
    }
    if let message { CoroutineErrors.print(message) }
    return next
  }

  /// How long until it may have stood still for long enough. The caller holds `lock`.
  private func timeUntilLook(from now: ContinuousClock.Instant) -> Duration {
    let rest = lastChange + standstillTime - now
    return rest > .zero ? rest : standstillTime
  }

  /// The message if no thread has become free for too long. Once. The caller holds `lock`.
  private func standstill(at now: ContinuousClock.Instant) -> String? {
    let time = now - lastChange
    // With fewer threads there could be no more: that was reported.
    guard time >= standstillTime, machine.threads >= machine.limit else { return nil }
    isStandstillReported = true
    return "\(name) has given out all of its threads (\(machine.limit)), and none has become free for "
      + "\(time.components.seconds) s: more work waits. Give work that blocks for long a BlockingPool of its own, wait "
      + "for descriptors with CoroutineIO, or raise threadLimit."
  }

  // litmus: parker-work, pool-park
  private func perform(_ action: BlockingStateMachine<BlockingThread, any BlockingWork>.SubmitAction) {
    switch action {
    case .give(let thread, let work): thread.begin(work)
    case .start(let work): start(work)
    case .wait: break
    }
  }

  private func start(_ work: any BlockingWork) {
    let thread = BlockingThread(of: self, work)
    let argument = Unmanaged.passRetained(thread)
    let code = coroutine_system_start_thread(runBlockingThread, argument.toOpaque())
    guard code == 0 else {
      argument.release()
      return goOnWithout(work, code)
    }
  }

  private func goOnWithout(_ work: any BlockingWork, _ code: CInt) {
    switch lock.withLock({ machine.startRefused(work) }) {
    case .give(let thread, let work): thread.begin(work)
    case .wait:
      warnAboutRefusal(of: "another thread of \(name)", code, "Its work waits for the threads that it has.")
    case .fail(let all):
      for work in all { work.perform(ThreadRefused(code: code)) }
    }
  }

  /// What a thread does next, when it has done something. `nil`: it ends.
  // litmus: parker-work, pool-park
  fileprivate func next(for thread: BlockingThread) -> (any BlockingWork)? {
    let now = ContinuousClock.now
    let (action, timeout) = lock.withLock {
      lastChange = now
      return (machine.done(thread), self.timeout)
    }
    switch action {
    case .run(let work): return work
    case .end: return nil
    case .park:
      // So long that no instant is that far away: a thread that stays for a million years stays.
      let deadline = now + min(timeout, .seconds(1 << 45))
      while true {
        let left = deadline - .now
        if left > .zero {
          if thread.parker.park(for: left) { return thread.takeWork() }
        } else if lock.withLock({ machine.timedOut(thread) }) {
          return nil
        } else {
          thread.parker.park()  // it was given something, and the wake is on its way
          return thread.takeWork()
        }
      }
    }
  }
}

/// Looks whether a pool stands still, as long as work waits there. It keeps the pool, up to its last look: a weak reference would
/// leave memory behind that LeakSanitizer takes for a leak.
// Unchecked: only its own thread uses it.
private final class StandstillThread: @unchecked Sendable {
  private let pool: BlockingPool
  /// Of the first look. Not at once: a pool that is full for a moment, again and again, would start a thread each time.
  private var time: Duration
  private let never = Atomic<UInt32>(0)

  init(of pool: BlockingPool, in time: Duration) {
    self.pool = pool
    self.time = time
  }

  func run() {
    coroutine_system_name_thread("coroutine-stuck")
    repeat {
      // In real time, also in a test with a time of its own. As one that is idle: the process may stand still meanwhile.
      _ = Futex.wait(on: never, while: 0, for: time)
      time = pool.lookForStandstill() ?? .zero
    } while time > .zero
  }
}

/// One thread of a `BlockingPool`.
// Unchecked: what it is given is written before its parker is unparked, and read after that.
private final class BlockingThread: Equatable, @unchecked Sendable {
  let pool: BlockingPool
  let parker = Parker()
  private var work: (any BlockingWork)?

  init(of pool: BlockingPool, _ work: any BlockingWork) {
    self.pool = pool
    self.work = work
  }

  /// For itself.
  func takeWork() -> (any BlockingWork)? { work.take() }

  static func == (one: BlockingThread, other: BlockingThread) -> Bool { one === other }

  /// For the thread that gives it more work.
  func begin(_ work: any BlockingWork) {
    self.work = work
    parker.unpark()
  }

  func run() {
    coroutine_system_name_thread("coroutine-block")
    var next = work.take()
    while next != nil {
      Self.perform(&next)
      next = pool.next(for: self)
    }
  }

  /// Does it, and lets go of what it owned. A function of its own: in that of the caller, which waits for more work, a copy
  /// could last until there is some.
  @inline(never)
  private static func perform(_ work: inout (any BlockingWork)?) { work.take()?.perform(nil) }
}

private func runBlockingThread(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  coroutine_pool_thread_begins(reportLostBlockingThread)
  Unmanaged<BlockingThread>.fromOpaque(argument!).takeRetainedValue().run()
  coroutine_pool_thread_returns()
  return nil
}

/// Ends the program: the caller that waits for this thread's work would wait for ever.
private func reportLostBlockingThread() {
  fatalError(
    "work in blocking { } has called pthread_exit, which ends the BlockingPool's thread and leaves the caller without an "
      + "answer for ever. End it by returning or throwing.")
}
