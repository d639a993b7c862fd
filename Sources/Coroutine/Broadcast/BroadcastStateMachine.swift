// SPDX-License-Identifier: Apache-2.0

/// The elements that were sent to many, the position of each reader, and the waiters. Pure: no lock, no switch.
///
/// Elements are numbered. The buffer holds those from `base` on: those that some reader has not read yet, and the last
/// `replay` ones, for readers that come later. Each element counts the readers that have still to read it.
///
/// Invariants:
/// - No reader is more than `limit` elements behind.
/// - A reader has waiters only where it has read all; senders wait only where the slowest reader is `limit` behind.
/// - The first of the kept elements has a reader that has not read it.
/// - No sender and no receiver waits when it is closed.
///
/// A queue may also have waiters whose wait was ended otherwise and that have not withdrawn yet.
struct BroadcastStateMachine<Element: Sendable>: ~Copyable {
  typealias Node = UnsafeMutablePointer<BroadcastNode<Element>>

  /// How far a reader may be behind.
  let limit: Int
  /// How many elements a new reader finds.
  let replay: Int
  /// Whether a sender that finds the slowest reader `limit` behind makes it skip an element, and does not wait.
  let dropsOldest: Bool
  private(set) var isClosed = false
  /// How far the slowest reader is behind.
  private(set) var behind = 0
  private var buffer = ElementRing<Slot>()
  /// The number of the first element in the buffer.
  private var base: UInt64 = 0
  private(set) var readers: [BroadcastReader<Element>] = []
  /// How many those are. A plain word, that debuggers may read without the lock.
  private(set) var readerCount = 0
  private(set) var senders = WaitQueue<BroadcastNode<Element>>()

  private struct Slot {
    let element: Element
    /// How many have not read it.
    var unread: Int
  }

  /// - Parameters:
  ///   - limit: at least 1.
  ///   - replay: at most `limit`.
  init(limit: Int, replay: Int, dropsOldest: Bool) {
    self.limit = limit
    self.replay = replay
    self.dropsOldest = dropsOldest
  }

  /// The number of the next element.
  private(set) var end: UInt64 {
    get { base &+ UInt64(buffer.count) }
    set { base = newValue &- UInt64(buffer.count) }
  }
  /// The number of the first element that a reader has not read; `end` if all have read all.
  private var firstUnread: UInt64 { end &- UInt64(behind) }

  /// The newest element, if it is still there: always where there is a replay, and something was sent.
  var newest: Element? { buffer.count == 0 ? nil : buffer.slot(buffer.count - 1).pointee.element }

  private func slot(_ number: UInt64) -> UnsafeMutablePointer<Slot> { buffer.slot(Int(number &- base)) }
}

// MARK: - Sending

extension BroadcastStateMachine {
  /// The outcome for an element that a sender offers without waiting.
  enum SendAttempt { case sent, closed, full }

  /// An element is sent, if its sender need not wait. Appends the waiters to wake to `woken`, and the dropped elements
  /// to `released`.
  mutating func sendNow(
    _ element: Element, _ woken: inout ClaimedWaiters, _ released: inout ReleasedElements<Element>
  ) -> SendAttempt {
    if isClosed { return .closed }
    if behind == limit {
      guard dropsOldest else { return .full }
      skipOldest()
    }
    append(element, &woken)
    trim(&released)
    return .sent
  }

  /// A sender sends what is in `node`, which is taken out of it. `.done` with the element still there: it is closed.
  mutating func send(_ node: Node) -> Attempt {
    guard let element = node.pointee.element else { return .done }
    var woken = ClaimedWaiters()
    switch sendNow(element, &woken, &node.pointee.released) {
    case .closed: return .done
    case .full:
      senders.append(node)
      return .wait
    case .sent:
      node.pointee.element = nil
      return .wakeAll(woken)
    }
  }

  /// A sender gives up.
  mutating func withdrawSender(_ node: Node) { senders.remove(node) }

  /// The readers that have not read the oldest element that all must read never will.
  private mutating func skipOldest() {
    let oldest = firstUnread
    for reader in readers where reader.position == oldest { reader.skip() }
    slot(oldest).pointee.unread = 0
    advanceOverRead()
  }

  private mutating func append(_ element: Element, _ woken: inout ClaimedWaiters) {
    let number = end
    var unread = 0
    for reader in readers {
      if reader.position == number, let waiter = reader.waiters.popClaimed() {
        waiter.pointee.element = element
        reader.position &+= 1
        woken.append(waiter)
      } else {
        unread += 1
      }
    }
    if unread > 0 || replay > 0 {
      buffer.append(Slot(element: element, unread: unread))
      if unread > 0 || behind > 0 { behind += 1 }
    } else {
      // No reader needs it any more; then the buffer is empty.
      end &+= 1
    }
  }

  /// A reader has read an element, or will not: releases the elements that no reader needs, and lets in senders that
  /// wait for room.
  private mutating func makeRoom(_ woken: inout ClaimedWaiters, _ released: inout ReleasedElements<Element>) {
    advanceOverRead()
    trim(&released)
    while behind < limit, !senders.isEmpty, let sender = senders.popClaimed() {
      guard let element = sender.pointee.element.take() else { fatalError("a sender waits with no element") }
      append(element, &woken)
      woken.append(sender)
    }
    trim(&released)
  }

  /// Those that all readers have read are dropped.
  private mutating func advanceOverRead() {
    while behind > 0, slot(firstUnread).pointee.unread == 0 { behind -= 1 }
  }

