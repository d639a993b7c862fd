// SPDX-License-Identifier: Apache-2.0

import CCoroutine
public import Context

/// A channel's lock, and what its state machine decides.
///
/// Each operation first tries what is possible at once: no node, nothing to clean up. It does more only when it has to
/// wait, with the lock still held.
@usableFromInline
// Unchecked: the name is constant, and the lock guards the machine. Elements come and go as `sending`.
final class ChannelStorage<Element: ~Copyable>: Waitable, @unchecked Sendable {
  @exclusivity(unchecked) @usableFromInline var machine: ChannelStateMachine<Element>
  let name: String
  /// As the caller gave it.
  let capacity: ChannelCapacity
  /// The error that it was closed with. Written under the lock before the machine is closed, and constant after that:
  /// callers that have learned that it is closed read it without the lock.
  @exclusivity(unchecked) @usableFromInline private(set) var closingError: (any Error)?
  /// Handlers that are called when it is closed. Guarded by the lock.
  @exclusivity(unchecked) private var closeHandlers: [CloseHandler] = []

  typealias CloseHandler = @Sendable ((any Error)?) -> Void

  init(name: String, capacity: ChannelCapacity) {
    self.name = name
    self.capacity = capacity
    machine = ChannelStateMachine(capacity: capacity)
  }

  /// Called without the lock: it reads plain words only, which may be of different moments.
  override package func describe(_ operation: WaitReason.Operation) -> String {
    coroutine_sanitizer_begin_unseen()
    let (count, senders, receivers) = occupancy
    coroutine_sanitizer_end_unseen()
    return WaitText.channel(
      name, limit: machine.limit, isConflated: machine.isConflated, count: count, senders: senders,
      receivers: receivers, operation)
  }

  /// The channel in words, for users.
  var description: String {
    let (count, senders, receivers) = lock.withLock { occupancy }
    return WaitText.channel(
      name, limit: machine.limit, isConflated: machine.isConflated, count: count, senders: senders,
      receivers: receivers)
  }

  private var occupancy: (count: Int, senders: Int, receivers: Int) {
    (machine.buffer.count, machine.senders.count, machine.receivers.count)
  }
}

// MARK: - Without waiting

extension ChannelStorage where Element: ~Copyable {
  /// If the element is still there afterwards: whether the channel is closed. It is full otherwise.
  @inlinable
  func trySend(_ element: inout Element?) -> Bool {
    lock.lock()
    let attempt = machine.sendNow(&element)
    lock.unlock()
    switch attempt {
    case .buffered, .full: return false
    case .closed: return true
    case .handed(let receiver):
      receiver.wake()
      return false
    case .replaced:
      // Outside of the lock: the end of an element may run code of the user's.
      element = nil
      return false
    }
  }

  /// If there is no element: whether the channel is closed.
  @inlinable
  func tryReceive(_ element: inout Element?) -> Bool {
    lock.lock()
    let attempt = machine.receiveNow(&element)
    lock.unlock()
    if case .admitted(let sender) = attempt { sender.wake() }
    if case .closed = attempt { return true }
    return false
  }

  /// Whether this was the first time.
  func close(throwing error: (any Error)? = nil) -> Bool {
    lock.lock()
    if !machine.isClosed { closingError = error }
    let handlers = closeHandlers
    closeHandlers = []
    let (isFirst, senders, receivers) = machine.close()
    lock.unlock()
    senders.wakeAll()
    receivers.wakeAll()
    for handler in handlers { handler(error) }
    return isFirst
  }

  /// Calls `handler` when it is closed: at once if it is.
  func whenClosed(_ handler: @escaping CloseHandler) {
    lock.lock()
    let isClosed = machine.isClosed
    if !isClosed { closeHandlers.append(handler) }
    lock.unlock()
    if isClosed { handler(closingError) }
  }
}

// MARK: - In coroutines

extension ChannelStorage where Element: ~Copyable {
  /// Takes the element, or leaves it there: `.event` with the element still there means that the channel is closed.
  @inlinable @inline(__always)
  func send(
    _ element: inout Element?, until deadline: UInt64, _ operation: StaticString, isEntered: Bool = false
  ) -> WakeCause {
    CoroutineCore.runningUncounted(for: operation)._withUnsafeGuaranteedRef { core in
      let isCountedSlot = isEntered && machine.buffer.countsAtAppend
      guard enterCounted(core, isEntered: isEntered, isCountedSlot: isCountedSlot) else { return .cancelled }
      switch machine.sendNow(&element) {
      case .full: return waitToSend(core, &element, until: deadline)
      case .handed(let receiver):
        leave(core)
        receiver.wake()
      case .replaced:
        leave(core)
        element = nil
      case .buffered, .closed:
        leave(core)
      }
      return .event
    }
  }

