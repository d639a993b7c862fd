import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

/// Actors that ask each other in a cycle get an error instead of waiting for ever. Other actors do not.
@Suite(.ownThreads) struct ActorCycleTests {
  private enum Message: Sendable {
    case ask(Reply<String>)
  }

  private final class Links: Sendable {
    let actors = Guarded<[MessageActor<Message>]>([])
    subscript(index: Int) -> MessageActor<Message> { actors.withLock { $0[index] } }
  }

  /// Each actor asks the next one, and answers with what it gets.
  private func cycle(_ count: Int, on scheduler: some Scheduler) -> Links {
    let links = Links()
    let actors = (0..<count).map { index in
      MessageActor<Message>(on: scheduler, name: "\(index)") { mailbox in
        for case .ask(let reply) in mailbox {
          do {
            reply.complete("\(index)<" + (try links[(index + 1) % count].ask { .ask($0) }))
          } catch {
            reply.complete(
              "\(error as? AskCycle == nil ? "\(error)" : (error as! AskCycle).actors.joined(separator: ","))")
          }
        }
      }
    }
    links.actors.withLock { $0 = actors }
    return links
  }

  private func stop(_ links: Links) {
    for actor in links.actors.withLock({ $0 }) { actor.cancel() }
  }

  @Test(arguments: [1, 2, 3, 10, 100]) func aCircleIsReportedWithItsNames(_ count: Int) async throws {
    for scheduler: any Scheduler in [ThreadPool(threads: 2), DispatchQueue(label: "serial")] as [any Scheduler] {
      let links = cycle(count, on: scheduler)
      let answer = try await links[0].ask { .ask($0) }
      // The last ask would have closed the cycle.
      let names = ([count - 1] + Array(0..<count)).map { "actor \"\($0)\"" }
      let expected = (0..<count - 1).map { "\($0)<" }.joined() + names.joined(separator: ",")
      #expect(answer == expected)
      // Nothing of it is left: the next ask ends the same way.
      #expect(try await links[0].ask { .ask($0) } == answer)
      stop(links)
    }
  }

  /// The same by the promise of a `send`: an actor that asks itself, and a cycle with one link of each kind.
  @Test(arguments: [1, 2]) func aCircleThroughPromisesIsReportedToo(_ count: Int) async throws {
    let log = Log()
    let links = Links()
    // Serial: the second one runs when the first one waits.
    let queue = DispatchQueue(label: "serial")
    let actors = (0..<count).map { index in
      MessageActor<Message>(on: queue, name: "\(index)") { mailbox in
        for case .ask(let reply) in mailbox {
          let next = links[(index + 1) % count]
          let promise: Promise<String> = next.send { .ask($0) }
          // Otherwise its end without an answer would be reported.
          defer { promise.cancel() }
          do {
            log.add("\(index) goes on")
            reply.complete("\(index)<" + (index == 0 ? try promise.get() : try next.ask { .ask($0) }))
          } catch {
            log.add("\(index): \((error as? AskCycle)?.actors.joined(separator: ",") ?? "\(error)")")
            reply.complete("?")
          }
          // A message that it was sent meanwhile would begin the cycle again.
          if index == 0 { mailbox.actor.cancel() }
        }
      }
    }
    links.actors.withLock { $0 = actors }
    let answer = try await links[0].ask { .ask($0) }
    if count == 1 {
      #expect(answer == "?")
      #expect(log.all == ["0 goes on", "0: actor \"0\",actor \"0\""])
    } else {
      #expect(answer == "0<?")
      #expect(log.all == ["0 goes on", "1 goes on", "1: actor \"1\",actor \"0\",actor \"1\""])
    }
    stop(links)
    for actor in actors { try await actor.join() }
    links.actors.withLock { $0 = [] }
  }

  enum Wait: CaseIterable, Sendable {
    case then, values, valuesOfSeveral, results, resultsOfSeveral
  }

