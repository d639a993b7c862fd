import CoroutineTestSupport
import Testing

@testable import Coroutine

@Suite(.ownThreads) struct AsyncGeneratorStateMachineTests {
  /// Two consumers and the body, each in any of the steps that are open to it: every order of five events.
  @Test func everySequenceKeepsTheOrderAndLosesNothing() {
    everySequence(of: 9, length: 5) { events in
      var model = Model()
      for event in events { model.step(event) }
      model.finish()
      #expect(model.isRight, "\(events)")
    }
  }
}

/// The machine, and what those who use it would do.
private struct Model {
  var machine = AsyncGeneratorStateMachine<Int>()
  var isRight = true

  enum Consumer { case idle, asked, waiting }
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

  /// 0...3: the first consumer asks, receives, gives up; 4...5: the second one; the rest: the body, a cancel.
  mutating func step(_ event: Int) {
    switch event {
    case 0, 1: ask(event)
    case 2, 3: receive(event - 2)
    case 4: giveUp(0)
    case 5: offer()
    case 6: awaitDemand()
    case 7: goOnUnasked()
    default: cancel()
    }
    settle()
    isRight = isRight && machine.checkInvariants()
  }

  private mutating func ask(_ index: Int) {
    guard consumers[index] == .idle else { return }
    consumers[index] = .asked
    switch machine.ask() {
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
    switch machine.receive(parties[index].node) {
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
      machine.stopAsking()
      consumers[index] = .idle
    } else if consumers[index] == .waiting, parties[index].waiter.giveUp() {
      _ = machine.withdraw(parties[index].node)
      consumers[index] = .idle
    }
  }

  private mutating func offer() {
    guard body == .running else { return }
    // None lies there that this one would take the place of.
    isRight = isRight && machine.element == nil
    _ = machine.offer(nextElement)
    nextElement += 1
    body = .offered
  }

  private mutating func awaitDemand() {
    guard body == .offered else { return }
    bodyParty = Party()
    let place = UnsafeMutableRawPointer(bodyParty.node).assumingMemoryBound(to: WaitNode.self)
    if case .wait = machine.awaitDemand(place) { body = .waiting } else { body = .running }
  }

  /// Its wait was ended by something else, and so its `yield` throws.
  private mutating func goOnUnasked() {
    guard body == .waiting, bodyParty.waiter.giveUp() else { return }
    _ = machine.withdrawBody()
    if machine.takeBack() != nil { takenBack += 1 }
    body = .running
  }

  private mutating func cancel() {
    guard !isCancelled else { return }
    isCancelled = true
    _ = machine.cancel()
    if body == .waiting, bodyParty.waiter.giveUp() { _ = machine.withdrawBody() }
  }

  /// Whoever's wait was ended goes on.
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

  /// Everybody goes on to the end: nobody may be left waiting for what lies there.
  mutating func finish() {
    for _ in 0..<4 where !isCancelled {
      for index in 0..<2 {
        ask(index)
        receive(index)
      }
      offer()
      settle()
      awaitDemand()
      settle()
    }
    isRight = isRight && machine.checkInvariants()
    // In their order, each at most once; all of them but for one that lies there still, unless somebody cancelled.
    isRight = isRight && received == received.sorted() && Set(received).count == received.count
    if !isCancelled { isRight = isRight && received.count + takenBack >= nextElement - 1 }
  }
}
