// SPDX-License-Identifier: Apache-2.0

import Coroutine
import Measurement

extension Workload {
  /// A message to an actor, with an answer and without, beside Swift's own actors.
  static func acting() -> [Workload] {
    [asking(), askingByTwo(), telling()]
  }

  private static func asking() -> Workload {
    Workload(
      "actor, ask, one caller", cores: [1, 2],
      subjects: [
        .coroutine("MessageActor.ask", promises: .noAllocation) { count in
          let counter = makeCounter()
          let last = ask(counter, count)
          counter.cancel()
          return last
        }.counted(),
        .task("Swift's actor, awaited") { count in
          let counter = CountingActor()
          var last = 0
          for _ in 0..<count { last = seen(await counter.increment()) }
          return last
        },
        .peer("Go, channel and channel of answers", .go),
      ])
  }

  private static func askingByTwo() -> Workload {
    Workload(
      "actor, ask, two callers", cores: [2],
      subjects: [
        .coroutine("MessageActor.ask", granularity: 2) { count in
          let counter = makeCounter()
          let two = (0..<2).map { _ in Coroutine { ask(counter, count / 2) } }
          for one in two { _ = try? one.get() }
          let total = (try? counter.ask { .increment($0) }).unwrapped - 1
          counter.cancel()
          return total
        },
        .task("Swift's actor, awaited", granularity: 2) { count in
          let counter = CountingActor()
          let two = (0..<2).map { _ in
            Task { for _ in 0..<count / 2 { _ = seen(await counter.increment()) } }
          }
          for one in two { await one.value }
          return await counter.count
        },
        .peer("Go, channel and channels of answers", .go, granularity: 2),
      ])
  }

  private static func telling() -> Workload {
    Workload(
      "actor, tell, received and handled", cores: [1, 2],
      subjects: [
        // Its mailbox grows with the messages that are sent before the actor runs.
        .coroutine("MessageActor.tell, unbounded", promises: .hardlyAnyAllocation, granularity: 1000) { count in
          tell(makeCounter(), count)
        },
        .coroutine("MessageActor.tell, bounded(100)", promises: .noAllocation) { count in
          tell(makeCounter(.bounded(100)), count)
        }.counted(),
        .peer("Go, channel with a buffer of 100", .go),
        .task("Swift's actor, Task { await }, one after another") { count in
          let counter = CountingActor()
          for _ in 0..<count - 1 { await Task { await counter.note() }.value }
          return await counter.increment()
        },
      ])
  }
}

private enum Counting: Sendable {
  case note
  case increment(Reply<Int>)
}

private func makeCounter(_ mailbox: MailboxPolicy = .unbounded) -> MessageActor<Counting> {
  MessageActor<Counting>(mailbox: mailbox) { mailbox in
    var count = 0
    for message in mailbox {
      count += 1
      if case .increment(let reply) = message { reply.complete(count) }
    }
  }
}

/// That many questions, one after another. Returns the last one's answer.
private func ask(_ counter: MessageActor<Counting>, _ count: Int) -> Int {
  var last = 0
  for _ in 0..<count { last = (try? counter.ask { .increment($0) }).unwrapped }
  return last
}

/// The last one asks for an answer, so that all have been handled.
private func tell(_ counter: MessageActor<Counting>, _ count: Int) -> Int {
  for _ in 0..<count - 1 { try? counter.tell(.note) }
  let last = try? counter.ask { .increment($0) }
  counter.cancel()
  return last ?? .min
}