  /// Takes the lock, unless the short way has taken it. Returns false, without the lock, if the coroutine was
  /// cancelled. First it lets other coroutines run, if that is due. `isCountedSlot`: the short way has come to
  /// a counted slot of the buffer (`ElementRing.countInterval`).
  @inlinable @inline(__always)
  func enterCounted(_ core: CoroutineCore, isEntered: Bool, isCountedSlot: Bool) -> Bool {
    guard !isCountedSlot, core.hasOperationLeft() else {
      return enterAfterOthers(core, isEntered: isEntered, isCountedSlot: isCountedSlot)
    }
    return isEntered ? staysEntered(core) : enter(core)
  }

  @usableFromInline @inline(never)
  func enterAfterOthers(_ core: CoroutineCore, isEntered: Bool, isCountedSlot: Bool) -> Bool {
    if isCountedSlot, core.hasOperationLeftAtCountedSlot() { return staysEntered(core) }
    if isEntered { leave(core) }
    core.yieldForOthers()
    return enter(core)
  }

  /// The lock is held.
  ///
  /// Inlined where it is specialised, with the wait in it, which a closure would not be: else a mispredicted return (see
  /// `CoroutineCore.run`).
  @inlinable @inline(__always)
  func waitToSend(_ core: CoroutineCore, _ element: inout Element?, until deadline: UInt64) -> WakeCause {
    var node = ChannelNode(.coroutine(.passUnretained(core)), element: element.take())
    @inline(__always)
    func suspend(_ node: ChannelStateMachine<Element>.Node) -> WakeCause {
      machine.enqueueSender(node)
      return self.suspend(core, .send, until: deadline) { machine.withdrawSender(node) }
    }
    let cause = withUnsafeMutablePointer(to: &node, suspend)
    element = node.element.take()
    return cause
  }

  /// Fills in the element, which is `nil` before: `.event` without one means that the channel is closed.
  @inlinable @inline(__always)
  func receive(
    _ element: inout Element?, until deadline: UInt64, _ operation: StaticString, isEntered: Bool = false
  ) -> WakeCause {
    CoroutineCore.runningUncounted(for: operation)._withUnsafeGuaranteedRef { core in
      let isCountedSlot = isEntered && machine.buffer.countsAtRemoval
      guard enterCounted(core, isEntered: isEntered, isCountedSlot: isCountedSlot) else { return .cancelled }
      switch machine.receiveNow(&element) {
      case .empty: return waitToReceive(core, &element, until: deadline)
      case .admitted(let sender):
        leave(core)
        sender.wake()
      case .received, .closed:
        leave(core)
      }
      return .event
    }
  }

  /// The lock is held. Inlined as `waitToSend` is.
  @inlinable @inline(__always)
  func waitToReceive(_ core: CoroutineCore, _ element: inout Element?, until deadline: UInt64) -> WakeCause {
    var node = ChannelNode<Element>(.coroutine(.passUnretained(core)), element: nil)
    @inline(__always)
    func suspend(_ node: ChannelStateMachine<Element>.Node) -> WakeCause {
      machine.enqueueReceiver(node)
      return self.suspend(core, .receive, until: deadline) { machine.withdrawReceiver(node) }
    }
    let cause = withUnsafeMutablePointer(to: &node, suspend)
    element = node.element.take()
    return cause
  }
}

// MARK: - In coroutines, by the buffer alone

// A channel with a buffer mostly has an element, or room for one, and no waiters. Then an operation is some forty
// instructions without a call among them, so that nothing has to be kept in memory. Everything else is one call at the
// end, which goes on from here: `isEntered` says that the lock is held, and no more. Not even a counter of the
// operations has room here: one of every so many places in the ring goes to the call, which then lets other coroutines
// run.
extension ChannelStorage where Element: ~Copyable {
  /// Takes an element out of the buffer, if nothing else has to be done.
  @inlinable @inline(__always)
  func receiveBuffered(_ isEntered: inout Bool) -> Element? {
    guard machine.limit > 0, let core = CoroutineCore.currentUncounted else { return nil }
    isEntered = core._withUnsafeGuaranteedRef { enterIfFree($0) }
    guard isEntered, !core._withUnsafeGuaranteedRef({ isHeldUp($0) }), let element = machine.takeBuffered() else {
      return nil
    }
    core._withUnsafeGuaranteedRef { leave($0) }
    return element
  }

  @inlinable @inline(never)
  func receiveSlowly(isEntered: Bool) -> Element? {
    var element: Element?
    _ = receive(&element, until: WaitDeadline.never, "Channel.received.next()", isEntered: isEntered)
    return element
  }

