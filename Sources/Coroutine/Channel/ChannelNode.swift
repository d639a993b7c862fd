// SPDX-License-Identifier: Apache-2.0

/// One side of a channel's operation, on its own stack: a place in the queue, and the element, before or after the
/// hand-over.
@usableFromInline
struct ChannelNode<Element: ~Copyable>: ~Copyable, WaitingNode {
  @usableFromInline var wait: WaitNode
  /// A sender's element until it is taken; a receiver's once it has come. Guarded by the channel's lock while it waits.
  @usableFromInline var element: Element?
  /// The element that a sender's element has replaced in a channel of the newest: goes with the node, not under the
  /// lock.
  @usableFromInline var replaced: Element?

  @inlinable
  init(_ waiter: Waiter, element: consuming Element?, cause: WakeCause = .event) {
    wait = WaitNode(waiter, cause: cause)
    self.element = element
    replaced = nil
  }
}
