import CoroutineTestSupport
import Dispatch
import Glibc  // has a select(2) of its own
import Synchronization
import Testing

@testable import Coroutine

@Suite(.ownThreads) struct SelectTests {
  private struct Problem: Error, Equatable {}

  /// Runs `body` in a coroutine on a serial queue, first in, first out.
  private func serially<Value: Sendable>(
    _ body: sending @escaping () throws -> Value
  ) async throws -> Value {
    try await Coroutine(on: DispatchQueue(label: "serial"), body).get()
  }

  // MARK: Choosing

  @Test func aReadyCaseIsDoneAtOnceAndTheOthersHaveNoEffect() async throws {
    try await serially {
      let (full, empty) = (Channel<Int>(), Channel<Int>())
      let sender = Coroutine { try full.send(7) }
      Coroutine.yield()
      let value = try select {
        empty.onReceive { $0 }
        full.onReceive { $0 + 1 }
        empty.onSend(3) { -1 }
      }
      #expect(value == 8)
      try sender.get()
      #expect(empty.storage.machine.senders.isEmpty && empty.storage.machine.receivers.isEmpty)
    }
  }

  @Test func aSelectThatWaitsIsChosenByTheFirstToCome() async throws {
    let log = Log()
    try await serially {
      let (numbers, words, results) = (Channel<Int>(), Channel<String>(), Channel<Double>())
      for round in 0..<3 {
        let waiting = Coroutine {
          try select {
            numbers.onReceive { log.add("number \($0)") }
            words.onReceive { log.add("word \($0)") }
            results.onSend(0.5) { log.add("sent") }
          }
        }
        Coroutine.yield()
        switch round {
        case 0: try numbers.send(1)
        case 1: try words.send("a")
        default: log.add("received \(try results.receive())")
        }
        try waiting.get()
        #expect(numbers.storage.machine.receivers.isEmpty)
        #expect(words.storage.machine.receivers.isEmpty)
        #expect(results.storage.machine.senders.isEmpty)
      }
    }
    #expect(log.all == ["number 1", "word a", "received 0.5", "sent"])
  }

  @Test func aCoroutinesEndIsAnEventWithItsValueOrItsError() async throws {
    try await serially {
      let never = Channel<Int>()
      let worker = Coroutine { () throws -> Int in
        Coroutine.yield()
        return 5
      }
      let early = try select {
        never.onReceive { $0 }
        worker.onValue { $0 }
      }
      let late = try select { worker.onValue { $0 + 1 } }
      #expect(early == 5 && late == 6)

      let failing = Coroutine { () throws -> Int in throw Problem() }
      var caught: (any Error)?
      do { _ = try select { failing.onValue { $0 } } } catch { caught = error }
      #expect(caught is Problem)
      let isFailure = try select {
        failing.onEnd { result in
          if case .failure = result { true } else { false }
        }
      }
      #expect(isFailure)
      #expect(never.storage.machine.receivers.isEmpty)
    }
  }

  @Test func aPromisesSettlementIsAnEventWithItsValueOrItsError() async throws {
    try await serially {
      let never = Channel<Int>()
      let (promise, resolver) = Promise<Int>.makePromise()
      let settling = Coroutine { resolver.fulfill(5) }
      let early = try select {
        never.onReceive { $0 }
        promise.onValue { $0 }
      }
      let late = try select { promise.onValue { $0 + 1 } }
      #expect(early == 5 && late == 6)
      _ = try settling.get()

      let failing = Promise<Int>(error: Problem())
      var caught: (any Error)?
      do { _ = try select { failing.onValue { $0 } } } catch { caught = error }
      #expect(caught is Problem)
      let isFailure = try select {
        failing.onEnd { result in
          if case .failure = result { true } else { false }
        }
      }
      #expect(isFailure)
      #expect(never.storage.machine.receivers.isEmpty)
    }
  }

  @Test func aPromiseThatIsNotChosenIsAsIfNeverAsked() async throws {
    let log = Log()
    struct Loss: Error {}
    try await LostErrors.observe { error, _ in
      guard error is Loss else { return false }
      log.add("lost")
      return true
    } during: {
      try await serially {
        let channel = Channel<Int>(capacity: .buffered(1))
        do {
          let (promise, resolver) = Promise<Int>.makePromise()
          let sending = Coroutine { try channel.send(1) }
          let number = try select {
            promise.onValue { $0 }
            channel.onReceive { $0 + 10 }
          }
          #expect(number == 11)
          #expect(promise.storage.waiterAndObserverCount == 0)
          try sending.get()
          resolver.reject(Loss())
        }
        log.add("end")
      }
    }
    #expect(log.all == ["lost", "end"])
  }

