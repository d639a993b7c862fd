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
  func send(_ element: Element) throws {
    let core = CoroutineCore.running(for: "Channel.send(_:)")
    var node = ChannelNode(.coroutine(.passUnretained(core)), element: element)
    let cause = withUnsafeMutablePointer(to: &node) { node in
      wait(core, .send) {
        machine.send(node)
      } withdraw: {
        machine.withdrawSender(node)
      }
    }
    if cause != .event { throw CancellationError() }
    // Taken out of the node by a receiver, now or meanwhile; or nobody will.
    if let unsent = node.element { throw ChannelClosed(unsent: unsent) }
  }

  /// The next element; `nil` after the end.
  @inlinable
  func receive() throws(CancellationError) -> Element? {
    let core = CoroutineCore.running(for: "Channel.receive()")
    var node = ChannelNode<Element>(.coroutine(.passUnretained(core)), element: nil)
    let cause = withUnsafeMutablePointer(to: &node) { node in
      wait(core, .receive) {
        machine.receive(node)
      } withdraw: {
        machine.withdrawReceiver(node)
      }
    }
    if cause != .event { throw CancellationError() }
    return node.element
  }

  // The node of `async` code lies on the heap, since a task has no stack to wait on.

  @inlinable
  nonisolated(nonsending) func send(_ element: Element) async throws {
    let task = WaitingTask()
    let node = UnsafeMutablePointer<ChannelNode<Element>>.allocate(capacity: 1)
    node.initialize(to: ChannelNode(.task(.passUnretained(task)), element: element))
    defer { node.deinitialize(count: 1).deallocate() }
    let cause = await wait(task) {
      machine.send(node)
    } withdraw: {
      machine.withdrawSender(node)
    }
    if cause != .event { throw CancellationError() }
    if let unsent = node.pointee.element { throw ChannelClosed(unsent: unsent) }
  }

  /// The next element; `nil` after the end.
  @inlinable
  nonisolated(nonsending) func receive() async throws(CancellationError) -> Element? {
    let task = WaitingTask()
    let node = UnsafeMutablePointer<ChannelNode<Element>>.allocate(capacity: 1)
    node.initialize(to: ChannelNode(.task(.passUnretained(task)), element: nil))
    defer { node.deinitialize(count: 1).deallocate() }
    let cause = await wait(task) {
      machine.receive(node)
    } withdraw: {
      machine.withdrawReceiver(node)
    }
    if cause != .event { throw CancellationError() }
    return node.pointee.element
  }

  func close() {
    lock.lock()
    let (senders, receivers) = machine.close()
    lock.unlock()
    senders.wakeAll()
    receivers.wakeAll()
  }

  var isClosed: Bool {
    lock.withLock { machine.isClosed }
  }

  override package func describe(_ operation: WaitReason.Operation) -> String {
    "\(operation) on " + (name.isEmpty ? "an unnamed channel" : "channel \"\(name)\"")
  }
}
