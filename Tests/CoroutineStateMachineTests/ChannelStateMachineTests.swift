import CoroutineTestSupport
import Testing

@testable import Coroutine

/// The channel's state machine against a model of arrays: every sequence of events up to a length, at each capacity.
@Suite(.ownThreads) struct ChannelStateMachineTests {
  @Test(arguments: [.rendezvous, .buffered(1), .buffered(2), .unbounded, .conflated, .newest(2)] as [ChannelCapacity])
  func itDoesWhatTheModelDoes(capacity: ChannelCapacity) {
    var failures: [[Int]] = []
    // Longer without the last two, which differ from the first two only in that they don't wait.
    let kinds = Comparison.eventCount
    for (count, length) in [(kinds, amount(5, sanitized: 4)), (kinds - 2, amount(6, debug: 5, sanitized: 4))] {
      everySequence(of: count, length: length) { events in
        let comparison = Comparison(capacity)
        for (number, event) in events.enumerated() { comparison.perform(event, number: number) }
        comparison.finish()
        if !comparison.isEqual { failures.append(events) }
      }
    }
    #expect(failures.isEmpty, "\(failures.count) sequences, such as \(failures.first ?? [])")
  }

  @Test func theRingKeepsItsOrderWhereverItBeginsAndHoweverItGrows() {
    for start in 0..<9 {
      var ring = ElementRing<Int>()
      var (next, expected) = (0, 0)
      for _ in 0..<start {
        ring.append(next)
        next += 1
        #expect(ring.removeFirst() == expected)
        expected += 1
      }
      for _ in 0..<40 {
        ring.append(next)
        next += 1
      }
      #expect(ring.count == 40)
      for _ in 0..<40 {
        #expect(ring.removeFirst() == expected)
        expected += 1
      }
      #expect(ring.count == 0)
    }
  }

  @Test func aBurstDoesNotStayInMemory() {
    var ring = ElementRing<Int>()
    for element in 0..<100_000 { ring.append(element) }
    for element in 0..<99_999 where ring.removeFirst() != element { Issue.record("out of order") }
    #expect(ring.mask >= 99_999)
    let isReleased = ring.isReleasedByNext
    #expect(isReleased)
    #expect(ring.removeFirst() == 99_999)
    #expect(ring.mask == -1 && ring.slots == nil)
    ring.append(1)
    #expect(ring.removeFirst() == 1 && ring.mask == 7)
  }
}

/// A machine and its model, to which the same events happen.
private final class Comparison {
  typealias Machine = ChannelStateMachine<Int>

  /// A sender or a receiver.
  final class Party {
    let model = ModelWaiter()
    let node: Machine.Node
    /// The element that must be in the node, by the model.
    var element: Int?
    /// What must have ended the wait, by the model.
    var cause: WakeCause?
    /// Whether it has given up, but not withdrawn.
    var lingers = false

    init(_ element: Int?) {
      node = .allocate(capacity: 1)
      node.initialize(to: ChannelNode(model.waiter, element: element))
      self.element = element
    }

    deinit { node.deinitialize(count: 1).deallocate() }
  }

  private var machine: Machine
  private let limit: Int
  private let isConflated: Bool
  // The model. Its queues have the waiters, and nothing else.
  private var buffer: [Int] = []
  private var senders: [Party] = []
  private var receivers: [Party] = []
  private var isClosed = false

  private var parties: [(party: Party, isSender: Bool)] = []
  private(set) var isEqual = true

  init(_ capacity: ChannelCapacity) {
    machine = Machine(capacity: capacity)
    isConflated =
      switch capacity {
      case .conflated, .newest: true
      case .rendezvous, .buffered, .unbounded: false
      }
    limit =
      switch capacity {
      case .rendezvous: 0
      case .buffered(let count): count
      case .unbounded: .max
      case .conflated: 1
      case .newest(let count): count
      }
  }

  private func check(_ condition: Bool) {
    if !condition { isEqual = false }
  }

  static let eventCount = 8

  func perform(_ event: Int, number: Int) {
    switch event {
    case 0: send(number)
    case 1: receive()
    case 2: receiveTwo()
    case 3: close()
    case 4: giveUp(&senders, withdraws: number.isMultiple(of: 2)) { machine.withdrawSender($0) }
    case 5: giveUp(&receivers, withdraws: number.isMultiple(of: 2)) { machine.withdrawReceiver($0) }
    case 6: trySend(number)
    default: tryReceive()
    }
    compare()
  }

  private func compare() {
    check(machine.checkInvariants())
    check(machine.buffer.count == buffer.count && machine.isClosed == isClosed)
    for (party, _) in parties {
      check(party.node.pointee.element == party.element && party.model.cause == party.cause)
    }
  }

  // MARK: Events

  private func send(_ element: Int) {
    let party = Party(element)
    parties.append((party, true))
    switch (machine.send(party.node), modelSend(element)) {
    case (.done, .buffered): party.element = nil
    case (.done, .replaced(let older)):
      party.element = nil
      check(party.node.pointee.replaced == older)
    case (.done, .closed): break
    case (.wake(let waiter), .handed(let receiver)):
      check(waiter.isSame(as: receiver))
      party.element = nil
    case (.wait, .full): senders.append(party)
    default: check(false)
    }
  }

