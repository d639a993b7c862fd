import Coroutine
import Measurement

extension Workload {
  /// Messages to an actor, with an answer and without, beside Swift's own.
  static func acting() -> [Workload] {
    [asking(), telling()]
  }

  private static func asking() -> Workload {
    let peer = "Swift's actor, awaited"
    return Workload(
      "actor, ask, uncontended", missing: Yardstick.missing,
      subjects: Yardstick.subjects + [
        Subject(peer, comparedWith: Yardstick.name, expecting: \.self) { count in
          Surroundings.task {
            let counter = Counter()
            return await .timedAsync {
              var last = 0
              for _ in 0..<count { last = outside(await counter.increment()) }
              return last
            }
          }
        },
        subject("ask", comparedWith: peer, promises: .noAllocation) { count in
          let counter = makeCounter()
          var last = 0
          for _ in 0..<count { last = outside((try? counter.ask { .increment($0) }) ?? .min) }
          counter.cancel()
          return last
        },
      ])
  }

  private static func telling() -> Workload {
    Workload(
      "actor, tell, sent and handled", missing: Yardstick.missing,
      subjects: Yardstick.subjects + [
        subject("tell, unbounded", comparedWith: Yardstick.name, granularity: 1000) { count in
          tell(makeCounter(), count)
        },
        subject("tell, bounded(100)", comparedWith: Yardstick.name) { count in
          tell(makeCounter(.bounded(100)), count)
        },
        Subject("Swift's actor, Task for each, awaited", comparedWith: Yardstick.name, expecting: \.self) { count in
          Surroundings.task {
            let counter = Counter()
            return await .timedAsync {
              for _ in 0..<count - 1 { await Task { await counter.note() }.value }
              return await counter.increment()
            }
          }
        },
      ])
  }

  /// A loop that runs inside a coroutine, where its `count` operations return `count`.
  private static func subject(
    _ system: String, comparedWith reference: String, promises: Promises = [], granularity: Int = 1,
    _ loop: @escaping @Sendable (Int) -> Int
  ) -> Subject {
    Subject(
      system, backend: Coroutine.backendName, comparedWith: reference, promises: promises, granularity: granularity,
      expecting: \.self
    ) { count in
      Surroundings.coroutine { .timed { loop(count) } }
    }
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

/// The last one is a question, so that all have been handled.
private func tell(_ counter: MessageActor<Counting>, _ count: Int) -> Int {
  for _ in 0..<count - 1 { try? counter.tell(.note) }
  let last = try? counter.ask { .increment($0) }
  counter.cancel()
  return last ?? .min
}

private actor Counter {
  private var count = 0

  func note() { count += 1 }

  func increment() -> Int {
    count += 1
    return count
  }
}

/// Something that the caller does with an answer where he is at home. Without it the optimiser may leave a task that calls
/// an actor in a loop on that actor: what it would measure then is no call from elsewhere.
@inline(never)
private func outside(_ answer: Int) -> Int { answer }