  /// Lets go of what no reader needs.
  private mutating func trim(_ released: inout ReleasedElements<Element>) {
    while buffer.count > max(behind, replay) {
      released.append(buffer.removeFirst().element)
      base &+= 1
    }
  }
}

// MARK: - Receiving

extension BroadcastStateMachine {
  /// The outcome of a receive that does not wait.
  enum ReceiveAttempt {
    case received(Element)
    case closed
    case empty
  }

  /// A reader begins: with the elements that are replayed, and then all later ones.
  mutating func subscribe() -> BroadcastReader<Element> {
    let count = min(replay, buffer.count)
    let reader = BroadcastReader<Element>(position: end &- UInt64(count))
    for number in reader.position..<end { slot(number).pointee.unread += 1 }
    behind = max(behind, count)
    reader.index = readers.count
    readers.append(reader)
    readerCount = readers.count
    return reader
  }

  /// A reader at which no receiver waits goes. Returns the waiters to wake.
  mutating func unsubscribe(
    _ reader: BroadcastReader<Element>, _ released: inout ReleasedElements<Element>
  ) -> ClaimedWaiters {
    for number in reader.position..<end { slot(number).pointee.unread -= 1 }
    // The last one takes its slot: they are in no order.
    readers.swapAt(reader.index, readers.count - 1)
    readers[reader.index].index = reader.index
    readers.removeLast()
    readerCount = readers.count
    var woken = ClaimedWaiters()
    makeRoom(&woken, &released)
    return woken
  }

  /// A receiver takes the next element of `reader`, if it is there.
  mutating func receiveNow(
    for reader: BroadcastReader<Element>, _ woken: inout ClaimedWaiters, _ released: inout ReleasedElements<Element>
  ) -> ReceiveAttempt {
    guard reader.position != end else { return isClosed ? .closed : .empty }
    let entry = slot(reader.position)
    let element = entry.pointee.element
    entry.pointee.unread -= 1
    reader.position &+= 1
    if entry.pointee.unread == 0 { makeRoom(&woken, &released) }
    return .received(element)
  }

  /// A receiver takes an element into `node`. `.done` with nothing there: it is closed.
  mutating func receive(_ node: Node, for reader: BroadcastReader<Element>) -> Attempt {
    var woken = ClaimedWaiters()
    switch receiveNow(for: reader, &woken, &node.pointee.released) {
    case .received(let element):
      node.pointee.element = element
      return .wakeAll(woken)
    case .closed: return .done
    case .empty:
      reader.waiters.append(node)
      return .wait
    }
  }

  /// A receiver gives up.
  mutating func withdrawReceiver(_ node: Node, of reader: BroadcastReader<Element>) { reader.waiters.remove(node) }
}

// MARK: - Closing

extension BroadcastStateMachine {
  /// No more elements. Returns whether it was open, and the waiters whose wait is over; senders keep their elements.
  mutating func close() -> (isFirst: Bool, woken: ClaimedWaiters) {
    let isFirst = !isClosed
    isClosed = true
    var woken = ClaimedWaiters()
    while let sender = senders.popClaimed() { woken.append(sender) }
    for reader in readers {
      while let receiver = reader.waiters.popClaimed() { woken.append(receiver) }
    }
    return (isFirst, woken)
  }

  /// Whether the invariants hold, as far as they can be seen without knowing which waiters have given up; for tests.
  func checkInvariants() -> Bool {
    guard behind <= limit, readerCount == readers.count, buffer.count <= max(limit, replay), buffer.count >= behind
    else { return false }
    if isClosed, !senders.isEmpty || readers.contains(where: { !$0.waiters.isEmpty }) { return false }
    if behind > 0, slot(firstUnread).pointee.unread == 0 { return false }
    for number in base..<end {
      // Each reader has read a part from the beginning.
      guard slot(number).pointee.unread == readers.count(where: { $0.position <= number }) else { return false }
    }
    guard readers.enumerated().allSatisfy({ $0 == $1.index }) else { return false }
    return readers.allSatisfy { $0.position >= firstUnread && ($0.position == end || $0.waiters.isEmpty) }
  }
}

// MARK: - Parts

/// The position of one reader. Guarded by the lock of what it reads.
// Unchecked: guarded by that lock.
final class BroadcastReader<Element: Sendable>: HiddenFromMirrors, @unchecked Sendable {
  /// The number of the next element.
  @exclusivity(unchecked) var position: UInt64
  /// How many it had to skip, because it was too slow.
  @exclusivity(unchecked) private(set) var missedCount = 0
  @exclusivity(unchecked) var waiters = WaitQueue<BroadcastNode<Element>>()
  /// Its slot among the readers.
  @exclusivity(unchecked) fileprivate(set) var index = 0

  init(position: UInt64) {
    self.position = position
  }

  func skip() {
    position &+= 1
    missedCount += 1
  }
}

/// One side of an operation: a place in a queue, and what is handed over.
struct BroadcastNode<Element>: WaitingNode {
  var wait: WaitNode
  /// A sender's element until it is sent; a receiver's once it has come. Guarded by the lock while it waits.
  var element: Element?
  var released = ReleasedElements<Element>()

  init(_ waiter: Waiter, element: Element?, cause: WakeCause = .event) {
    wait = WaitNode(waiter, cause: cause)
    self.element = element
  }
}

/// Elements that no reader needs any more. They go where no lock is held: their end may run code of the user's.
struct ReleasedElements<Element> {
  /// Mostly it is one.
  private var first: Element?
  private var others: [Element] = []

  var isEmpty: Bool { first == nil }

  mutating func append(_ element: Element) {
    if first == nil { first = element } else { others.append(element) }
  }
}