  /// First through the buffer alone, as coroutines do: that has to do the same, or nothing.
  private func trySend(_ element: Int) {
    var unsent: Int? = element
    let expected = modelSend(element)
    if machine.appendBuffered(element) {
      if case .buffered = expected { return }
      return check(false)
    }
    switch (machine.sendNow(&unsent), expected) {
    case (.buffered, .buffered): check(unsent == nil)
    case (.replaced, .replaced(let older)): check(unsent == older)
    case (.closed, .closed), (.full, .full): check(unsent == element)
    case (.handed(let waiter), .handed(let receiver)): check(waiter.isSame(as: receiver) && unsent == nil)
    default: check(false)
    }
  }

  private enum ModelSend {
    case buffered
    case replaced(Int)
    case handed(Party)
    case closed
    case full
  }

  private func modelSend(_ element: Int) -> ModelSend {
    if isClosed { return .closed }
    if !receivers.isEmpty {
      let receiver = receivers.removeFirst()
      receiver.element = element
      receiver.cause = .event
      return .handed(receiver)
    }
    if buffer.count < limit {
      buffer.append(element)
      return .buffered
    }
    guard isConflated else { return .full }
    defer { buffer.append(element) }
    return .replaced(buffer.removeFirst())
  }

  private func receive() {
    let party = Party(nil)
    parties.append((party, false))
    let expected = modelReceive()
    switch (machine.receive(party.node), expected.element, expected.admitted) {
    case (.done, let element?, nil): party.element = element
    case (.wake(let waiter), let element?, let sender?):
      party.element = element
      check(waiter.isSame(as: sender))
    case (.done, nil, nil): check(isClosed)
    case (.wait, nil, nil):
      check(!isClosed)
      receivers.append(party)
    default: check(false)
    }
  }

  /// Like `trySend`.
  private func tryReceive() {
    var element: Int?
    let expected = modelReceive()
    if let element = machine.takeBuffered() { return check(element == expected.element && expected.admitted == nil) }
    switch (machine.receiveNow(&element), expected.admitted) {
    case (.received, nil): check(element != nil)
    case (.admitted(let waiter), let sender?): check(element != nil && waiter.isSame(as: sender))
    case (.closed, nil): check(isClosed && element == nil)
    case (.empty, nil): check(!isClosed && element == nil)
    default: check(false)
    }
    check(element == expected.element)
  }

  private func receiveTwo() {
    var elements: [Int] = []
    var admitted = ClaimedWaiters()
    machine.receive(into: &elements, upTo: 2, &admitted)
    let expected = (0..<2).map { _ in modelReceive() }
    check(elements == expected.compactMap(\.element))
    check(admitted.nodes.map { Machine.Node(at: $0) } == expected.compactMap(\.admitted?.node))
  }

  private func modelReceive() -> (element: Int?, admitted: Party?) {
    let admitted = senders.isEmpty ? nil : senders.removeFirst()
    if let admitted, let element = admitted.element {
      buffer.append(element)
      admitted.element = nil
      admitted.cause = .event
    }
    return (buffer.isEmpty ? nil : buffer.removeFirst(), admitted)
  }

  private func close() {
    let result = machine.close()
    check(result.isFirst == !isClosed)
    check(result.senders.nodes.map { Machine.Node(at: $0) } == senders.map(\.node))
    check(result.receivers.nodes.map { Machine.Node(at: $0) } == receivers.map(\.node))
    for party in senders + receivers { party.cause = .event }
    senders = []
    receivers = []
    isClosed = true
  }

  private func giveUp(_ queue: inout [Party], withdraws: Bool, _ withdraw: (Machine.Node) -> Attempt) {
    guard !queue.isEmpty else { return }
    let party = queue.removeFirst()
    check(party.model.giveUp())
    party.cause = .cancelled
    party.lingers = !withdraws
    if withdraws { check(withdraw(party.node).isDone) }
  }

  /// Lets the lingering parties withdraw. Then the queues have waiters only, and the elements that are left come in
  /// order.
  func finish() {
    for (party, isSender) in parties where party.lingers {
      check((isSender ? machine.withdrawSender(party.node) : machine.withdrawReceiver(party.node)).isDone)
    }
    check(machine.senders.count == senders.count && machine.receivers.count == receivers.count)
    check(senders.isEmpty || receivers.isEmpty)
    check(receivers.isEmpty || buffer.isEmpty)
    check(senders.isEmpty || buffer.count == limit)
    close()
    while !buffer.isEmpty { tryReceive() }
    tryReceive()
    compare()
  }
}

extension Attempt {
  fileprivate var isDone: Bool {
    if case .done = self { true } else { false }
  }
}

extension Waiter {
  fileprivate func isSame(as party: Comparison.Party) -> Bool {
    guard case (.thread(let one), .thread(let other)) = (self, party.model.waiter) else { return false }
    return one.toOpaque() == other.toOpaque()
  }
}
