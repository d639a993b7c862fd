// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Dispatch

/// Runs a coroutine on the calling thread, and returns when it has ended: for `main` and for tests.
///
/// ```swift
/// try runUntilComplete {
///   let answers = Channel<Int>()
///   Coroutine { try answers.send(42) }     // on this thread, too
///   print(try answers.receive())
/// }
/// ```
///
/// The calling thread becomes a serial scheduler meanwhile: coroutines that are created inside run on it as well, one
/// at a time, in the order in which they became ready. It sleeps while none is ready; the waker of a coroutine wakes
/// it. Those that have not ended with this one go on elsewhere: on the main queue if this is the main thread or a block
/// of the main queue, otherwise on a global queue.
///
/// In a program whose main thread only calls this again, or ends, the main queue does not run, and those left over do not go on. What
/// is to outlive one call, as a worker, an actor or an `AsyncGenerator` does, begins `on: .pool`.
///
/// The main queue does not run while the main thread is here: a coroutine on `DispatchQueue.main`, or a job of the main
/// actor, has to wait until this returns.
///
/// - Parameters:
///   - name: for backtraces and messages.
///   - stackSize: usable bytes; `nil` for the default.
///   - file: where it is called; for a report.
///   - line: likewise.
///   - body: what it does. Runs on this thread only, and may use what belongs to it.
/// - Returns: what the body returned.
/// - Throws: what the body threw; `StackError` if there is no stack.
/// - Precondition: not called inside a coroutine, whose whole thread it would block: traps otherwise.
@available(*, noasync, message: "in async code use 'try await Coroutine { … }.value'")
public func runUntilComplete<Success: Sendable>(
  name: String = "", stackSize: Int? = nil, file: StaticString = #fileID, line: UInt = #line,
  _ body: () throws -> Success
) throws -> Success {
  require(
    CoroutineCore.current == nil,
    "runUntilComplete inside a coroutine would block its whole thread: call the code itself, or get() a new Coroutine")
  require(
    coroutine_thread_state_found() & UInt32(COROUTINE_THREAD_STATE_TASK.rawValue) != 0
      || withUnsafeCurrentTask { $0 == nil },
    "runUntilComplete inside a task, with a Swift runtime that does not let coroutines leave it: use await")
  // After `dispatchMain()`, and so in a program with an `async` main, the main queue's blocks run on any thread.
  let isMain = coroutine_is_main_thread() || DispatchQueue.main.isCurrent
  let pool = ThreadPool(callingThreadOfMainQueue: isMain)
  let call = BlockingCall("runUntilComplete", file, line)
  return try withoutActuallyEscaping(body) { body in
    // Called on this thread only, and gone when the coroutine has ended.
    nonisolated(unsafe) let body = body
    let storage = CoroutineStorage<Success, any Error>.create(on: .pool(pool), name: name, stackSize: stackSize) {
      try body()
    }
    pool.core.runInline {
      storage.schedule()
    } until: {
      // Not just its body: the end of a coroutine-local value, behind that, may wait as well.
      storage.isFinished
    } beforeSleep: {
      call.warnIfThreadIsCooperative()
    }
    return try storage.getBlocking(at: call)  // has ended
  }
}
