// SPDX-License-Identifier: Apache-2.0

// How a coroutine sends, from the call to the suspension, from top to bottom.
//
// 1. `send` tries the buffer. A channel with a buffer mostly has room in it, and no waiters. Then a send is some forty
//    instructions without a call among them, so that nothing has to be kept in memory. Anything else is one call at the end:
// 2. `sendLocked`, with the lock held. It asks the state machine for any way that needs no wait.
// 3. There is none: `waitToSend` puts a node, on the coroutine's own stack, into the queue of senders, and parks. The
//    scheduler's loop releases the lock once the context is saved.
//
// All of it is specialised in the caller's module, with the switch in it: see `CoroutineCore.run` for what another function
// around the switch would cost.

extension ChannelStorage where Element: Sendable {
  /// `Channel.send`.
  @inlinable @inline(__always)
  func send(_ element: Element, timeout: Duration?, onCancel: () -> Void) throws {
    try CoroutineCore.runningUncounted(for: "Channel.send(_:)")._withUnsafeGuaranteedRef { core in
      guard timeout == nil, tryLock(for: core) else { return try sendLate(core, element, timeout, onCancel) }
      guard !isHeldUp(core), machine.appendBuffered(element) else {
        return try sendLocked(core, element, until: WaitDeadline.never, nil, onCancel)
      }
      unlock(for: core)
    }
  }

  /// Another thread has the lock, or the sender does not wait for ever.
  @inlinable @inline(never)
  func sendLate(_ core: CoroutineCore, _ element: Element, _ timeout: Duration?, _ onCancel: () -> Void) throws {
    // Without the lock: it looks at the clock.
    let deadline = WaitDeadline.after(timeout)
    lock(for: core)
    try sendLocked(core, element, until: deadline, timeout, onCancel)
  }

  /// The caller holds `lock`.
  @inlinable @inline(never)
  func sendLocked(
    _ core: CoroutineCore, _ element: Element, until deadline: UInt64, _ timeout: Duration?, _ onCancel: () -> Void
  ) throws {
    var unsent: Element? = element
    let isCountedSlot = machine.countsSend
    let cause = sendLocked(core, &unsent, until: deadline, isCountedSlot: isCountedSlot)
    if cause == .event, unsent == nil { return }
    try fail(cause, unsent, timeout, onCancel)
  }
}

extension ChannelStorage where Element: ~Copyable {
  /// `Channel.send(orReturn:)`. Takes the element, or leaves it there: `.event` with the element still there means that the
  /// channel is closed.
  @inlinable @inline(__always)
  func send(_ element: inout Element?, until deadline: UInt64) -> WakeCause {
    CoroutineCore.runningUncounted(for: "Channel.send(orReturn:)")._withUnsafeGuaranteedRef { core in
      lock(for: core)
      return sendLocked(core, &element, until: deadline, isCountedSlot: false)
    }
  }

  /// The same where the caller holds `lock`, which it releases. Lets others run first, if that is due: `isCountedSlot` says
  /// that the buffer alone has come to one of the slots at which it counts (`ElementRing.countsAtAppend`).
  @inlinable @inline(__always)
  func sendLocked(
    _ core: CoroutineCore, _ element: inout Element?, until deadline: UInt64, isCountedSlot: Bool
  ) -> WakeCause {
    guard keepsLockAfterCounting(core, countingMany: isCountedSlot) else { return .cancelled }
    switch machine.sendNow(&element) {
    case .handed(let receiver):
      unlock(for: core)
      receiver.wake()
      return .event
    case .replaced:
      unlock(for: core)
      // Outside of the lock: the end of an element may run code of the user's. Without the first line the optimiser may move that
      // before the unlock; it does in an optimised client of this library's debug build.
      withExtendedLifetime(element) {}
      element = nil
      return .event
    case .buffered, .closed:
      unlock(for: core)
      return .event
    case .full:
      return waitToSend(core, &element, until: deadline)
    }
  }

  /// The rest of it where the sender has to wait.
  @inlinable @inline(__always)
  func waitToSend(_ core: CoroutineCore, _ element: inout Element?, until deadline: UInt64) -> WakeCause {
    var node = ChannelNode(.coroutine(.passUnretained(core)), element: element.take())
    // Not a closure: that would not be inlined.
    @inline(__always)
    func enqueueAndSuspend(_ node: ChannelStateMachine<Element>.Node) -> WakeCause {
      machine.enqueueSender(node)
      return suspend(core, .send, until: deadline) { machine.withdrawSender(node) }
    }
    let cause = withUnsafeMutablePointer(to: &node, enqueueAndSuspend)
    element = node.element.take()
    return cause
  }
}
