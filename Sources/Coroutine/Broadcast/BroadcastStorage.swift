// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context

/// A broadcast's lock, and what its state machine decides.
// Unchecked: the name is constant, and the lock guards the machine.
final class BroadcastStorage<Element: Sendable>: Waitable, @unchecked Sendable {
  /// Guarded by the lock.
  @exclusivity(unchecked) private var machine: BroadcastStateMachine<Element>
  let name: String
  /// Whether it is one value that is watched: for its text.
  private let isValue: Bool
  /// The error that it was closed with. Written under the lock before the machine is closed, and constant after that:
  /// callers that have learned that it is closed read it without the lock.
  @exclusivity(unchecked) private var closingError: (any Error)?

  init(_ machine: consuming BroadcastStateMachine<Element>, name: String, isValue: Bool) {
    self.machine = machine
    self.name = name
    self.isValue = isValue
  }

  /// Why there is no element.
  func failure(_ cause: WakeCause, _ timeout: Duration?) -> any Error {
    cause.failure(timeout) ?? closingError ?? ChannelClosed<Element>()
  }

  /// Called without the lock: it reads plain words only, which may be of different moments.
  override func describe(_ operation: WaitReason.Operation) -> String {
    coroutine_sanitizer_begin_unseen()
    let (behind, count) = (machine.behind, machine.readerCount)
    coroutine_sanitizer_end_unseen()
    return WaitText.broadcast(
      name, isValue: isValue, limit: machine.limit, behind: behind, readers: count, operation)
  }

  /// In words, for users.
  var description: String {
    lock.withLock {
      WaitText.broadcast(
        name, isValue: isValue, limit: machine.limit, behind: machine.behind, readers: machine.readerCount)
    }
  }
}

// MARK: - Without waiting

extension BroadcastStorage {
  var isClosed: Bool { lock.withLock { machine.isClosed } }

  var readerCount: Int { lock.withLock { machine.readerCount } }

  /// How many wait to send, those included that have given up but not yet withdrawn. For tests.
  var senderCount: Int { lock.withLock { machine.senders.count } }

  /// The newest element, and its number.
  var newest: (element: Element, number: UInt64)? { lock.withLock { machine.newest.map { ($0, machine.end) } } }

  /// - Parameter number: only if the newest element is the one with this number; `nil`: in any case.
  func sendNow(_ element: Element, ifNewest number: UInt64? = nil) -> BroadcastStateMachine<Element>.SendAttempt {
    var (woken, released) = (ClaimedWaiters(), ReleasedElements<Element>())
    defer { withExtendedLifetime(released) {} }
    lock.lock()
    if let number, number != machine.end {
      lock.unlock()
      return .full
    }
    let attempt = machine.sendNow(element, &woken, &released)
    lock.unlock()
    woken.wakeAll()
    return attempt
  }

  func tryReceive(for reader: BroadcastReader<Element>) -> BroadcastStateMachine<Element>.ReceiveAttempt {
    var (woken, released) = (ClaimedWaiters(), ReleasedElements<Element>())
    defer { withExtendedLifetime(released) {} }
    lock.lock()
    let attempt = machine.receiveNow(for: reader, &woken, &released)
    lock.unlock()
    woken.wakeAll()
    return attempt
  }

  func subscribe() -> BroadcastReader<Element> { lock.withLock { machine.subscribe() } }

  func unsubscribe(_ reader: BroadcastReader<Element>) {
    var released = ReleasedElements<Element>()
    defer { withExtendedLifetime(released) {} }
    lock.lock()
    let woken = machine.unsubscribe(reader, &released)
    lock.unlock()
    woken.wakeAll()
  }

  func missedCount(of reader: BroadcastReader<Element>) -> Int { lock.withLock { reader.missedCount } }

  /// How many elements the reader has not taken.
  func count(of reader: BroadcastReader<Element>) -> Int { lock.withLock { Int(machine.end &- reader.position) } }

  /// Whether this was the first time.
  func close(throwing error: (any Error)?) -> Bool {
    lock.lock()
    if !machine.isClosed { closingError = error }
    let (isFirst, woken) = machine.close()
    lock.unlock()
    woken.wakeAll()
    return isFirst
  }
}

