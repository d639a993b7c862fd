public import Context

/// A channel's lock, and what its state machine decides.
@usableFromInline
// Unchecked: the name is constant, and the lock guards the machine.
final class ChannelStorage<Element: Sendable>: Waitable, @unchecked Sendable {
  let name: String
  @exclusivity(unchecked) @usableFromInline var machine = ChannelStateMachine<Element>()

  init(name: String) {
    self.name = name
  }

  @inlinable
  func send(_ element: Element) throws(ChannelClosed<Element>) {
    let core = CoroutineCore.running(for: "Channel.send(_:)")
    var node = ChannelNode(.coroutine(.passUnretained(core)), element: element)
    withUnsafeMutablePointer(to: &node) { node in
      lock.lock()
      let action = machine.send(node)
      if case .wait = action { core.park(.send, at: self) } else { lock.unlock() }
      if case .wake(let receiver) = action { receiver.wake() }
    }
    // Taken out of the node by a receiver, now or meanwhile; or nobody will.
    if let unsent = node.element { throw ChannelClosed(unsent: unsent) }
  }

  @inlinable
  func receive() -> Element? {
    let core = CoroutineCore.running(for: "Channel.receive()")
    var node = ChannelNode<Element>(.coroutine(.passUnretained(core)), element: nil)
    withUnsafeMutablePointer(to: &node) { node in
      lock.lock()
      let action = machine.receive(node)
      if case .wait = action { core.park(.receive, at: self) } else { lock.unlock() }
      if case .wake(let sender) = action { sender.wake() }
    }
    return node.element
  }

  @inlinable
  func send(_ element: Element) async throws(ChannelClosed<Element>) {
    let unsent = await operate(element) { machine, node in machine.send(node) }
    if let unsent { throw ChannelClosed(unsent: unsent) }
  }

  @inlinable
  func receive() async -> Element? {
    await operate(nil) { machine, node in machine.receive(node) }
  }

  /// One operation of `async` code: its node lies on the heap, since the task has no stack to wait on. Returns what is in
  /// the node afterwards.
  @inlinable
  func operate(
    _ element: Element?,
    _ event: (inout ChannelStateMachine<Element>, UnsafeMutablePointer<ChannelNode<Element>>) -> ChannelAction
  ) async -> Element? {
    let node = UnsafeMutablePointer<ChannelNode<Element>>.allocate(capacity: 1)
    await withUnsafeContinuation { (continuation: UnsafeContinuation<Void, Never>) in
      node.initialize(to: ChannelNode(.task(continuation), element: element))
      lock.lock()
      let action = event(&machine, node)
      lock.unlock()
      switch action {
      case .wait: break
      case .done: continuation.resume()
      case .wake(let other):
        continuation.resume()
        other.wake()
      }
    }
    let result = node.pointee.element
    node.deinitialize(count: 1)
    node.deallocate()
    return result
  }

  func close() {
    lock.lock()
    let (senders, receivers) = machine.close()
    lock.unlock()
    senders.wakeAll()
    receivers.wakeAll()
  }

  var isClosed: Bool {
    lock.lock()
    defer { lock.unlock() }
    return machine.isClosed
  }

  override package func describe(_ operation: WaitReason.Operation) -> String {
    "\(operation) on " + (name.isEmpty ? "an unnamed channel" : "channel \"\(name)\"")
  }
}
