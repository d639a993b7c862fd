import CoroutineTestSupport
import CoroutineTesting
import Testing

@testable import Coroutine

/// The wheel, beside a plain list that is searched for its minimum.
@Suite(.ownThreads) struct TimerWheelTests {
  /// Around these values a digit of the deadline carries over: the borders of all levels, and the ends of time.
  private static let borders: [UInt64] = [0] + (0...10).map { 1 << UInt64(6 * $0) } + [1 << 63, .max]

  @Test(arguments: 0..<24 as Range<UInt64>)
  func handsOutWhatAListSortedByDeadlineDoes(seed: UInt64) {
    var random = SplitMix(seed: seed)
    // Near the beginning, at an ordinary time, and where sums overflow.
    let start = [0, 11_479_688_786_333, UInt64.max - (1 << 26)][Int(seed % 3)]
    let model = TimerModel(from: start)
    for _ in 0..<amount(3000, debug: 1000, sanitized: 300) {
      switch random.next() % 8 {
      case 0...3: model.insert(randomInstant(near: model.now, &random))
      case 4: model.removeAny(&random)
      case 5: model.advance(to: later(than: model.now, &random), effort: .max)
      case 6: model.advance(to: later(than: model.now, &random), effort: 1 + Int(random.next() % 4))
      default:
        let next = model.wheel.nextDeadline ?? 0
        if next < model.now.addingSaturated(1 << 36) { model.advance(to: next, effort: .max) }
      }
    }
    #expect(model.now < start.addingSaturated(1 << 48) || seed % 3 == 2, "time must not run away, or nothing is tested")
    for bits in 30..<64 as Range<UInt64> { model.advance(to: model.now.addingSaturated(1 << bits), effort: .max) }
    model.advance(to: .max, effort: .max)
    #expect(model.wheel.count == 0)
  }

  /// Later by a nanosecond, by a minute, or anything between.
  private func later(than now: UInt64, _ random: inout SplitMix) -> UInt64 {
    now.addingSaturated(random.next() >> (28 + random.next() % 36))
  }

  /// Close together, at a border of some level, before now, or anywhere.
  private func randomInstant(near now: UInt64, _ random: inout SplitMix) -> UInt64 {
    let border = Self.borders[Int(random.next() % UInt64(Self.borders.count))]
    let offset = random.next() % 3
    switch random.next() % 16 {
    case 0...4: return now &+ random.next() % 200
    case 5...8: return now.addingSaturated(border &+ offset &- 1)
    case 9, 10: return (now | (border &- 1)).addingSaturated(offset)
    case 11: return now > border ? now - border : 0
    case 12...14: return now.addingSaturated(random.next() % 20_000_000)
    default: return random.next() >> (random.next() % 64)
    }
  }

  /// Every order of a few events at the wheel's critical deadlines: no seed is needed to find a defect.
  @Test func everySequenceOfEventsAroundABorder() {
    let deadlines: [UInt64] = [63, 64, 65, 4096]
    let instants: [UInt64] = [63, 64, 4096]
    let count = deadlines.count + instants.count + 2
    let length = 4
    var sequence = [Int](repeating: 0, count: length)
    var checked = 0
    repeat {
      let model = TimerModel(from: 1, checksEachStep: false)
      for event in sequence {
        switch event {
        case 0..<deadlines.count: model.insert(deadlines[event])
        case deadlines.count..<(deadlines.count + instants.count):
          model.advance(to: instants[event - deadlines.count], effort: .max)
        case count - 2: model.removeOldest()
        default: model.advance(to: 64, effort: 1)
        }
      }
      model.advance(to: .max, effort: .max)
      let isSound = model.wheel.checkInvariants()
      if !isSound || model.wheel.count != 0 { Issue.record("after \(sequence)") }
      checked += 1
    } while advance(&sequence, below: count)
    #expect(checked == 6_561)
  }

  private func advance(_ sequence: inout [Int], below count: Int) -> Bool {
    for index in sequence.indices {
      sequence[index] += 1
      if sequence[index] < count { return true }
      sequence[index] = 0
    }
    return false
  }

  @Test func neverEarlyByANanosecond() {
    for border in Self.borders where border > 1 {
      for deadline in [border - 1, border, border.addingSaturated(1)] {
        let model = TimerModel(from: 1)
        model.insert(deadline)
        #expect(model.wheel.nextDeadline == deadline)
        #expect(model.advance(to: deadline - 1, effort: .max).isEmpty)
        #expect(model.advance(to: deadline, effort: .max) == [0])
      }
    }
  }