// MARK: - In coroutines

extension BroadcastStorage {
  /// `.event` with the element still there means that it is closed.
  func send(_ element: inout Element?, until deadline: UInt64) -> WakeCause {
    let core = CoroutineCore.running(for: "BroadcastChannel.send(_:)")
    var node = BroadcastNode(.coroutine(.passUnretained(core)), element: element.take())
    defer { element = node.element }
    return wait(core, .send, by: &node, until: deadline) {
      machine.send($0)
    } withdraw: {
      machine.withdrawSender($0)
      return .done
    }
  }

  /// `.event` without an element means that it is closed.
  func receive(
    _ element: inout Element?, for reader: BroadcastReader<Element>, until deadline: UInt64, _ operation: StaticString
  ) -> WakeCause {
    let core = CoroutineCore.running(for: operation)
    var node = BroadcastNode<Element>(.coroutine(.passUnretained(core)), element: nil)
    defer { element = node.element }
    return wait(core, .receive, by: &node, until: deadline) {
      machine.receive($0, for: reader)
    } withdraw: {
      machine.withdrawReceiver($0, of: reader)
      return .done
    }
  }
}

// MARK: - In async code

extension BroadcastStorage {
  /// As in a coroutine.
  nonisolated(nonsending) func send(_ element: inout Element?, until deadline: UInt64) async -> WakeCause {
    await wait(until: deadline) {
      BroadcastNode($0, element: element.take())
    } attempt: {
      machine.send($0)
    } withdraw: {
      machine.withdrawSender($0)
      return .done
    } afterwards: {
      element = $0.element.take()
    }
  }

  /// As in a coroutine.
  nonisolated(nonsending) func receive(
    _ element: inout Element?, for reader: BroadcastReader<Element>, until deadline: UInt64
  ) async -> WakeCause {
    await wait(until: deadline) {
      BroadcastNode<Element>($0, element: nil)
    } attempt: {
      machine.receive($0, for: reader)
    } withdraw: {
      machine.withdrawReceiver($0, of: reader)
      return .done
    } afterwards: {
      element = $0.element.take()
    }
  }
}

// MARK: - As a case of a select

extension BroadcastStorage {
  /// The caller holds `lock`.
  func attempt(_ node: UnsafeMutablePointer<BroadcastNode<Element>>, for reader: BroadcastReader<Element>) -> Attempt {
    var woken = ClaimedWaiters()
    switch machine.receiveNow(for: reader, &woken, &node.pointee.released) {
    case .received(let element):
      node.pointee.element = element
      return .wakeAll(woken)
    case .closed: return .done
    case .empty: return .wait
    }
  }

  /// The caller holds `lock`, under which it has tried in vain before.
  func enqueue(_ node: UnsafeMutablePointer<BroadcastNode<Element>>, for reader: BroadcastReader<Element>) {
    _ = machine.receive(node, for: reader)
  }

  /// The caller holds `lock`.
  func withdrawReceiver(_ node: UnsafeMutablePointer<BroadcastNode<Element>>, of reader: BroadcastReader<Element>) {
    machine.withdrawReceiver(node, of: reader)
  }

  /// The caller holds `lock`.
  func attemptToSend(_ node: UnsafeMutablePointer<BroadcastNode<Element>>) -> Attempt {
    guard let element = node.pointee.element else { return .done }
    var woken = ClaimedWaiters()
    switch machine.sendNow(element, &woken, &node.pointee.released) {
    case .closed: return .done
    case .full: return .wait
    case .sent:
      node.pointee.element = nil
      return .wakeAll(woken)
    }
  }

  /// The caller holds `lock`, under which it has tried in vain before.
  func enqueueSender(_ node: UnsafeMutablePointer<BroadcastNode<Element>>) { _ = machine.send(node) }

  /// The caller holds `lock`.
  func withdrawSender(_ node: UnsafeMutablePointer<BroadcastNode<Element>>) { machine.withdrawSender(node) }
}
