// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Synchronization

/// Which operation blocks its thread, and where the source calls it.
@usableFromInline
package struct BlockingCall: Sendable {
  private let operation: StaticString
  private let file: StaticString
  private let line: UInt

  @usableFromInline
  package init(_ operation: StaticString, _ file: StaticString, _ line: UInt) {
    self.operation = operation
    self.file = file
    self.line = line
  }

  var description: String { "\(operation) at \(file):\(line)" }

  /// Ends the program inside a coroutine: the call would block the thread of all the others.
  ///
  /// - Parameter instead: what to call in a coroutine.
  @usableFromInline
  package func requireNoCoroutine(insteadUse instead: StaticString) {
    require(
      CoroutineCore.current == nil, "\(description), inside a coroutine, would block its whole thread: use \(instead)")
  }

  /// Says, once in the process, that a thread is blocked of which there are only a few. On the thread that is about to
  /// block.
  func warnIfThreadIsCooperative() {
    guard coroutine_is_cooperative_thread(), !Self.hasWarnedOfCooperativeThread.exchange(true, ordering: .relaxed)
    else { return }
    CoroutineErrors.print(
      "\(description) blocks a thread of Swift's cooperative pool, which has only as many as there are processors: when all of "
        + "them are blocked, no async code goes on, nor what waits for it. Use 'await', or a thread of your own.")
  }

  private static let hasWarnedOfCooperativeThread = Atomic<Bool>(false)

  /// Says, once in the process, that an operation of another library was made to suspend the calling coroutine, as it would
  /// block its thread.
  ///
  /// - Parameter advice: what to write in its place.
  package func warnThatItSuspends(_ coroutine: CoroutineCore, _ advice: String) {
    guard !Self.hasWarnedOfSuspending.exchange(true, ordering: .relaxed) else { return }
    CoroutineErrors.print(
      "\(description), in \(coroutine.description), would block the thread, and with it all coroutines that wait for the thread: it "
        + "suspends its own coroutine instead. \(advice)")
  }

  private static let hasWarnedOfSuspending = Atomic<Bool>(false)

  // MARK: - The main thread

  /// Whether coroutines may be waiting for the calling thread to run them.
  var isOnMainQueue: Bool { QueueScheduler.main.isCurrent }

  /// Ends the program where the wait can't end: coroutines wait for this thread, and there is no other one.
  func requireAnotherThread() {
    require(
      !QueueScheduler.main.hasReady || !coroutine_is_only_thread(),
      "\(description) blocks the main thread, the only one of the process, for which coroutines on the main queue wait: it would "
        + "wait for ever. \(Self.advice)")
  }

  /// Says, once in the process, that coroutines wait for this thread while it has been blocked for a while. It may be
  /// blocked for one of them, which the runtime can't know.
  ///
  /// - Returns: whether it is said, now or before.
  func warnIfMainQueueWaits() -> Bool {
    guard QueueScheduler.main.hasReady else { return Self.hasWarnedOfMainQueue.load(ordering: .relaxed) }
    if !Self.hasWarnedOfMainQueue.exchange(true, ordering: .relaxed) {
      CoroutineErrors.print(
        "\(description) blocks the main thread, for which coroutines on the main queue wait: if it waits for one of those, it waits "
          + "for ever. \(Self.advice)")
    }
    return true
  }

  private static let hasWarnedOfMainQueue = Atomic<Bool>(false)
  private static let advice = "Use 'await', or start the coroutine elsewhere: Coroutine(on: .pool) { … }"
}