  @Test func timersOfOneInstantKeepTheirOrderThroughAllLevels() {
    let model = TimerModel(from: 0)
    let deadline: UInt64 = 123_456_789_012_345
    var now: UInt64 = 0
    // Each event comes when the deadline is on another level, and the last ones when it has passed.
    for level in (0...10).reversed() {
      model.insert(deadline)
      now = max(now, deadline & ~((1 << UInt64(6 * level)) &- 1))
      if now < deadline { #expect(model.advance(to: now, effort: .max).isEmpty) }
    }
    #expect(model.advance(to: deadline, effort: .max) == Array(0...10))
    model.insert(deadline - 5)
    model.insert(deadline)
    #expect(model.advance(to: deadline, effort: .max) == [11, 12], "what is overdue on arrival is served as it comes")
  }

  @Test func endOfTimeIsADeadlineLikeOthers() {
    let model = TimerModel(from: .max - 1)
    model.insert(.max)
    model.insert(.max - 1)
    #expect(model.advance(to: .max - 1, effort: .max) == [1])
    #expect(model.advance(to: .max, effort: .max) == [0])
    model.insert(.max)
    model.insert(0)
    #expect(model.advance(to: .max, effort: .max) == [2, 3])
  }

  /// A thread that is late, or that reads an older time than another thread did.
  @Test func timeDoesNotGoBack() {
    let model = TimerModel(from: 0)
    model.advance(to: 1000, effort: .max)
    model.advance(to: 10, effort: .max)
    #expect(model.wheel.elapsed == 1000)
    model.insert(500)
    #expect(model.advance(to: 10, effort: .max).isEmpty)
    #expect(model.advance(to: 1000, effort: .max) == [0])
  }

  /// One slot may hold all timers. The lock must be free in between, before all are moved.
  @Test func drainingASlotIsInterruptedAndKeepsTheOrderOfNewTimers() {
    let model = TimerModel(from: 0)
    let deadline: UInt64 = 10_000_000
    for number in 0..<1000 { model.insert(deadline + UInt64(number % 7)) }
    var expired: [Int] = []
    var steps = 0
    while model.wheel.nextDeadline ?? .max <= deadline {
      expired += model.advance(to: deadline, effort: 10)
      // Between two steps other threads arm timers for the same instant, arm one that is overdue, and disarm one.
      if steps == 20 {
        model.insert(deadline)
        model.insert(5)
        model.removeOldest()
      }
      steps += 1
    }
    #expect(steps >= 100, "at most ten are touched in a step")
    // 0 was removed. 1000 and 1001 came last.
    #expect(expired == Array(stride(from: 7, to: 1000, by: 7)) + [1000, 1001])
    model.advance(to: .max, effort: .max)
  }

  @Test func removingAllThatIsLeftOfAnInterruptedDrainLeavesNothing() {
    let model = TimerModel(from: 0)
    for _ in 0..<3 { model.insert(10_000_000) }
    #expect(model.advance(to: 10_000_000, effort: 1).isEmpty)
    for _ in 0..<3 { model.removeOldest() }
    #expect(model.wheel.nextDeadline == nil)
    model.insert(9_000_000)
    #expect(model.wheel.nextDeadline == 10_000_000, "what is overdue counts as of now")
    #expect(model.advance(to: 10_000_000, effort: .max) == [3])
  }

  /// A stale answer costs one wake-up for nothing, but not several in a row.
  @Test func nextDeadlineIsExactAfterFewStepsWhenTheEarliestWasRemoved() {
    let model = TimerModel(from: 0)
    model.insert(70_000_000)
    model.insert(99_000_000)
    model.removeOldest()
    var steps = 0
    while let next = model.wheel.nextDeadline, next < 99_000_000 {
      #expect(model.advance(to: next, effort: .max).isEmpty)
      steps += 1
    }
    #expect(model.wheel.nextDeadline == 99_000_000)
    #expect(steps <= 10)
    #expect(model.advance(to: 99_000_000, effort: .max) == [1])
    #expect(model.wheel.nextDeadline == nil)
  }

  @Test func removingTwiceOrAfterTheEndSaysSo() {
    var wheel = TimerWheel()
    let node = UnsafeMutablePointer<TimerNode>.allocate(capacity: 1)
    defer { node.deallocate() }
    node.initialize(to: TimerNode(TimerModel.noTarget, deadline: 5))
    let neverArmed = wheel.remove(node)
    wheel.insert(node)
    let armed = wheel.remove(node)
    let removed = wheel.remove(node)
    wheel.insert(node)
    var effort = 10
    guard case .expired(node) = wheel.advance(to: 5, effort: &effort) else {
      Issue.record("it is due")
      return
    }
    let expired = wheel.remove(node)
    #expect([neverArmed, armed, removed, expired] == [false, true, false, false])
  }

  @Test func armingTwiceTraps() async {
    await #expect(processExitsWith: .failure) {
      var wheel = TimerWheel()
      let node = UnsafeMutablePointer<TimerNode>.allocate(capacity: 1)
      node.initialize(to: TimerNode(TimerModel.noTarget, deadline: 5))
      wheel.insert(node)
      wheel.insert(node)
    }
  }
}

