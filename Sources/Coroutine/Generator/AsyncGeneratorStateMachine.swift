// SPDX-License-Identifier: Apache-2.0

/// Which consumers ask an `AsyncGenerator`, and whether its body may go on. Pure: no lock, no switch.
///
/// An element takes two steps on either side. A consumer *asks*, which lets the body go on, and then receives. The body
/// offers an element, and then waits until a consumer wants another. Between the two steps of one side the other may be
/// anywhere.
///
/// Invariants: the body waits only while no consumer wants an element, or the last one was not taken (`mayGoOn` is
/// false). No consumer waits for an element while one lies there, or after the end.
@usableFromInline
struct AsyncGeneratorStateMachine<Element> {
  @usableFromInline typealias Node = UnsafeMutablePointer<ChannelNode<Element>>

  /// A select has looked for an element, so the body may go on to the next one. The select may choose another case.
  @usableFromInline private(set) var isWanted = false
  /// The consumers that have asked, and do not receive yet.
  @usableFromInline private(set) var asking = 0
  /// The consumers that wait for an element.
  @usableFromInline private(set) var consumers = WaitQueue<ChannelNode<Element>>()
  /// An element that was offered while no consumer waited.
  @usableFromInline private(set) var element: Element?
  /// The body, while it waits.
  @usableFromInline private(set) var body: UnsafeMutablePointer<WaitNode>?
  @usableFromInline private(set) var hasBegun = false
  /// The body has ended, or no consumer wants its elements any more.
  @usableFromInline private(set) var isEnded = false
  /// No consumer wants its elements any more.
  @usableFromInline private(set) var isCancelled = false
  /// What the body threw, until a consumer gets it.
  @usableFromInline private(set) var failure: (any Error)?

  @inlinable
  init() {}

  @inlinable var mayGoOn: Bool { (isWanted || asking > 0 || !consumers.isEmpty) && element == nil }

  @usableFromInline
  enum AskAction {
    case none
    case begin
    case wake(Waiter)
  }

  /// A consumer is about to receive.
  @inlinable
  mutating func ask() -> AskAction {
    asking += 1
    return letBodyGoOn()
  }

  /// A select looks for an element: then it either receives, or waits, or leaves the element to the next consumer.
  @inlinable
  mutating func want() -> AskAction {
    guard element == nil else { return .none }
    isWanted = true
    return letBodyGoOn()
  }

  @inlinable
  mutating func letBodyGoOn() -> AskAction {
    guard !isEnded else { return .none }
    guard hasBegun else {
      hasBegun = true
      return .begin
    }
    return wakeBody().map(AskAction.wake) ?? .none
  }

  /// A consumer that has asked receives into `node`. Over with nothing there: it was the end.
  @inlinable
  mutating func receive(_ node: Node) -> Attempt {
    asking -= 1
    let attempt = receiveNow(node)
    if case .wait = attempt { wait(node) }
    return attempt
  }

  /// A consumer receives into `node`, if it need not wait. Over with nothing there: it was the end.
  @inlinable
  mutating func receiveNow(_ node: Node) -> Attempt {
    if let element = element.take() {
      node.pointee.element = element
      return wakeBody().map(Attempt.wake) ?? .done
    }
    return isEnded ? .done : .wait
  }

  /// Whether a select that has found no element may wait for one. Else another consumer has taken the one that it had
  /// asked for, and the body waits until it is wanted again.
  @inlinable
  var selectMayWait: Bool { body == nil }

  /// A consumer waits for an element: none is there, and it is not the end.
  @inlinable
  mutating func wait(_ node: Node) { consumers.append(node) }

  /// A consumer that has asked gives up before it receives.
  @inlinable
  mutating func withdrawAsker() { asking -= 1 }

  /// A consumer that waits for an element gives up.
  @inlinable
  mutating func withdraw(_ node: Node) -> Attempt {
    consumers.remove(node)
    return .done
  }

  /// The body has an element. Returns the consumer to wake.
  @inlinable
  mutating func offer(_ offered: Element) -> Waiter? {
    guard !isEnded else { return nil }
    isWanted = false
    guard let consumer = consumers.popClaimed() else {
      element = offered
      return nil
    }
    consumer.pointee.element = offered
    return consumer.pointee.wait.waiter
  }

  /// The body waits until a consumer wants an element.
  @inlinable
  mutating func awaitDemand(_ node: UnsafeMutablePointer<WaitNode>) -> Attempt {
    guard !isEnded, !mayGoOn else { return .done }
    body = node
    return .wait
  }

  /// The body gives up waiting.
  @inlinable
  mutating func withdrawBody() -> Attempt {
    body = nil
    return .done
  }

  /// The body goes on although no consumer has asked. Returns the element that it offered last, if no consumer has
  /// taken it: another one is going to lie there.
  @inlinable
  mutating func takeBack() -> Element? { element.take() }

  /// Lets the body go on, if it may. Returns the body's waiter, which the caller wakes.
  @inlinable
  mutating func wakeBody() -> Waiter? {
    guard mayGoOn else { return nil }
    return claimBody()
  }

  /// Ends the body's wait, if it waits. Returns its waiter, which the caller wakes.
  @inlinable
  mutating func claimBody() -> Waiter? {
    guard let node = body.take(), node.pointee.waiter.claim(node.pointee.cause) else { return nil }
    return node.pointee.waiter
  }

  /// The body has ended. Returns the consumers whose wait is over.
  @inlinable
  mutating func bodyEnded(_ error: (any Error)?) -> ClaimedWaiters {
    if let error { failure = error }
    isEnded = true
    return consumers.claimAll()
  }

  /// No consumer wants an element any more. Returns the consumers whose wait is over, the body's waiter if it waits in its
  /// `yield`, and the element that is lost. Its coroutine's cancel does not end that wait inside of a shield.
  @inlinable
  mutating func cancel() -> (consumers: ClaimedWaiters, body: Waiter?, lost: Element?) {
    isEnded = true
    isCancelled = true
    return (consumers.claimAll(), claimBody(), element.take())
  }

  @inlinable
  mutating func takeFailure() -> (any Error)? { failure.take() }

  /// Whether the invariants hold; for tests.
  func checkInvariants() -> Bool {
    (body == nil || isEnded || !mayGoOn) && (consumers.isEmpty || element == nil && !isEnded)
  }
}