  @Test func aPromiseThatIsCancelledEndsASelect() async throws {
    try await serially {
      let (promise, resolver) = Promise<Int>.makePromise()
      let cancelling = Coroutine { _ = promise.cancel() }
      var caught: (any Error)?
      do { _ = try select { promise.onValue { $0 } } } catch { caught = error }
      #expect(caught is CancellationError)
      try cancelling.get()
      withExtendedLifetime(resolver) {}
    }
  }

  @Test func withOtherwiseNothingWaits() async throws {
    try await serially {
      let channel = Channel<Int>()
      let without = try select {
        channel.onReceive { "\($0)" }
        channel.onSend(1) { "sent" }
        otherwise { "nothing" }
      }
      #expect(without == "nothing")
      let sender = Coroutine { try channel.send(2) }
      Coroutine.yield()
      let with = try select {
        otherwise { "nothing" }
        channel.onReceive { "\($0)" }
      }
      #expect(with == "2")
      try sender.get()
    }
  }

  @Test func aTimeoutIsChosenWhenNothingElseWas() async throws {
    try await serially {
      let channel = Channel<Int>()
      let late = try select {
        onTimeout(.seconds(3600)) { "much too late" }
        channel.onReceive { "\($0)" }
        onTimeout(.milliseconds(1)) { "late" }
      }
      #expect(late == "late")
      #expect(channel.storage.machine.receivers.isEmpty)
      let zero = try select {
        channel.onReceive { "\($0)" }
        onTimeout(.zero) { "at once" }
      }
      #expect(zero == "at once")
      let sleep = try select { onTimeout(.milliseconds(1)) { "slept" } }
      #expect(sleep == "slept")
      // The timeout is disarmed when another case is chosen.
      let sender = Coroutine { try channel.send(4) }
      let first = try select {
        channel.onReceive { "\($0)" }
        onTimeout(.seconds(3600)) { "late" }
      }
      #expect(first == "4")
      try sender.get()
    }
  }

  @Test func handlersRunAfterTheChoiceAndMaySuspendThrowAndSelect() async throws {
    let log = Log()
    try await serially {
      let (outer, inner) = (Channel<Int>(), Channel<Int>())
      let waiting = Coroutine {
        try select {
          outer.onReceive { value in
            log.add("outer \(value)")
            // The channels' locks are free, and the select is in no queue any more.
            Coroutine.yield()
            try select {
              inner.onReceive { log.add("inner \($0)") }
              outer.onReceive { log.add("outer \($0)") }
            }
            throw Problem()
          }
          inner.onReceive { log.add("wrong \($0)") }
        }
      }
      Coroutine.yield()
      try outer.send(1)
      try inner.send(2)
      var caught: (any Error)?
      do { try waiting.get() } catch { caught = error }
      #expect(caught is Problem)
    }
    #expect(log.all == ["outer 1", "inner 2"])
  }

  @Test func theSenderThatWaitsLongestIsServedFirstSelectOrNot() async throws {
    try await serially {
      let (channel, other) = (Channel<Int>(), Channel<Int>())
      let senders = (0..<6).map { index in
        Coroutine {
          if index.isMultiple(of: 2) {
            try channel.send(index)
          } else {
            try select {
              other.onReceive { _ in }
              channel.onSend(index)
            }
          }
        }
      }
      Coroutine.yield()
      var order: [Int] = []
      for _ in 0..<6 { order.append(try channel.receive()) }
      #expect(order == [0, 1, 2, 3, 4, 5])
      for sender in senders { try sender.get() }
    }
  }

  // MARK: Closed

  @Test func aClosedChannelIsReady() async throws {
    try await serially {
      let (closed, never) = (Channel<Int>(), Channel<Int>())
      closed.close()
      let end = try select {
        never.onReceive { Optional($0) }
        closed.onNext { $0 }
      }
      #expect(end == nil)
      var caught: [any Error] = []
      do { _ = try select { closed.onReceive { $0 } } } catch { caught.append(error) }
      do { try select { closed.onSend(9) } } catch { caught.append(error) }
      #expect((caught[0] as? ChannelClosed<Int>)?.unsent == nil && caught[0] is ChannelClosed<Int>)
      #expect((caught[1] as? ChannelClosed<Int>)?.unsent == 9)
    }
  }