  /// The same where the actor waits for several promises, or for one made from the promise. The other actors ask.
  @Test(arguments: Wait.allCases, [1, 3]) func aCircleThroughWhatIsMadeOfPromisesIsReportedToo(
    _ wait: Wait, _ count: Int
  ) async throws {
    let links = Links()
    // Serial: the next one runs when the first one waits.
    let queue = DispatchQueue(label: "serial")
    let idle = MessageActor<Message>(on: queue, name: "idle") { mailbox in
      for case .ask(let reply) in mailbox { reply.complete("idle") }
    }
    let actors = (0..<count).map { index in
      MessageActor<Message>(on: queue, name: "\(index)") { mailbox in
        for case .ask(let reply) in mailbox {
          let next = links[(index + 1) % count]
          guard index == 0 else {
            reply.complete(with: Result { try next.ask { .ask($0) } })
            continue
          }
          let asked: Promise<String> = next.send { .ask($0) }
          let other: Promise<String> = idle.send { .ask($0) }
          defer { asked.cancel() }
          do {
            switch wait {
            case .then: reply.complete(try asked.then { $0 + "!" }.finally {}.get())
            case .values: reply.complete(try values(of: other, asked).1)
            case .valuesOfSeveral: reply.complete(try values(of: [other, asked]).joined())
            case .results:
              let (first, second) = try results(of: other, asked)
              reply.complete("\(try first.get()) \((Result { try second.get() }).names)")
            case .resultsOfSeveral:
              let both = try results(of: [asked, other])
              reply.complete("\(try both[1].get()) \(both[0].names)")
            }
          } catch {
            reply.complete(Result<String, any Error>.failure(error).names)
          }
          // A message that it was sent meanwhile would begin the cycle again.
          mailbox.actor.cancel()
        }
      }
    }
    links.actors.withLock { $0 = actors }
    let answer = try await links[0].ask { .ask($0) }
    switch (wait, count) {
    case (.results, 1), (.resultsOfSeveral, 1): #expect(answer == "idle actor \"0\",actor \"0\"")
    case (_, 1): #expect(answer == "actor \"0\",actor \"0\"")
    // The last actor closes the cycle, and the first one gets that actor's error as an answer.
    case (.results, _), (.resultsOfSeveral, _):
      #expect(answer == "idle actor \"2\",actor \"0\",actor \"1\",actor \"2\"")
    default: #expect(answer == "actor \"2\",actor \"0\",actor \"1\",actor \"2\"")
    }
    stop(links)
    idle.cancel()
    for actor in actors { try await actor.join() }
    links.actors.withLock { $0 = [] }
  }

