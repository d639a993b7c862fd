// SPDX-License-Identifier: Apache-2.0

import CCoroutine
public import Context

/// A channel's lock, and what its state machine decides. Here are the operations that never wait, and those of `async` code
/// and of plain threads; those of coroutines are in `ChannelSending` and `ChannelReceiving`.
@usableFromInline
// Unchecked: the name is constant, and the lock guards the machine. Elements come and go as `sending`.
final class ChannelStorage<Element: ~Copyable>: Waitable, @unchecked Sendable {
  /// Guarded by the lock.
  @exclusivity(unchecked) @usableFromInline var machine: ChannelStateMachine<Element>
  let name: String
  /// As the caller gave it.
  let capacity: ChannelCapacity
  /// A timer sends into it, again and again, until it is closed. Written before others know the channel.
  @exclusivity(unchecked) var isTicking = false
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

  override package func isTimed(_ operation: WaitReason.Operation) -> Bool { isTicking && operation == .receive }

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
      // Outside of the lock: the end of an element may run code of the user's. The first line as in `sendLocked`.
      withExtendedLifetime(element) {}
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

  /// Drops what is in the buffer: no receiver is left to take it. Outside of the lock: the end of an element may run code of
  /// the user's.
  func dropBuffer() {
    lock.lock()
    let elements = machine.takeBuffer()
    lock.unlock()
    _ = consume elements
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

// MARK: - In async code

extension ChannelStorage where Element: ~Copyable {
  /// Takes the element, or leaves it there: `.event` with the element still there means that the channel is closed.
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
      withExtendedLifetime(element) {}
      element = nil
      return .event
    case .full: break
    }
    return await wait(until: deadline) {
      ChannelNode($0, element: element.take())
    } attempt: {
      machine.send($0)
    } withdraw: {
      machine.withdrawSender($0)
    } afterwards: {
      element = $0.element.take()
    }
  }

  /// Fills in the element, which is `nil` before: `.event` without one means that the channel is closed.
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
    return await wait(until: deadline) {
      ChannelNode<Element>($0, element: nil)
    } attempt: {
      machine.receive($0)
    } withdraw: {
      machine.withdrawReceiver($0)
    } afterwards: {
      element = $0.element.take()
    }
  }
}

// MARK: - On plain threads

extension ChannelStorage where Element: ~Copyable {
  /// As in `async` code.
  @inlinable
  func sendBlocking(_ element: inout Element?, until deadline: UInt64, at call: BlockingCall) -> WakeCause {
    block(until: deadline, at: call) {
      ChannelNode($0, element: element.take())
    } attempt: {
      machine.send($0)
    } withdraw: {
      machine.withdrawSender($0)
    } afterwards: {
      element = $0.element.take()
    }
  }

  /// As in `async` code.
  @inlinable
  func receiveBlocking(_ element: inout Element?, until deadline: UInt64, at call: BlockingCall) -> WakeCause {
    block(until: deadline, at: call) {
      ChannelNode<Element>($0, element: nil)
    } attempt: {
      machine.receive($0)
    } withdraw: {
      machine.withdrawReceiver($0)
    } afterwards: {
      element = $0.element.take()
    }
  }
}