  @Test func closingEndsTheWaitOfASelect() async throws {
    try await serially {
      let (channel, never) = (Channel<Int>(), Channel<Int>())
      let receiver = Coroutine { () throws -> Bool in
        try select {
          channel.onNext { $0 == nil }
          never.onReceive { _ in false }
        }
      }
      let other = Channel<Int>()
      let sender = Coroutine { () throws -> Int? in
        do {
          return try select {
            never.onReceive { _ in 0 }
            other.onSend(3) { 1 }
          }
        } catch let error as ChannelClosed<Int> {
          return error.unsent
        }
      }
      Coroutine.yield()
      channel.close()
      other.close()
      let (isClosed, unsent) = (try receiver.get(), try sender.get())
      #expect(isClosed && unsent == 3)
      #expect(never.storage.machine.receivers.isEmpty)
    }
  }

  // MARK: No select meets itself

  @Test func aSelectDoesNotMeetItself() async throws {
    try await serially {
      let channel = Channel<Int>()
      @Sendable func both(_ value: Int) throws -> String {
        try select {
          channel.onSend(value) { "sent" }
          channel.onReceive { "received \($0)" }
          channel.onSend(value + 1) { "sent 2" }
          channel.onReceive { "received \($0) 2" }
        }
      }
      let first = Coroutine { () throws -> String in try both(1) }
      Coroutine.yield()
      Coroutine.yield()
      #expect(!first.isFinished)
      let second = Coroutine { () throws -> String in try both(11) }
      let ends = try [first.get(), second.get()]
      #expect(ends.filter { $0.hasPrefix("sent") }.count == 1)
      #expect(ends.filter { $0.hasPrefix("received") }.count == 1)
      #expect(channel.storage.machine.senders.isEmpty && channel.storage.machine.receivers.isEmpty)
    }
  }

  // MARK: Cancellation

  @Test func aCancelledSelectThrowsAndLeavesEveryQueue() async throws {
    try await serially {
      let (first, second) = (Channel<Int>(), Channel<Int>())
      let waiting = Coroutine {
        try select {
          first.onReceive { _ in }
          second.onSend(1)
          onTimeout(.seconds(3600)) {}
        }
      }
      Coroutine.yield()
      waiting.cancel()
      var caught: (any Error)?
      do { try waiting.get() } catch { caught = error }
      #expect(caught is CancellationError)
      #expect(first.storage.machine.receivers.isEmpty && second.storage.machine.senders.isEmpty)
    }
  }

  @Test func aCancelledCoroutineChoosesNothing() async throws {
    let log = Log()
    try await serially {
      let channel = Channel<Int>()
      let go = Channel<Void>()
      let late = Coroutine {
        try withCancellationShield { try go.receive() }
        try select {
          channel.onReceive { _ in log.add("received") }
          otherwise { log.add("otherwise") }
        }
      }
      let sender = Coroutine { try channel.send(1) }
      Coroutine.yield()
      late.cancel()
      try go.send(())
      var caught: (any Error)?
      do { try late.get() } catch { caught = error }
      #expect(caught is CancellationError)
      #expect(!sender.isFinished)
      #expect(try channel.receive() == 1)
    }
    #expect(log.all == [])
  }

  /// An operation that can never be done. It calls a closure when it is asked whether it can.
  private struct Asked: SelectOperation {
    let call: @Sendable () -> Void
    init(_ source: @escaping @Sendable () -> Void) { call = source }
    var layout: Select.Layout { Select.Layout(size: 0, alignment: 1) }
    var target: Select.Target { Select.Target(.timeout(.seconds(3600))) }
    func attempt(_ node: UnsafeMutableRawPointer, for party: Select.Party) -> Select.Attempt {
      call()
      return Select.Attempt(.wait)
    }
    func enqueue(_ node: UnsafeMutableRawPointer, for party: Select.Party) {}
    func dequeue(_ node: UnsafeMutableRawPointer) -> Select.Attempt { Select.Attempt(.done) }
    func discard(_ node: UnsafeMutableRawPointer) {}
    func take(_ node: UnsafeMutableRawPointer) {}
  }

