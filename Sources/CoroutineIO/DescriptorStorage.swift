// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import Coroutine
import CoroutineLibc
import Synchronization

/// A descriptor that coroutines wait for: its number, its waiters, and how a system call waits.
final class DescriptorStorage: Sendable {
  private let number: DescriptorNumber
  let waits: ReadinessStorage
  /// The peer sends nothing more: every further read finds the end, and no event reports it a second time.
  private let isHungUp = Atomic<Bool>(false)
  /// The count of changes up to which a stream has been read, or filled: as long as it is the same, a call would be
  /// refused. `exhausted(_:)`, or 0 while it is not known. Written by the one operation of that direction.
  private let readExhausted = Atomic<UInt64>(0)
  private let writeExhausted = Atomic<UInt64>(0)

  /// Takes the descriptor over. If this fails it stays the caller's, and as it was.
  ///
  /// - Parameter prepares: whether it is to be made one that does not block, and is closed by exec.
  static func adopt(_ number: CInt, name: String, prepares: Bool = true) throws(IOError) -> DescriptorStorage {
    let poller = try EpollPoller.current()
    let storage = DescriptorStorage(DescriptorNumber(number, isPolled: true), name: name)
    // First: this is what may be refused, and it changes nothing about the descriptor.
    try poller.add(storage, number)
    guard prepares else { return storage }
    let result = coroutine_io_adopt(number)
    guard result >= 0 else {
      poller.remove(number)
      throw IOError(operation: "adopt", code: -result, subject: name)
    }
    return storage
  }

  /// The same for one that may be of a file or of `/dev/null`, which the poller refuses: such a one is always ready, so that
  /// no operation waits.
  static func adoptAny(_ number: CInt, name: String) throws(IOError) -> DescriptorStorage {
    do {
      // What may block is shared with other processes: a socket, whose calls say that they must not.
      return try adopt(number, name: name, prepares: false)
    } catch let error where error.code == EPERM && error.subject == name || isFile(number) {
      // Not an EPERM of the poller's own making, by which a pipe would never be waited for. A file needs no poller: a child of
      // `fork` has none.
      return DescriptorStorage(DescriptorNumber(number, isPolled: false), name: name)
    }
  }

