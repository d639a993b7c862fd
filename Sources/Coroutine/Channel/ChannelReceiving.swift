// SPDX-License-Identifier: Apache-2.0

// How a coroutine receives, as `ChannelSending` describes a send: by the buffer alone, else with the lock by
// `receiveLocked`, which waits where there is no element.

extension ChannelStorage where Element: ~Copyable {
  /// `Channel.receive`.
  @inlinable @inline(__always)
  func receive(timeout: Duration?, onCancel: () -> Void) throws -> sending Element {
    let core = CoroutineCore.runningUncounted(for: "Channel.receive()")
    guard timeout == nil, core._withUnsafeGuaranteedRef({ tryLock(for: $0) }) else {
      return try receiveLate(core, timeout, onCancel)
    }
    guard !core._withUnsafeGuaranteedRef({ isHeldUp($0) }), let element = machine.takeBuffered() else {
      return try receiveLocked(core, until: WaitDeadline.never, nil, onCancel)
    }
    core._withUnsafeGuaranteedRef { unlock(for: $0) }
    return element
  }

  /// Another thread has the lock, or the receiver does not wait for ever.
  @inlinable @inline(never)
  func receiveLate(
    _ core: Unmanaged<CoroutineCore>, _ timeout: Duration?, _ onCancel: () -> Void
  ) throws -> sending Element {
    // Without the lock: it looks at the clock.
    let deadline = WaitDeadline.after(timeout)
    core._withUnsafeGuaranteedRef { lock(for: $0) }
    return try receiveLocked(core, until: deadline, timeout, onCancel)
  }

  /// The caller holds `lock`.
  @inlinable @inline(never)
  func receiveLocked(
    _ core: Unmanaged<CoroutineCore>, until deadline: UInt64, _ timeout: Duration?, _ onCancel: () -> Void
  ) throws -> sending Element {
    var element: Element?
    let isCountedSlot = machine.countsReceive
    let cause = core._withUnsafeGuaranteedRef {
      receiveLocked($0, &element, until: deadline, isCountedSlot: isCountedSlot)
    }
    guard let element = element.take() else { throw failure(cause, timeout, onCancel) }
    return element
  }

  /// `Channel.received.next()`: the next element, or `nil` at the end, and when the coroutine is cancelled.
  @inlinable @inline(__always)
  func next() -> sending Element? {
    let core = CoroutineCore.runningUncounted(for: "Channel.received.next()")
    guard core._withUnsafeGuaranteedRef({ tryLock(for: $0) }) else { return nextLate(core) }
    guard !core._withUnsafeGuaranteedRef({ isHeldUp($0) }), let element = machine.takeBuffered() else {
      return nextLocked(core)
    }
    core._withUnsafeGuaranteedRef { unlock(for: $0) }
    return element
  }

  /// Another thread has the lock.
  @inlinable @inline(never)
  func nextLate(_ core: Unmanaged<CoroutineCore>) -> sending Element? {
    core._withUnsafeGuaranteedRef { lock(for: $0) }
    return nextLocked(core)
  }

  /// The caller holds `lock`.
  @inlinable @inline(never)
  func nextLocked(_ core: Unmanaged<CoroutineCore>) -> sending Element? {
    var element: Element?
    let isCountedSlot = machine.countsReceive
    _ = core._withUnsafeGuaranteedRef {
      receiveLocked($0, &element, until: WaitDeadline.never, isCountedSlot: isCountedSlot)
    }
    return element
  }

  /// For an operation of another module that receives: fills in the element, which is `nil` before. `.event` without one means
  /// that the channel is closed.
  @inlinable @inline(__always)
  func receive(_ element: inout Element?, until deadline: UInt64, _ operation: StaticString) -> WakeCause {
    CoroutineCore.runningUncounted(for: operation)._withUnsafeGuaranteedRef { core in
      lock(for: core)
      return receiveLocked(core, &element, until: deadline, isCountedSlot: false)
    }
  }

  /// The same where the caller holds `lock`, which it releases. Lets others run first, if that is due, as `sendLocked` does.
  @inlinable @inline(__always)
  func receiveLocked(
    _ core: CoroutineCore, _ element: inout Element?, until deadline: UInt64, isCountedSlot: Bool
  ) -> WakeCause {
    guard keepsLockAfterCounting(core, countingMany: isCountedSlot) else { return .cancelled }
    switch machine.receiveNow(&element) {
    case .admitted(let sender):
      unlock(for: core)
      sender.wake()
      return .event
    case .received, .closed:
      unlock(for: core)
      return .event
    case .empty:
      return waitToReceive(core, &element, until: deadline)
    }
  }

  /// The rest of it where the receiver has to wait.
  @inlinable @inline(__always)
  func waitToReceive(_ core: CoroutineCore, _ element: inout Element?, until deadline: UInt64) -> WakeCause {
    var node = ChannelNode<Element>(.coroutine(.passUnretained(core)), element: nil)
    // Not a closure: that would not be inlined.
    @inline(__always)
    func enqueueAndSuspend(_ node: ChannelStateMachine<Element>.Node) -> WakeCause {
      machine.enqueueReceiver(node)
      return suspend(core, .receive, until: deadline) { machine.withdrawReceiver(node) }
    }
    let cause = withUnsafeMutablePointer(to: &node, enqueueAndSuspend)
    element = node.element.take()
    return cause
  }
}

extension Channel {
  /// For an operation of another module that is made of a receive: fills in the element, which is `nil` before. Where it is
  /// `nil` afterwards, `checkEnd` says why.
  ///
  /// Inlined, so that the waiting coroutine has one frame of it.
  @inlinable @inline(__always)
  package func receive(
    _ element: inout Element?, until deadline: UInt64, for operation: StaticString
  ) -> WakeCause {
    storage.receive(&element, until: deadline, operation)
  }

  /// Throws why there is no element, unless it is that the channel was closed without an error.
  package func checkEnd(_ cause: WakeCause, _ timeout: Duration?) throws {
    guard cause != .event || storage.closingError != nil else { return }
    throw storage.failure(cause, timeout)
  }
}