  @inlinable @inline(never)
  func receiveSlowly(isEntered: Bool, timeout: Duration?, onCancel: () -> Void) throws -> sending Element {
    var element: Element?
    let cause = receive(&element, until: WaitDeadline.after(timeout), "Channel.receive()", isEntered: isEntered)
    guard let element = element.take() else { throw failure(cause, timeout, onCancel) }
    return element
  }
}

extension ChannelStorage where Element: Sendable {
  /// Puts an element into the buffer, if nothing else has to be done. Returns whether it did.
  @inlinable @inline(__always)
  func sendBuffered(_ element: Element, _ isEntered: inout Bool) -> Bool {
    guard machine.limit > 0, let core = CoroutineCore.currentUncounted else { return false }
    isEntered = core._withUnsafeGuaranteedRef { enterIfFree($0) }
    guard isEntered, !core._withUnsafeGuaranteedRef({ isHeldUp($0) }), machine.appendBuffered(element) else {
      return false
    }
    core._withUnsafeGuaranteedRef { leave($0) }
    return true
  }

  @inlinable @inline(never)
  func sendSlowly(_ element: Element, isEntered: Bool, timeout: Duration?, onCancel: () -> Void) throws {
    var unsent: Element? = element
    let cause = send(&unsent, until: WaitDeadline.after(timeout), "Channel.send(_:)", isEntered: isEntered)
    if cause == .event, unsent == nil { return }
    try fail(cause, unsent, timeout, onCancel)
  }
}

// MARK: - In async code

// The node lies on the heap, since a task has no stack to wait on.
extension ChannelStorage where Element: ~Copyable {
  /// As in a coroutine.
  @inlinable
  nonisolated(nonsending) func send(_ element: inout Element?, until deadline: UInt64) async -> WakeCause {
    if Task.isCancelled { return .cancelled }
    lock.lock()
    let attempt = machine.sendNow(&element)
    lock.unlock()
    switch attempt {
    case .buffered, .closed: return .event
    case .handed(let receiver):
      receiver.wake()
      return .event
    case .replaced:
      element = nil
      return .event
    case .full: break
    }
    let task = WaitingTask()
    let node = UnsafeMutablePointer<ChannelNode<Element>>.allocate(capacity: 1)
    node.initialize(to: ChannelNode(.task(.passUnretained(task)), element: element.take()))
    let cause = await wait(task, until: deadline) {
      machine.send(node)
    } withdraw: {
      machine.withdrawSender(node)
    }
    element = node.pointee.element.take()
    node.deinitialize(count: 1).deallocate()
    return cause
  }

  /// As in a coroutine.
  @inlinable
  nonisolated(nonsending) func receive(_ element: inout Element?, until deadline: UInt64) async -> WakeCause {
    if Task.isCancelled { return .cancelled }
    lock.lock()
    let attempt = machine.receiveNow(&element)
    lock.unlock()
    switch attempt {
    case .received, .closed: return .event
    case .admitted(let sender):
      sender.wake()
      return .event
    case .empty: break
    }
    let task = WaitingTask()
    let node = UnsafeMutablePointer<ChannelNode<Element>>.allocate(capacity: 1)
    node.initialize(to: ChannelNode(.task(.passUnretained(task)), element: nil))
    let cause = await wait(task, until: deadline) {
      machine.receive(node)
    } withdraw: {
      machine.withdrawReceiver(node)
    }
    element = node.pointee.element.take()
    node.deinitialize(count: 1).deallocate()
    return cause
  }
}

// MARK: - On plain threads

extension ChannelStorage where Element: ~Copyable {
  /// As in a coroutine.
  @inlinable
  func sendBlocking(_ element: inout Element?, until deadline: UInt64, at place: BlockingPlace) -> WakeCause {
    let thread = BlockedThread(at: place)
    var node = ChannelNode(.thread(.passUnretained(thread)), element: element.take())
    let cause = withUnsafeMutablePointer(to: &node) { node in
      wait(thread, until: deadline) {
        machine.send(node)
      } withdraw: {
        machine.withdrawSender(node)
      }
    }
    element = node.element.take()
    return cause
  }

  /// As in a coroutine.
  @inlinable
  func receiveBlocking(_ element: inout Element?, until deadline: UInt64, at place: BlockingPlace) -> WakeCause {
    let thread = BlockedThread(at: place)
    var node = ChannelNode<Element>(.thread(.passUnretained(thread)), element: nil)
    let cause = withUnsafeMutablePointer(to: &node) { node in
      wait(thread, until: deadline) {
        machine.receive(node)
      } withdraw: {
        machine.withdrawReceiver(node)
      }
    }
    element = node.element.take()
    return cause
  }
}