  private static func isFile(_ number: CInt) -> Bool {
    var status = stat()
    return fstat(number, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
  }

  private init(_ number: DescriptorNumber, name: String) {
    self.number = number
    waits = ReadinessStorage(name: name) { number.isReady($0) }
  }

  var name: String { waits.name }
  var isClosed: Bool { waits.isClosed }

  /// Ends all waits; the number goes with the last use. A second time: nothing.
  func close() {
    if waits.closeWaits() { number.close() }
  }

  /// The same where other code has closed the number, and it is another descriptor's by now.
  func disown() {
    if waits.closeWaits() { number.disown() }
  }

  /// The number, which stays the descriptor's until `endUse`.
  func beginUse() throws(DescriptorClosed) -> CInt {
    // The waits end first: code that begins a use after one of them has heard of the close must not find the number still there.
    guard !isClosed, let number = number.beginUse() else { throw DescriptorClosed(name) }
    return number
  }

  func endUse() { number.endUse() }

  /// The kernel has reported a change.
  func becomeReady(_ readiness: Readiness) {
    // litmus: readiness-count
    if readiness.contains(.hungUp) { isHungUp.store(true, ordering: .releasing) }
    waits.becomeReady(readiness)
  }

  // MARK: Waiting

  /// Suspends the calling coroutine until the descriptor is ready, by a look or by an event.
  func waitUntilReady(_ operation: WaitOperation, _ limit: WaitLimit, for function: StaticString) throws {
    try suspend(CoroutineCore.running(for: function), operation, seen: nil, limit)
  }

  /// Suspends the calling task until the descriptor is ready, by a look or by an event.
  nonisolated(nonsending) func waitUntilReady(_ operation: WaitOperation, timeout: Duration?) async throws {
    if waits.isInForkedChild { return try lookInChild(operation) }
    try await waits.wait(operation, timeout: timeout)
    guard !isClosed else { throw DescriptorClosed(name) }
  }

  private func suspend(_ core: CoroutineCore, _ operation: WaitOperation, seen: UInt32?, _ limit: WaitLimit) throws {
    if waits.isInForkedChild { return try lookInChild(operation) }
    try waits.wait(core, operation, seen: seen, until: limit.deadline).check(limit.timeout)
    guard !isClosed else { throw DescriptorClosed(name) }
  }

  /// In place of a wait in a child of `fork`, which nothing would end: an error, unless the descriptor is ready.
  private func lookInChild(_ operation: WaitOperation) throws(IOError) {
    let readiness = Readiness(for: operation)
    guard !(readiness == .readable && waits.hasBytesAhead), !number.isReady(readiness) else { return }
    throw IOError(operation: "\(operation)", code: EBADF, subject: "\(name), the parent's, in a child of fork")
  }

  // MARK: System calls

  /// Makes a system call, which does not wait by itself, until it is done. See `Descriptor.perform`.
  func perform(
    _ operation: WaitOperation, _ limit: WaitLimit, asked: Int?, for function: StaticString, _ call: (CInt) -> Int
  ) throws -> Int {
    let core = CoroutineCore.running(for: function)
    let readiness = Readiness(for: operation)
    core.beginOperation()
    var isLastTry = false
    while true {
      // Before the call: what changes from here on is another count.
      let seen = waits.events(for: readiness)  // litmus: readiness-count
      // Where it must not wait, no event has been looked for: only the call knows. In a child of fork the count stands still.
      let isTried =
        asked == nil || limit.isNow || isLastTry || !isExhausted(readiness, at: seen) || waits.isInForkedChild
      if isTried {
        let number = try beginUse()
        let result = call(number)
        let code = result < 0 ? coroutine_io_errno() : 0
        endUse()
        if result >= 0 {
          if let asked, 0 < result, result < asked { noteExhausted(readiness, at: seen) }
          core.countReadyOperation()
          return result
        }
        if code == EINTR { continue }
        guard code == EAGAIN || code == EINPROGRESS || code == EALREADY else {
          throw IOError(operation: "\(operation)", code: code, subject: name)
        }
        if isLastTry { throw TimeoutError(after: limit.timeout) }
      }
      do { try suspend(core, operation, seen: seen, limit) } catch let error as TimeoutError {
        guard !isTried else { throw error }
        // What had come before the call may not have been reported in time.
        isLastTry = true
      }
    }
  }

  /// Whether a stream was read to the last byte that had come, or filled, and nothing has changed since. Not at its end, which
  /// is there all the time.
  private func isExhausted(_ readiness: Readiness, at count: UInt32) -> Bool {  // litmus: readiness-count
    let exhausted =
      (readiness == .writable ? writeExhausted.load(ordering: .relaxed) : readExhausted.load(ordering: .relaxed))
    return exhausted == Self.exhausted(count) && !isHungUp.load(ordering: .acquiring)
  }

  private func noteExhausted(_ readiness: Readiness, at count: UInt32) {
    let exhausted = Self.exhausted(count)
    if readiness == .writable {
      writeExhausted.store(exhausted, ordering: .relaxed)
    } else {
      readExhausted.store(exhausted, ordering: .relaxed)
    }
  }

  /// A count of changes, distinct from "not known".
  private static func exhausted(_ count: UInt32) -> UInt64 { UInt64(count) | 1 << 32 }
}

/// How long an operation may wait, all its steps together.
package struct WaitLimit: Sendable {
  /// As it was given, for the error.
  package let timeout: Duration?
  /// On the timers' clock.
  package let deadline: UInt64

  /// - Parameter timeout: from now; zero or less: does not wait; `nil`: without a limit.
  package init(_ timeout: Duration?) {
    self.timeout = timeout
    deadline = WaitDeadline.after(timeout)
  }

  /// Whether the operation must not wait at all.
  var isNow: Bool { deadline == WaitDeadline.now }

  /// Between the calls of an operation that takes several: where none has to wait, nothing else would look.
  ///
  /// - Throws: `CancellationError`; `TimeoutError`, if it may wait at all.
  func checkBetweenCalls() throws {
    try Coroutine.checkCancellation()
    guard deadline != WaitDeadline.never, !isNow, WaitDeadline.after(.nanoseconds(1)) > deadline else { return }
    throw TimeoutError(after: timeout)
  }

  /// Suspends the calling coroutine for some time, where no event says when to look again; only until the deadline, if that
  /// comes first: it is worth a last look.
  func pause(for duration: Duration) throws {
    let now = WaitDeadline.after(.nanoseconds(1))
    guard now < deadline else { throw TimeoutError(after: timeout) }
    try Coroutine.sleep(for: min(duration, .nanoseconds(deadline - now)))
  }
}