/// A wheel, and beside it what the wheel should hold. Each event is checked at once.
private final class TimerModel {
  /// Never woken: the wheel does not look at a timer's target.
  static var noTarget: TimerNode.Target { .wait(TimedWait(.passUnretained(thread))) }
  private static let thread = TimedThread()

  var wheel = TimerWheel()
  /// The time up to which the wheel was advanced.
  private(set) var now: UInt64
  private var nodes: [UnsafeMutablePointer<TimerNode>] = []
  /// In the order of arrival. `key` is the deadline, or the wheel's time if that was already later.
  private var expected: [(number: Int, key: UInt64)] = []

  /// A check of all slots after each step takes long.
  private let checksEachStep: Bool

  init(from now: UInt64, checksEachStep: Bool = true) {
    self.now = now
    self.checksEachStep = checksEachStep
    var effort = 1
    _ = wheel.advance(to: now, effort: &effort)
  }

  deinit {
    for (number, _) in expected { _ = wheel.remove(nodes[number]) }
    for node in nodes { node.deallocate() }
  }

  func insert(_ deadline: UInt64) {
    let node = UnsafeMutablePointer<TimerNode>.allocate(capacity: 1)
    node.initialize(to: TimerNode(Self.noTarget, deadline: deadline))
    expected.append((nodes.count, max(deadline, wheel.elapsed)))
    nodes.append(node)
    wheel.insert(node)
    check()
  }

  func removeOldest() {
    guard !expected.isEmpty else { return }
    remove(at: 0)
  }

  func removeAny(_ random: inout SplitMix) {
    guard !expected.isEmpty else { return }
    remove(at: Int(random.next() % UInt64(expected.count)))
  }

  private func remove(at index: Int) {
    let number = expected.remove(at: index).number
    let wasArmed = wheel.remove(nodes[number])
    #expect(wasArmed)
    check()
  }

  /// The numbers of the expired timers, as many as `effort` allows. They must be the first ones of the list.
  @discardableResult
  func advance(to instant: UInt64, effort limit: Int) -> [Int] {
    now = max(now, instant)
    var effort = limit
    var expired: [Int] = []
    advancing: while true {
      switch wheel.advance(to: instant, effort: &effort) {
      case .expired(let node):
        let number = nodes.firstIndex(of: node)!
        let first = expected.indices.min { expected[$0].key < expected[$1].key }
        // Compared before the `#expect`: the macro is slow, and there are millions.
        guard let first, expected[first].number == number, expected[first].key <= instant else {
          Issue.record("\(number) came where \(first.map { "\(expected[$0])" } ?? "nothing") is to come, at \(instant)")
          break advancing
        }
        expected.remove(at: first)
        expired.append(number)
      case .unfinished:
        #expect(effort == 0)
        break advancing
      case .upToDate:
        #expect(expected.allSatisfy { $0.key > instant }, "nothing that is due is left behind")
        break advancing
      }
      check()
    }
    check()
    return expired
  }

  private func check() {
    guard checksEachStep else { return }
    let isSound = wheel.checkInvariants()
    #expect(isSound)
    let count = wheel.count
    #expect(count == expected.count)
    let earliest = expected.lazy.map(\.key).min()
    let next = wheel.nextDeadline
    #expect((next == nil) == (earliest == nil))
    if let next, let earliest { #expect(next <= earliest, "a bound from below") }
  }
}
