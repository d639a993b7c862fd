import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

/// What a dump says about the waiters at a channel, which it reads without the channel's lock.
@Suite(.ownThreads) struct ChannelDescriptionTests {
  @Test func itTellsTheChannelsElementsAndWaiters() async throws {
    let texts = try await Coroutine(on: DispatchQueue(label: "serial")) { () -> [String] in
      let jobs = Channel<Int>(capacity: .buffered(2), name: "jobs")
      var texts = [jobs.storage.describe(.receive)]
      let coroutines = (0..<2).map { _ in Coroutine { _ = try jobs.receive() } }
      Coroutine.yield()
      texts.append(jobs.storage.describe(.receive))
      for coroutine in coroutines { coroutine.cancel() }
      for coroutine in coroutines { try? coroutine.get() }
      let senders = (0..<3).map { number in Coroutine { try jobs.send(number) } }
      Coroutine.yield()
      texts.append(jobs.storage.describe(.send))
      for _ in senders { _ = try jobs.receive() }
      for sender in senders { try sender.get() }

      let log = Channel<Int>(capacity: .unbounded, name: "log")
      for number in 0..<9 { try log.send(number) }
      texts.append(log.storage.describe(.receive))
      texts.append(Channel<Int>(capacity: .conflated, name: "state").storage.describe(.receive))
      texts.append(Channel<Int>().storage.describe(.receive))
      return texts
    }.get()
    #expect(
      texts == [
        #"receive on channel "jobs" (buffered 0/2)"#, #"receive on channel "jobs" (buffered 0/2, 2 receivers)"#,
        #"send on channel "jobs" (buffered 2/2, 1 sender)"#, #"receive on channel "log" (buffered 9)"#,
        #"receive on channel "state" (conflated)"#, "receive on an unnamed channel",
      ])
  }

  /// It would read what other threads change under the lock; operations, what may have gone.
  @Test func aMirrorShowsNothingOfIt() {
    let channel = Channel<[Int]>(capacity: .unbounded, name: "jobs")
    _ = channel.trySend([42])
    var text = ""
    dump((channel, ThreadPool(threads: 1), CoroutineMutex([42]), BroadcastChannel<Int>().subscribe()), to: &text)
    #expect(text.contains("ChannelStorage") && !text.contains("42") && !text.contains("machine"), "\(text)")
    text = ""
    let pool = BlockingPool(threadLimit: 1)
    dump((Generator<Int> { yield in try yield(1) }, pool), to: &text)
    #expect(!text.contains("Unmanaged") && !text.contains("machine"), "\(text)")
    text = ""
    dump((AsyncGenerator<Int> { _ in }.onNext { _ in }.operations, channel.onReceive { _ in }.operations), to: &text)
    #expect(!text.contains("Unmanaged") && !text.contains("Storage"), "\(text)")
  }

  @Test func itMayBeReadWhileOthersWork() async throws {
    let channel = Channel<Int>(capacity: .buffered(3), name: "jobs")
    let sender = Coroutine { for value in 0..<3_000 { try channel.send(value) } }
    let receiver = Coroutine { for _ in 0..<3_000 { _ = try channel.receive() } }
    while !receiver.isFinished {
      #expect(channel.storage.describe(.receive).hasPrefix(#"receive on channel "jobs" (buffered "#))
      #expect((0...3).contains(channel.count))
      _ = (channel.isFull, channel.isEmpty, channel.isClosed)
      await Task.yield()
    }
    try await sender.get()
    try await receiver.get()
  }
}
