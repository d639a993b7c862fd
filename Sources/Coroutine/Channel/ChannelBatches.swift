// SPDX-License-Identifier: Apache-2.0

public import Context

// Several elements at once.

extension Channel {
  /// Takes everything that is there, in one step; suspends the calling coroutine until there is something.
  ///
  /// These are the elements in the buffer, and those of the waiting senders, in the order in which they came. Linear in
  /// their number.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait for the first one at most; zero: not at all; `nil`: without a limit.
  ///   - onCancel: runs on the caller, before the error is thrown, if it was cancelled.
  /// - Returns: one element at least.
  /// - Throws: `ChannelClosed`, or what the channel was closed with, if everything that was sent has been received;
  ///   `CancellationError` if the caller is cancelled; `TimeoutError` if time is up. In none of these cases has it
  ///   taken an element.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func receiveAll(timeout: Duration? = nil, onCancel: () -> Void = {}) throws -> sending [Element] {
    var batch = ChannelBatch(limit: .max, of: storage)
    let cause = storage.receive(&batch.latest, until: WaitDeadline.after(timeout), "Channel.receiveAll()")
    guard batch.keepLatest() else { throw storage.failure(cause, timeout, onCancel) }
    batch.takeAvailable()
    return batch.elements
  }

  /// Takes everything that is there, in one step; suspends the calling task until there is something.
  ///
  /// The same as in a coroutine.
  @inlinable
  nonisolated(nonsending) public func receiveAll(
    timeout: Duration? = nil, onCancel: () -> Void = {}
  ) async throws -> sending [Element] {
    var batch = ChannelBatch(limit: .max, of: storage)
    let cause = await storage.receive(&batch.latest, until: WaitDeadline.after(timeout))
    guard batch.keepLatest() else { throw storage.failure(cause, timeout, onCancel) }
    batch.takeAvailable()
    return batch.elements
  }

  /// Takes the next `count` elements; suspends the calling coroutine until they have come.
  ///
  /// It returns all that it has taken. If the channel ends, the caller is cancelled or time is up in between, it
  /// returns the elements that have come until then, and the next operation throws the reason. It throws only where no
  /// element has come.
  ///
  /// - Parameters:
  ///   - count: how many; not negative.
  ///   - timeout: how long to wait for all of them at most; zero: not at all; `nil`: without a limit.
  ///   - onCancel: runs on the caller if it was cancelled before all of them had come.
  /// - Returns: `count` elements, or fewer as described above, but at least one; none if `count` is zero.
  /// - Throws: without having taken an element: `ChannelClosed`, or what the channel was closed with, if everything that was
  ///   sent has been received; `CancellationError` if the caller is cancelled; `TimeoutError` if time is up.
  /// - Precondition: called inside a coroutine, with no negative count: traps otherwise.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func receive(
    count: Int, timeout: Duration? = nil, onCancel: () -> Void = {}
  ) throws -> sending [Element] {
    var batch = ChannelBatch(limit: count, of: storage)
    let deadline = WaitDeadline.after(timeout)
    while batch.isIncomplete {
      let cause = storage.receive(&batch.latest, until: deadline, "Channel.receive(count:)")
      guard batch.keepLatest() else {
        let failure = storage.failure(cause, timeout, onCancel)
        if batch.elements.isEmpty { throw failure }
        break
      }
      batch.takeAvailable()
    }
    return batch.elements
  }

  /// Takes the next `count` elements; suspends the calling task until they have come.
  ///
  /// The same as in a coroutine.
  @inlinable
  nonisolated(nonsending) public func receive(
    count: Int, timeout: Duration? = nil, onCancel: () -> Void = {}
  ) async throws -> sending [Element] {
    var batch = ChannelBatch(limit: count, of: storage)
    let deadline = WaitDeadline.after(timeout)
    while batch.isIncomplete {
      let cause = await storage.receive(&batch.latest, until: deadline)
      guard batch.keepLatest() else {
        let failure = storage.failure(cause, timeout, onCancel)
        if batch.elements.isEmpty { throw failure }
        break
      }
      batch.takeAvailable()
    }
    return batch.elements
  }
}

/// The elements received so far.
@usableFromInline
struct ChannelBatch<Element> {
  @usableFromInline let storage: ChannelStorage<Element>
  @usableFromInline let limit: Int
  @usableFromInline var elements: [Element] = []
  /// Where a receive puts its element.
  @usableFromInline var latest: Element?

  @inlinable
  init(limit: Int, of storage: ChannelStorage<Element>) {
    require(limit >= 0, "a channel can't give \(limit) elements: receive(count:) takes a count of 0 or more")
    self.limit = limit
    self.storage = storage
  }

  @inlinable
  var isIncomplete: Bool { elements.count < limit }

  /// False if the receive failed.
  @inlinable
  mutating func keepLatest() -> Bool {
    guard let element = latest.take() else { return false }
    elements.append(element)
    return true
  }

  /// Takes the elements that are there, up to the limit.
  @inlinable
  mutating func takeAvailable() {
    guard isIncomplete else { return }
    storage.tryReceive(into: &elements, upTo: limit)
  }
}

extension ChannelStorage {
  /// Appends elements that are there until `elements` has `limit`, in one critical section: a batch has no gaps.
  @inlinable
  func tryReceive(into elements: inout [Element], upTo limit: Int) {
    var admitted = ClaimedWaiters()
    lock.lock()
    machine.receive(into: &elements, upTo: limit, &admitted)
    lock.unlock()
    admitted.wakeAll()
  }
}
