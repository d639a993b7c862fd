// SPDX-License-Identifier: Apache-2.0

public import Context

// Several elements at once.

extension Channel {
  /// Takes everything that is there, in one step; suspends the calling coroutine until there is something.
  ///
  /// These are the elements in the buffer, and those of the waiting senders, in the order in which they came. Linear in
  /// their number. Only where the caller had to wait, what came after the first one is a second step: another receiver may have
  /// taken some of it.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait for the first one at most; zero or less: does not wait; `nil`: without a limit.
  ///   - onCancel: runs on the caller, before the error is thrown, if it was cancelled.
  /// - Returns: one element at least.
  /// - Throws: `ChannelClosed`, or what the channel was closed with, if everything that was sent has been received;
  ///   `CancellationError` if the caller is cancelled; `TimeoutError` if time is up. In none of these cases has it
  ///   taken an element.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func receiveAll(timeout: Duration? = nil, onCancel: () -> Void = {}) throws -> sending [Element] {
    var elements: [Element] = []
    let deadline = WaitDeadline.after(timeout)
    let cause = storage.receive(into: &elements, upTo: .max, until: deadline, "Channel.receiveAll()")
    guard !elements.isEmpty else { throw storage.failure(cause, timeout, onCancel) }
    return elements
  }

  /// Takes everything that is there, in one step; suspends the calling task until there is something.
  ///
  /// The same as in a coroutine.
  @inlinable
  nonisolated(nonsending) public func receiveAll(
    timeout: Duration? = nil, onCancel: () -> Void = {}
  ) async throws -> sending [Element] {
    var elements: [Element] = []
    let cause = await storage.receive(into: &elements, upTo: .max, until: WaitDeadline.after(timeout))
    guard !elements.isEmpty else { throw storage.failure(cause, timeout, onCancel) }
    return elements
  }

  /// Takes the next `count` elements; suspends the calling coroutine until they have come.
  ///
  /// What is there it takes in one step. Each wait begins a new one: other receivers may take elements in between.
  ///
  /// It returns all that it has taken. If the channel ends, the caller is cancelled or time is up in between, it
  /// returns the elements that have come until then, and the next operation throws the reason. It throws only where no
  /// element has come.
  ///
  /// - Parameters:
  ///   - count: how many; not negative.
  ///   - timeout: how long to wait for all of them at most; zero or less: does not wait; `nil`: without a limit.
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
    requireElementCount(count)
    var elements: [Element] = []
    let deadline = WaitDeadline.after(timeout)
    while elements.count < count {
      let before = elements.count
      let cause = storage.receive(into: &elements, upTo: count, until: deadline, "Channel.receive(count:)")
      guard elements.count == before else { continue }
      let failure = storage.failure(cause, timeout, onCancel)
      if elements.isEmpty { throw failure }
      break
    }
    return elements
  }

  /// Takes the next `count` elements; suspends the calling task until they have come.
  ///
  /// The same as in a coroutine.
  @inlinable
  nonisolated(nonsending) public func receive(
    count: Int, timeout: Duration? = nil, onCancel: () -> Void = {}
  ) async throws -> sending [Element] {
    requireElementCount(count)
    var elements: [Element] = []
    let deadline = WaitDeadline.after(timeout)
    while elements.count < count {
      let before = elements.count
      let cause = await storage.receive(into: &elements, upTo: count, until: deadline)
      guard elements.count == before else { continue }
      let failure = storage.failure(cause, timeout, onCancel)
      if elements.isEmpty { throw failure }
      break
    }
    return elements
  }
}

@usableFromInline
func requireElementCount(_ count: Int) {
  require(count >= 0, "a channel can't give \(count) elements: receive(count:) takes a count of 0 or more")
}

extension ChannelStorage {
  /// Appends what is there until `elements` has `limit`, in one critical section: a batch has no gaps. If nothing is there, waits
  /// for one element, and appends what has come with it. Nothing appended, and `.event`: the channel is closed.
  @inlinable
  func receive(
    into elements: inout [Element], upTo limit: Int, until deadline: UInt64, _ operation: StaticString
  ) -> WakeCause {
    CoroutineCore.runningUncounted(for: operation)._withUnsafeGuaranteedRef { core in
      lock(for: core)
      guard keepsLockAfterCounting(core, countingMany: false) else { return .cancelled }
      var node = ChannelNode<Element>(.coroutine(.passUnretained(core)), element: nil)
      let cause = withUnsafeMutablePointer(to: &node) { node -> WakeCause in
        let attempt = machine.receive(into: &elements, upTo: limit, orWaitBy: node)
        guard case .wait = attempt else {
          unlock(for: core)
          attempt.wakeOthers()
          return .event
        }
        return suspend(core, .receive, until: deadline) { machine.withdrawReceiver(node) }
      }
      append(node.element.take(), to: &elements, upTo: limit)
      return cause
    }
  }

  /// The same for `async` code.
  @inlinable
  nonisolated(nonsending) func receive(
    into elements: inout [Element], upTo limit: Int, until deadline: UInt64
  ) async -> WakeCause {
    if Task.isCancelled { return .cancelled }
    // First without a wait, which takes memory from the heap.
    let count = elements.count
    takeAvailable(into: &elements, upTo: limit)
    guard elements.count == count else { return .event }
    var first: Element?
    let cause = await wait(until: deadline) {
      ChannelNode<Element>($0, element: nil)
    } attempt: {
      machine.receive(into: &elements, upTo: limit, orWaitBy: $0)
    } withdraw: {
      machine.withdrawReceiver($0)
    } afterwards: {
      first = $0.element.take()
    }
    append(first.take(), to: &elements, upTo: limit)
    return cause
  }

  /// Behind a wait: what it has brought, and what has come since.
  @inlinable
  func append(_ first: consuming Element?, to elements: inout [Element], upTo limit: Int) {
    guard let first else { return }
    elements.append(first)
    guard elements.count < limit else { return }
    takeAvailable(into: &elements, upTo: limit)
  }

  /// Appends what is there until `elements` has `limit`.
  @inlinable
  func takeAvailable(into elements: inout [Element], upTo limit: Int) {
    var admitted = ClaimedWaiters()
    lock.lock()
    machine.receive(into: &elements, upTo: limit, &admitted)
    lock.unlock()
    admitted.wakeAll()
  }
}
