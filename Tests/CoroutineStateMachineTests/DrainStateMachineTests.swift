import CoroutineTestSupport
import Testing

@testable import Coroutine

/// The drains of a Dispatch queue, on a model of the queue that has as many threads as it needs.
@Suite(.ownThreads) struct DrainStateMachineTests {
  /// In every state that so many events lead to.
  @Test(arguments: [1, 2, 3])
  func noneIsLeftAndNoneBeginsBeforeItsPlace(width: Int) {
    var (states, known) = ([ModelQueue(width: width)], Set<[Int]>())
    for _ in 0..<12 {
      states = states.flatMap { state in
        (0..<ModelQueue.events).compactMap { event in
          var next = state
          next.apply(event)
          guard known.insert(next.key).inserted else { return nil }
          #expect(next.keepsInvariants, "\(next)")
          var end = next
          end.runToTheEnd()
          #expect(end.hasBegunAll, "\(next)")
          return next
        }
      }
    }
    #expect(known.count > 10_000)
  }
}

private struct ModelQueue {
  private let width: Int
  private var machine: DrainStateMachine
  private var line: [DrainStateMachine.First] = []
  /// Submitted drains that have not begun: whether each is a launch's.
  private var toCome: [Bool] = []
  /// Drains between two coroutines, those whose coroutine computes, and those whose coroutine keeps the thread and waits.
  private var (idle, busy, staying) = (0, 0, 0)
  private var (launches, launchesBegun, newBegun) = (0, 0, 0)

  static let events = 7

  init(width: Int) {
    self.width = width
    machine = DrainStateMachine(width: width)
  }

  mutating func apply(_ event: Int) {
    switch event {
    case 0:
      line.append(.new)
      machine.launched()
      launches += 1
      toCome.append(true)
    case 1:
      line.append(.begun)
      if machine.woken() { toCome.append(false) }
    case 2 where !toCome.isEmpty:
      let isLaunch = toCome.removeFirst()
      machine.drainBegins(forLaunch: isLaunch)
      launchesBegun += isLaunch ? 1 : 0
      idle += 1
    case 3 where idle > 0:
      idle -= 1
      guard machine.takesFirst(line.first) else { return }
      busy += 1
      newBegun += line.removeFirst() == .new ? 1 : 0
      if machine.tookOne(before: line.first) { toCome.append(false) }
    case 4 where busy > 0:
      busy -= 1
      idle += 1
    case 5 where busy > 0:
      busy -= 1
      staying += 1
      if machine.drainStays(before: line.first) { toCome.append(false) }
    case 6 where staying > 0:
      machine.drainGoesOn()
      staying -= 1
      busy += 1
    default: break
    }
  }

  /// Those that stay do so; what computes ends.
  mutating func runToTheEnd() {
    while !toCome.isEmpty || idle > 0 || busy > 0 { apply(busy > 0 ? 4 : idle > 0 ? 3 : 2) }
  }

  var key: [Int] {
    let counts = [idle, busy, staying, launchesBegun - newBegun, machine.drains, machine.wakesToCome, machine.mayBegin]
    return counts + [line.count] + line.map { $0 == .new ? 1 : 0 } + toCome.map { $0 ? 1 : 0 }
  }

  var hasBegunAll: Bool { line.isEmpty && newBegun == launches }

  var keepsInvariants: Bool {
    // In the order of the queue's blocks.
    guard newBegun <= launchesBegun else { return false }
    // A drain comes for the first in line, unless as many run others as are of use.
    return line.isEmpty || idle > 0 || !toCome.isEmpty || busy >= width
  }
}