  /// One actor waits for two others, of which the second waits for the first: that is no cycle.
  @Test func aWaitForSeveralIsNoCycleByItself() async throws {
    let links = Links()
    let pool = ThreadPool(threads: 2)
    let actors = (0..<3).map { index in
      MessageActor<Message>(on: pool, name: "\(index)") { mailbox in
        for case .ask(let reply) in mailbox {
          switch index {
          case 0:
            let both = (1...2).map { other in links[other].send { .ask($0) } as Promise<String> }
            reply.complete(try values(of: both).joined())
          case 1: reply.complete(try links[2].ask { .ask($0) })
          default: reply.complete("2")
          }
        }
      }
    }
    links.actors.withLock { $0 = actors }
    for _ in 0..<200 { #expect(try await links[0].ask { .ask($0) } == "22") }
    stop(links)
    links.actors.withLock { $0 = [] }
  }

  @Test func aPromiseThatIsSettledOrLeftToOthersIsNoCircle() async throws {
    enum Message: Sendable {
      case begin(Reply<[Int]>)
      case answer(Reply<Int>)
      case keep(Reply<Int>)
    }
    let queue = DispatchQueue(label: "serial")
    let kept = Guarded<[Reply<Int>]>([])
    let asked = Guarded<[Promise<Int>]>([])
    let actor = MessageActor<Message>(on: queue, name: "self") { mailbox in
      for message in mailbox {
        switch message {
        case .begin(let reply):
          let promises = asked.withLock { $0 }
          // The second answer comes from another coroutine, while this one waits for it.
          Coroutine(on: queue) { for reply in kept.withLock({ $0 }) { reply.complete(2) } }
          reply.complete(try promises.map { try $0.get() })
        case .answer(let reply): reply.complete(1)
        case .keep(let reply): kept.withLock { $0.append(reply) }
        }
      }
    }
    asked.withLock { $0 = [actor.send { .answer($0) }, actor.send { .keep($0) }] }
    #expect(try await actor.ask { .begin($0) } == [1, 2])
    actor.cancel()
  }

  @Test func manyCirclesAtOnceAreAllFound() async throws {
    let links = cycle(4, on: ThreadPool(threads: 4))
    let askers = (0..<8).map { asker in
      Coroutine(on: .pool) {
        for _ in 0..<200 { _ = try links[asker % 4].ask { .ask($0) } }
      }
    }
    for asker in askers { try await asker.get() }
    stop(links)
  }

  @Test func anAnswerThatWasPutOffIsNoCircle() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    enum Message: Sendable {
      case begin(Reply<Int>)
      case ask(Reply<Int>)
      case goOn
    }
    let links = Guarded<[MessageActor<Message>]>([])
    let (left, right) = (0, 1)
    func other(_ index: Int) -> MessageActor<Message> { links.withLock { $0[index] } }
    try await Coroutine(on: queue) {
      let first = MessageActor<Message>(on: queue, name: "left") { mailbox in
        for message in mailbox {
          switch message {
          case .begin(let reply): reply.complete(try links.withLock { $0[right] }.ask { .ask($0) } + 1)
          case .ask(let reply): reply.complete(10)
          case .goOn: break
          }
        }
      }
      let second = MessageActor<Message>(on: queue, name: "right") { mailbox in
        var kept: Reply<Int>?
        for message in mailbox {
          switch message {
          case .ask(let reply):
            // Another coroutine will answer.
            let gate = Coroutine { reply.complete(1) }
            kept = reply
            _ = gate
          case .goOn:
            log.add("\(try links.withLock { $0[left] }.ask { .ask($0) })")
          case .begin: break
          }
        }
        withExtendedLifetime(kept) {}
      }
      links.withLock { $0 = [first, second] }
      let answer = first.send { .begin($0) } as Promise<Int>
      Coroutine.yield()
      try second.send(.goOn).get()
      log.add("\(try answer.get())")
      first.cancel()
      second.cancel()
    }.get()
    links.withLock { $0 = [] }
    #expect(log.all == ["10", "2"])
  }

  @Test(arguments: [true, false]) func anActorThatPassesAReplyOnMayAskBackIfItSaysSo(_ saysSo: Bool) async throws {
    enum Message: Sendable {
      case begin(Reply<Int>)
      case ask(Reply<Int>)
      case detail(Reply<Int>)
    }
    let queue = DispatchQueue(label: "serial")
    let links = Guarded<[MessageActor<Message>]>([])
    let log = Log()
    let actors = (0..<2).map { index in
      MessageActor<Message>(on: queue, name: "\(index)") { mailbox in
        for message in mailbox {
          switch message {
          case .begin(let reply): reply.complete(try links.withLock { $0[1] }.ask { .ask($0) })
          case .detail(let reply): reply.complete(10)
          case .ask(let reply):
            let reply = saysSo ? reply.handedOn() : reply
            // It runs when this one waits.
            Coroutine(on: queue) { reply.complete(1) }
            do {
              log.add("\(try links.withLock { $0[0] }.ask { .detail($0) })")
            } catch let cycle as AskCycle {
              log.add("\(cycle.actors.count)")
            }
          }
        }
      }
    }
    links.withLock { $0 = actors }
    #expect(try await actors[0].ask { .begin($0) } == 1)
    // Comes after what the other actor still has to do.
    _ = try await actors[1].ask { .detail($0) }
    #expect(log.all == [saysSo ? "10" : "3"])
    for actor in actors { actor.cancel() }
    links.withLock { $0 = [] }
  }