  @Test func aCancelBetweenTheFirstLookAndTheWaitIsSeen() async throws {
    try await serially {
      let channel = Channel<Int>()
      let own = Guarded<Coroutine<Void, any Error>?>(nil)
      let waiting = Coroutine { () throws -> Void in
        try select {
          channel.onReceive { _ in }
          Select.Case<Asked, Void>({ own.withLock { $0 }?.cancel() }) { _ in }
        }
      }
      own.withLock { $0 = waiting }
      var caught: (any Error)?
      do { try waiting.get() } catch { caught = error }
      #expect(caught is CancellationError)
      #expect(channel.storage.machine.receivers.isEmpty)
    }
  }

  // MARK: Losers

  @Test func whatIsNotSentIsReleasedOnceAndOnlyByItsSender() async throws {
    final class Witness: Sendable {
      static let live = Atomic<Int>(0)
      init() { Witness.live.add(1, ordering: .relaxed) }
      deinit { Witness.live.subtract(1, ordering: .relaxed) }
    }
    try await serially {
      let (first, second, other) = (Channel<Witness>(), Channel<Witness>(), Channel<Int>())
      for round in 0..<100 {
        let waiting = Coroutine {
          try select {
            first.onSend(Witness())
            second.onSend(Witness())
            other.onReceive { _ in }
          }
        }
        Coroutine.yield()
        #expect(Witness.live.load(ordering: .relaxed) == 2)
        switch round % 4 {
        case 0: _ = try first.receive()
        case 1: _ = try second.receive()
        case 2: try other.send(0)
        default: waiting.cancel()
        }
        _ = try? waiting.get()
        #expect(Witness.live.load(ordering: .relaxed) == 0)
      }
    }
  }

  @Test func anErrorThatASelectDidNotChooseIsStillLost() async throws {
    let log = Log()
    try await LostErrors.observe { error, _ in
      guard error is Problem else { return false }
      log.add("lost")
      return true
    } during: {
      try await serially {
        let channel = Channel<Int>()
        do {
          let failing = Coroutine { () throws -> Int in
            Coroutine.yield()
            Coroutine.yield()
            throw Problem()
          }
          let sender = Coroutine { try channel.send(1) }
          try select {
            failing.onValue { _ in }
            channel.onReceive { _ in }
          }
          try sender.get()
        }
        for _ in 0..<4 { Coroutine.yield() }
      }
    }
    #expect(log.all == ["lost"])
  }

  @Test func channelsThatOnlyTheirCaseHoldsLiveUntilTheChoice() async throws {
    final class Holder: Sendable {
      let channel = Guarded(Channel<Int>(name: "only here"))
    }
    try await serially {
      let holder = Holder()
      let waiting = Coroutine {
        try select {
          holder.channel.withLock { $0 }.onReceive { _ in false }
          Channel<Int>().onReceive { _ in false }
          onTimeout(.milliseconds(2)) { true }
        }
      }
      Coroutine.yield()
      holder.channel.withLock { $0 = Channel() }
      let isLate = try waiting.get()
      #expect(isLate)
    }
  }

  // MARK: Any number of cases

