import Coroutine
import Measurement

extension Workload {
  /// What coroutines do with each other on the pool, which has one thread when the process is pinned to one processor.
  static func scheduling() -> [Workload] {
    [yielding(), spawning(), rendezvous(), messages()]
  }

  /// Two coroutines that let each other run in turn.
  private static func yielding() -> Workload {
    Workload(
      "Coroutine.yield(), one turn", missing: Yardstick.missing,
      subjects: Yardstick.subjects + [
        subject("two coroutines", promises: .noAllocation, granularity: 2) { turns in
          let other = Coroutine { takeTurns(turns / 2) }
          return takeTurns(turns / 2) + (try? other.get()).unwrapped
        },
        Subject("two tasks, Task.yield()", comparedWith: Yardstick.name, granularity: 2, expecting: \.self) { turns in
          Surroundings.task {
            await .timedAsync {
              async let other = takeTurnsAsync(turns / 2)
              return await takeTurnsAsync(turns / 2) + other
            }
          }
        },
      ])
  }

  private static func spawning() -> Workload {
    let batch = 10_000
    return Workload(
      "spawn and finish, one coroutine", missing: Yardstick.missing,
      subjects: Yardstick.subjects + [
        subject("one at a time, joined") { count in
          var finished = 0
          for _ in 0..<count { finished += (try? Coroutine { 1 }.get()).unwrapped }
          return finished
        },
        subject("batches of 10,000, then joined", granularity: batch) { count in
          var finished = 0
          for _ in 0..<count / batch {
            let coroutines = (0..<batch).map { _ in Coroutine { 1 } }
            for coroutine in coroutines { finished += (try? coroutine.get()).unwrapped }
          }
          return finished
        },
        Subject("Task, one at a time, awaited", comparedWith: Yardstick.name, expecting: \.self) { count in
          Surroundings.task {
            await .timedAsync {
              var finished = 0
              for _ in 0..<count { finished += await Task { 1 }.value }
              return finished
            }
          }
        },
        Subject(
          "Task, batches of 10,000, then awaited", comparedWith: Yardstick.name, granularity: batch,
          expecting: \.self
        ) { count in
          Surroundings.task {
            await .timedAsync {
              var finished = 0
              for _ in 0..<count / batch {
                let tasks = (0..<batch).map { _ in Task { 1 } }
                for task in tasks { finished += await task.value }
              }
              return finished
            }
          }
        },
      ])
  }

  /// One coroutine asks, another answers, over two channels without buffers.
  private static func rendezvous() -> Workload {
    Workload(
      "rendezvous, round trip over two channels", missing: Yardstick.missing,
      subjects: Yardstick.subjects + [
        subject("two coroutines", promises: .noAllocation) { count in
          let questions = Channel<Int>()
          let answers = Channel<Int>()
          let partner = Coroutine {
            for question in questions.received { try? answers.send(question + 1) }
          }
          var number = 0
          for _ in 0..<count {
            try? questions.send(number)
            number = (try? answers.receive()).unwrapped
          }
          questions.close()
          try? partner.get()
          return number
        }
      ])
  }

  /// Messages in one direction. The receivers' count is the result.
  private static func messages() -> Workload {
    func channel(_ name: String, _ capacity: ChannelCapacity, pairs: Int) -> Subject {
      subject("\(name), \(pairs) to \(pairs)", granularity: pairs) { count in
        let channel = Channel<Int>(capacity: capacity)
        let senders = (0..<pairs).map { _ in
          Coroutine { for number in 0..<count / pairs { try channel.send(number) } }
        }
        let receivers = (0..<pairs).map { _ in
          Coroutine { channel.received.reduce(0) { received, _ in received + 1 } }
        }
        for sender in senders { try? sender.get() }
        channel.close()
        return receivers.reduce(0) { received, receiver in received + (try? receiver.get()).unwrapped }
      }
    }
    return Workload(
      "channel, one message", missing: Yardstick.missing,
      subjects: Yardstick.subjects + [
        channel("rendezvous", .rendezvous, pairs: 1),
        channel("buffered(100)", .buffered(100), pairs: 1),
        channel("buffered(100)", .buffered(100), pairs: 4),
        channel("unbounded", .unbounded, pairs: 1),
        subject("buffered(100), by one coroutine", promises: .noAllocation) { count in
          let channel = Channel<Int>(capacity: .buffered(100))
          var received = 0
          for number in 0..<count {
            try? channel.send(number)
            if (try? channel.receive()) == number { received += 1 }
          }
          return received
        },
        subject("trySend, tryReceive", promises: .noAllocation) { count in
          let channel = Channel<Int>(capacity: .buffered(100))
          var received = 0
          for number in 0..<count {
            if channel.trySend(number).isSent, channel.tryReceive() == .received(number) { received += 1 }
          }
          return received
        },
      ])
  }

  /// A loop that runs inside a coroutine, where its `count` operations return `count`.
  private static func subject(
    _ system: String, promises: Promises = [], granularity: Int = 1, _ loop: @escaping @Sendable (Int) -> Int
  ) -> Subject {
    Subject(
      system, backend: Coroutine.backendName, comparedWith: Yardstick.name, promises: promises,
      granularity: granularity, expecting: \.self
    ) { count in
      Surroundings.coroutine { .timed { loop(count) } }
    }
  }
}

@inline(never)
private func takeTurns(_ count: Int) -> Int {
  for _ in 0..<count { Coroutine.yield() }
  return count
}

@inline(never)
private func takeTurnsAsync(_ count: Int) async -> Int {
  for _ in 0..<count { await Task.yield() }
  return count
}

extension Optional where Wrapped == Int {
  /// A number that makes the check of the loop's result fail, instead of an error that the loop has no use for.
  fileprivate var unwrapped: Int { self ?? .min / 2 }
}