  @Test func oneThatAnsweredMayAskBackInTheSameMessage() async throws {
    enum Message: Sendable {
      case begin(Reply<Int>)
      case ask(Reply<Int>)
      case count(Reply<Int>)
    }
    let links = Guarded<[MessageActor<Message>]>([])
    for scheduler: any Scheduler in [ThreadPool(threads: 2), DispatchQueue(label: "serial")] as [any Scheduler] {
      let actors = (0..<2).map { index in
        MessageActor<Message>(on: scheduler, name: "\(index)") { mailbox in
          var answers = 0
          for message in mailbox {
            switch message {
            case .begin(let reply): reply.complete(try links.withLock { $0[1] }.ask { .ask($0) })
            case .ask(let reply):
              reply.complete(1)
              if index == 1 { answers += try links.withLock { $0[0] }.ask { .ask($0) } }
            case .count(let reply): reply.complete(answers)
            }
          }
        }
      }
      links.withLock { $0 = actors }
      for round in 1...100 {
        #expect(try await actors[0].ask { .begin($0) } == 1)
        // It has asked back by then. If the next `begin` came first, the two would really wait for each other.
        #expect(try await actors[1].ask { .count($0) } == round)
      }
      for actor in actors { actor.cancel() }
      for actor in actors { try await actor.join() }
    }
    links.withLock { $0 = [] }
  }

  /// The end of a message that an ask displaces asks a third actor: the ask around it is found all the same.
  @Test(arguments: [false, true]) func anAskInsideOfAnAskLeavesThatInTheGraph(_ byPromise: Bool) async throws {
    enum Step: Sendable {
      case begin, wait
      case filler(Ending)
      case ask(Reply<String>)
    }
    let log = Log()
    try await serially {
      let other = MessageActor<Message>(name: "other") { mailbox in
        for case .ask(let reply) in mailbox { reply.complete("other") }
      }
      let (gate, firsts) = (Channel<Void>(), Channel<MessageActor<Step>>(capacity: .buffered(1)))
      let second = MessageActor<Step>(name: "second", mailbox: .bounded(1, .dropOldest)) { mailbox in
        let first = try firsts.receive()
        for step in mailbox {
          switch step {
          case .wait: try gate.receive()
          case .ask(let reply):
            do {
              reply.complete(try first.ask { .ask($0) })
            } catch {
              reply.complete("\(type(of: error))")
            }
          case .begin, .filler: break
          }
        }
      }
      let first = MessageActor<Step>(name: "first") { mailbox in
        for step in mailbox {
          switch step {
          case .begin: log.add(try second.ask { .ask($0) })
          case .ask(let reply): reply.complete("first")
          case .wait, .filler: break
          }
        }
      }
      try firsts.send(first)
      try second.tell(.wait)
      while gate.waitingReceiverCount == 0 { Coroutine.yield() }
      try second.tell(
        .filler(
          Ending {
            log.add(
              (try? byPromise ? other.send { .ask($0) }.get() : other.ask { .ask($0) }) ?? "nothing")
          }))
      try first.tell(.begin)
      while log.all.isEmpty { Coroutine.yield() }
      try gate.send(())
      while log.all.count < 2 { Coroutine.yield() }
      for actor in [first, second] { actor.cancel() }
      other.cancel()
    }
    #expect(log.all == ["other", "AskCycle"])
  }

  private final class Ending: Sendable {
    private let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    deinit { body() }
  }
}

extension Result where Success == String, Failure == any Error {
  /// The names of the actors in the cycle.
  fileprivate var names: String {
    switch self {
    case .success(let text): text
    case .failure(let error): (error as? AskCycle)?.actors.joined(separator: ",") ?? "\(error)"
    }
  }
}