  @Test func casesMayBeLeftOutChosenAndRepeated() async throws {
    func choose(_ channels: [Channel<Int>], _ isOpen: Bool, _ extra: Channel<String>?) throws -> String {
      try select {
        if isOpen { channels[0].onReceive { "0: \($0)" } }
        if let extra {
          extra.onReceive { "extra: \($0)" }
          extra.onSend("out") { "extra sent" }
        } else {
          channels[1].onReceive { "1: \($0)" }
        }
        for (index, channel) in channels.enumerated().dropFirst(2) {
          channel.onReceive { "\(index): \($0)" }
          channel.onSend(-index) { "\(index): sent" }
        }
        switch channels.count {
        case 2: otherwise { "two" }
        default: onTimeout(.seconds(3600)) { "late" }
        }
      }
    }
    let log = Log()
    try await serially {
      let channels = (0..<5).map { _ in Channel<Int>() }
      let extra = Channel<String>()
      func met(_ isOpen: Bool, _ extra: Channel<String>?, _ body: @escaping @Sendable () throws -> Void) throws {
        let other = Coroutine { try body() }
        log.add(try choose(channels, isOpen, extra))
        try other.get()
      }
      try met(true, nil) { try channels[0].send(1) }
      try met(false, nil) { try channels[1].send(2) }
      try met(false, extra) { try extra.send("e") }
      try met(true, extra) { log.add("got \(try extra.receive())") }
      try met(true, extra) { try channels[4].send(3) }
      try met(true, extra) { log.add("got \(try channels[3].receive())") }
      log.add(try choose(Array(channels[..<2]), true, nil))
    }
    #expect(
      log.all == [
        "0: 1", "1: 2", "extra: e", "got out", "extra sent", "4: 3", "got -3", "3: sent", "two",
      ])
  }

  @Test(arguments: [1, 2, 15, 16, 17, 300]) func anArrayOfCasesOfAnySize(count: Int) async throws {
    try await serially {
      let channels = (0..<count).map { Channel<Int>(name: "\($0)") }
      for round in [0, count / 2, count - 1] {
        // Ready at once, and ready later.
        let sender = Coroutine { try channels[round].send(round) }
        Coroutine.yield()
        #expect(try select(channels.map { channel in channel.onReceive { $0 } }) == round)
        try sender.get()
        let waiting = Coroutine { try select(channels.map { channel in channel.onReceive { $0 } }) }
        Coroutine.yield()
        try channels[round].send(-round)
        #expect(try waiting.get() == -round)
      }
      #expect(channels.allSatisfy { $0.storage.machine.receivers.isEmpty })
    }
  }

  @Test func anArrayHoldsCasesOfAllKinds() async throws {
    try await serially {
      let (numbers, words) = (Channel<Int>(), Channel<String>())
      let worker = Coroutine { () throws -> Double in
        Coroutine.yield()
        return 0.5
      }
      var cases: [any SelectCase<String>] = [
        numbers.onReceive { "\($0)" }, words.onSend("out") { "sent" }, worker.onValue { "\($0)" },
      ]
      #expect(try select(cases) == "0.5")
      cases.removeLast()
      let receiver = Coroutine { () throws -> String in try words.receive() }
      #expect(try select(cases) == "sent")
      #expect(try receiver.get() == "out")
      // In braces, beside other cases.
      let beside = try select {
        cases
        onTimeout(.zero) { "late" }
      }
      #expect(beside == "late")
    }
  }

  // MARK: Misuse

  @Test func aSelectWithoutACaseTraps() async {
    let exit1 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let coroutine = Coroutine {
        let none: [any SelectCase<Int>] = []
        return try select(none)
      }
      _ = try await coroutine.get()
    }
    #expect(standardError(of: exit1).contains("a select without a case would wait for ever"))
  }

  @Test func aSelectOutsideACoroutineTraps() async {
    let exit2 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      func outside() throws { try select { Channel<Int>().onReceive { _ in } } }
      try outside()
    }
    #expect(standardError(of: exit2).contains("suspends the running coroutine, but no coroutine runs here"))
  }

  @Test func aSelectOnItsOwnEndTraps() async {
    let exit3 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let (kept, gate) = (Guarded<Coroutine<Void, any Error>?>(nil), Gate())
      let coroutine = Coroutine { () throws -> Void in
        gate.pass()
        let own = kept.withLock { $0 }!
        try select { own.onEnd { _ in } }
      }
      kept.withLock { $0 = coroutine }
      gate.open()
      try await coroutine.get()
    }
    #expect(standardError(of: exit3).contains("a coroutine selects on its own end"))
  }

  @Test func aNegativeTimeoutIsAsZero() async {
    await #expect(processExitsWith: .success) {
      let numbers = Channel<Int>(capacity: .buffered(1))
      let coroutine = Coroutine { () throws -> [String] in
        try numbers.send(1)
        return try (0..<2).map { _ in
          try select {
            numbers.onReceive { "\($0)" }
            onTimeout(.seconds(-1)) { "late" }
          }
        }
      }
      let chosen = try await coroutine.get()
      precondition(chosen == ["1", "late"])
    }
  }

  // MARK: Debuggers

  @Test func aWaitingSelectSaysWhatItWaitsFor() async throws {
    try await serially {
      let (jobs, results) = (Channel<Int>(name: "jobs"), Channel<Int>(name: "results"))
      let waiting = Coroutine(name: "selecting") {
        try select {
          jobs.onReceive { _ in }
          results.onSend(1)
          onTimeout(.seconds(30)) {}
        }
      }
      Coroutine.yield()
      let reason = waiting.storage.waitReason?.description
      #expect(
        reason
          == "select: receive on channel \"jobs\" (1 receiver), send on channel \"results\" (1 sender), a timeout of 30.0 seconds"
      )
      waiting.cancel()
      _ = try? waiting.get()
    }
  }
}
