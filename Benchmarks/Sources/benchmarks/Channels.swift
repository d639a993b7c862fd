// SPDX-License-Identifier: Apache-2.0

import AsyncAlgorithms
import Coroutine
import Measurement

extension Workload {
  /// Messages between coroutines.
  static func channels() -> [Workload] {
    [rendezvous(), messages(capacity: 0, pairs: 1), messages(capacity: 0, pairs: 4)]
      + [messages(capacity: 100, pairs: 1), messages(capacity: 100, pairs: 4), alone(), selecting()]
  }

  /// One coroutine asks, and another one answers, over two channels without buffers.
  private static func rendezvous() -> Workload {
    Workload(
      "rendezvous, round trip over two channels", cores: [1, 2],
      subjects: [
        .coroutine("Channel", promises: .noAllocation) { count in
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
        }.counted(),
        .peer("Go, unbuffered channels", .go),
        .peer("Boost.Fiber, unbuffered_channel", .boostFiber),
        .task("AsyncStream, two") { count in await roundTripsByStreams(count) },
        .task("AsyncChannel, two") { count in await roundTripsByAsyncChannels(count) },
      ])
  }

  /// Messages in one direction, from as many senders to as many receivers. The result is what the receivers count.
  private static func messages(capacity: Int, pairs: Int) -> Workload {
    let buffer = capacity == 0 ? "channel without a buffer" : "channel with a buffer of \(capacity)"
    var subjects = [
      Subject.coroutine(
        "Channel", promises: pairs == 1 ? .noAllocation : .hardlyAnyAllocation, granularity: pairs
      ) { count in
        receivedByChannel(capacity == 0 ? .rendezvous : .buffered(capacity), pairs, count)
      }.counted(),
      .peer("Go, channel", .go, granularity: pairs),
      .peer(
        capacity == 0 ? "Boost.Fiber, unbuffered_channel" : "Boost.Fiber, buffered_channel", .boostFiber,
        granularity: pairs),
    ]
    if capacity == 0 {
      subjects.append(
        .task("AsyncChannel", granularity: pairs) { count in await receivedByAsyncChannel(pairs, count) })
    } else if pairs == 1 {
      subjects.append(.task("AsyncStream, without a limit") { count in await receivedByStream(count) })
    }
    return Workload("\(buffer), \(pairs) to \(pairs), one message", cores: [1, 2], subjects: subjects)
  }

  /// A channel on which neither side ever has to wait.
  private static func alone() -> Workload {
    Workload(
      "channel with a buffer, sent and received by one",
      subjects: [
        .coroutine("send, receive", promises: .noAllocation) { count in
          let channel = Channel<Int>(capacity: .buffered(100))
          var received = 0
          for number in 0..<count {
            try? channel.send(number)
            if (try? channel.receive()) == number { received += 1 }
          }
          return received
        },
        .coroutine("trySend, tryReceive", promises: .noAllocation) { count in
          let channel = Channel<Int>(capacity: .buffered(100))
          var received = 0
          for number in 0..<count {
            if channel.trySend(number).isSent, channel.tryReceive() == .received(number) { received += 1 }
          }
          return received
        },
        .peer("Go, channel", .go),
      ])
  }

  /// Four channels with an element each. The element that was received is sent back.
  private static func selecting() -> Workload {
    Workload(
      "select of four, all ready, and one send", cores: [1, 2],
      subjects: [
        .coroutine("select", promises: .noAllocation) { count in
          let channels = (0..<4).map { _ in Channel<Int>(capacity: .buffered(1)) }
          let (first, second, third, fourth) = (channels[0], channels[1], channels[2], channels[3])
          for index in 0..<4 { try? channels[index].send(index) }
          var chosen = 0
          for _ in 0..<count {
            let index = try? select {
              first.onReceive { $0 }
              second.onReceive { $0 }
              third.onReceive { $0 }
              fourth.onReceive { $0 }
            }
            guard let index else { return -1 }
            try? channels[index].send(index)
            chosen += 1
          }
          return chosen
        }.counted(),
        .peer("Go, select", .go),
      ])
  }
}

@inline(never)
func receivedByChannel(_ capacity: ChannelCapacity, _ pairs: Int, _ count: Int) -> Int {
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

@inline(never)
private func receivedByAsyncChannel(_ pairs: Int, _ count: Int) async -> Int {
  let channel = AsyncChannel<Int>()
  let senders = (0..<pairs).map { _ in
    Task { for number in 0..<count / pairs { await channel.send(number) } }
  }
  let receivers = (0..<pairs).map { _ in
    Task { await channel.reduce(0) { received, _ in received + 1 } }
  }
  for sender in senders { await sender.value }
  channel.finish()
  var received = 0
  for receiver in receivers { received += await receiver.value }
  return received
}

@inline(never)
private func receivedByStream(_ count: Int) async -> Int {
  let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
  let sender = Task {
    for number in 0..<count { continuation.yield(number) }
    continuation.finish()
  }
  let received = await stream.reduce(0) { received, _ in received + 1 }
  await sender.value
  return received
}

@inline(never)
private func roundTripsByStreams(_ count: Int) async -> Int {
  let (questions, ask) = AsyncStream.makeStream(of: Int.self)
  let (answers, reply) = AsyncStream.makeStream(of: Int.self)
  let partner = Task { for await question in questions { reply.yield(question + 1) } }
  var number = 0
  var incoming = answers.makeAsyncIterator()
  for _ in 0..<count {
    ask.yield(number)
    number = await incoming.next().unwrapped
  }
  ask.finish()
  await partner.value
  return number
}

@inline(never)
private func roundTripsByAsyncChannels(_ count: Int) async -> Int {
  let questions = AsyncChannel<Int>()
  let answers = AsyncChannel<Int>()
  let partner = Task { for await question in questions { await answers.send(question + 1) } }
  var number = 0
  var incoming = answers.makeAsyncIterator()
  for _ in 0..<count {
    await questions.send(number)
    number = await incoming.next().unwrapped
  }
  questions.finish()
  await partner.value
  return number
}
