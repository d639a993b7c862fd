import CoroutineTestSupport
import Testing

@testable import Coroutine

@Suite(.ownThreads) struct AsyncGeneratorStateMachineTests {
  /// Two consumers, one of which selects too, and the body, each in any of the steps that are open to it: every order of five
  /// events.
  @Test func everySequenceKeepsTheOrderAndLosesNothing() {
    everySequence(of: 11, length: amount(5, sanitized: 4)) { events in
      var model = Model()
      for event in events { model.step(event) }
      model.finish()
      #expect(model.isRight, "\(events)")
    }
  }
}

/// The machine, and what its consumers and its body would do.
private struct Model {
  var machine = AsyncGeneratorStateMachine<Int>()
  var isRight = true

  enum Consumer { case idle, asked, looked, waiting }
  final class Party {
    let waiter = ModelWaiter()
    let node = UnsafeMutablePointer<ChannelNode<Int>>.allocate(capacity: 1)
    init() { node.initialize(to: ChannelNode(waiter.waiter, element: nil)) }
    deinit { node.deinitialize(count: 1).deallocate() }
  }
  enum Body { case unborn, running, offered, waiting, ended }

  var consumers = [Consumer.idle, .idle]
  var parties: [Party] = [Party(), Party()]
  var body = Body.unborn
  var bodyParty = Party()
  var nextElement = 0
  var received: [Int] = []
  var takenBack = 0
  var isCancelled = false

  /// 0, 2, 4: the first consumer asks, receives, gives up; 1, 3: the second one; 5...7: the body; 8: the first one selects (it
  /// looks, and then waits, in two steps); 9: it looks in a select that chooses something else; the rest: a cancel.
  mutating func step(_ event: Int) {
    switch event {
    case 0, 1: ask(event)
    case 2, 3: receive(event - 2)
    case 4: giveUp(0)
    case 5: offer()
    case 6: awaitDemand()
    case 7: goOnUnasked()
    case 8: select(0)
    case 9: want()
    default: cancel()
    }
    settle()
    isRight = isRight && machine.checkInvariants()
  }

  private mutating func ask(_ index: Int) {
    guard consumers[index] == .idle else { return }
    consumers[index] = .asked
    letBodyGoOn(machine.ask())
  }

  private mutating func want() { letBodyGoOn(machine.want()) }

  private mutating func letBodyGoOn(_ action: AsyncGeneratorStateMachine<Int>.AskAction) {
    switch action {
    case .none: break
    case .begin:
      isRight = isRight && body == .unborn && !isCancelled
      body = .running
    case .wake: isRight = isRight && body == .waiting
    }
  }

  private mutating func receive(_ index: Int) {
    guard consumers[index] == .asked else { return }
    parties[index] = Party()
    receive(index, machine.receive(parties[index].node))
  }

  private mutating func select(_ index: Int) {
    let hasLooked = consumers[index] == .looked
    guard hasLooked || consumers[index] == .idle else { return }
    if !hasLooked {
      want()
      parties[index] = Party()
    }
    let attempt = machine.receiveNow(parties[index].node)
    if case .wait = attempt {
      consumers[index] = .looked
      guard hasLooked else { return }
      // Another consumer may have taken what it has looked for.
      guard machine.selectMayWait else { return want() }
      machine.wait(parties[index].node)
    }
    receive(index, attempt)
  }

  private mutating func receive(_ index: Int, _ attempt: Attempt) {
    switch attempt {
    case .wait: consumers[index] = .waiting
    case .wake:
      isRight = isRight && body == .waiting
      fallthrough
    default:
      consumers[index] = .idle
      if let element = parties[index].node.pointee.element {
        received.append(element)
      } else {
        isRight = isRight && machine.isEnded
      }
    }
  }

  private mutating func giveUp(_ index: Int) {
    if consumers[index] == .asked {
      machine.withdrawAsker()
      consumers[index] = .idle
    } else if consumers[index] == .looked {
      consumers[index] = .idle
    } else if consumers[index] == .waiting, parties[index].waiter.giveUp() {
      _ = machine.withdraw(parties[index].node)
      consumers[index] = .idle
    }
  }

  private mutating func offer() {
    guard body == .running else { return }
    // No earlier element is there, which this one would replace.
    isRight = isRight && machine.element == nil
    _ = machine.offer(nextElement)
    nextElement += 1
    body = .offered
  }

  private mutating func awaitDemand() {
    guard body == .offered else { return }
    bodyParty = Party()
    let waitNode = UnsafeMutableRawPointer(bodyParty.node).assumingMemoryBound(to: WaitNode.self)
    if case .wait = machine.awaitDemand(waitNode) { body = .waiting } else { body = .running }
  }

  /// Something else has ended the body's wait, so its `yield` throws.
  private mutating func goOnUnasked() {
    guard body == .waiting, bodyParty.waiter.giveUp() else { return }
    _ = machine.withdrawBody()
    if machine.takeBack() != nil { takenBack += 1 }
    body = .running
  }

  private mutating func cancel() {
    guard !isCancelled else { return }
    isCancelled = true
    // It ends the body's wait by itself: inside of a shield the coroutine's cancel does not.
    let ended = machine.cancel()
    isRight = isRight && (ended.body != nil) == (body == .waiting) && machine.body == nil
  }

  /// Lets each party whose wait was ended go on.
  private mutating func settle() {
    for index in 0..<2 where consumers[index] == .waiting && parties[index].waiter.cause != nil {
      consumers[index] = .idle
      if let element = parties[index].node.pointee.element {
        received.append(element)
      } else {
        isRight = isRight && machine.isEnded
      }
    }
    if body == .waiting, bodyParty.waiter.cause != nil { body = .running }
  }

  /// Lets all parties go on to the end. None may be left waiting for an element that is there.
  mutating func finish() {
    for _ in 0..<4 where !isCancelled {
      for index in 0..<2 {
        if consumers[index] == .looked { select(index) }
        ask(index)
        receive(index)
      }
      offer()
      settle()
      awaitDemand()
      settle()
    }
    isRight = isRight && machine.checkInvariants()
    // In order, and each at most once. Without a cancel all are received, except for one that may still be there.
    isRight = isRight && received == received.sorted() && Set(received).count == received.count
    if !isCancelled { isRight = isRight && received.count + takenBack >= nextElement - 1 }
  }
}
