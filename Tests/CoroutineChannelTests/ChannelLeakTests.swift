import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

/// 100,000 operations that were not done leave nothing behind: no element, no node, no coroutine.
@Suite(.ownThreads) struct ChannelLeakTests {
  @Test func cancelledTimedOutClosedAndDroppedOperationsLeaveNothing() async throws {
    let live = Live()
    let queue = DispatchQueue(label: "serial")
    let (rounds, batch) = (amount(50, sanitized: 10), 500)  // four of each
    try await Coroutine(on: queue) {
      let channel = Channel<Counted>(capacity: .buffered(2))
      for _ in 0..<2 { try channel.send(Counted(live)) }
      for _ in 0..<rounds {
        let senders = (0..<batch).map { _ in Coroutine { try channel.send(Counted(live)) } }
        Coroutine.yield()
        #expect(channel.storage.machine.senders.count == batch)
        for sender in senders { sender.cancel() }
        for sender in senders { try? sender.get() }
        for _ in 0..<batch { try? channel.send(Counted(live), timeout: .zero) }
      }
      #expect(live.comes(to: 2) && channel.storage.machine.senders.count == 0)

      for _ in 0..<rounds {
        let dropped = Channel<Counted>(capacity: .unbounded)
        for _ in 0..<batch { _ = dropped.trySend(Counted(live)) }
      }
      #expect(live.comes(to: 2))

      for _ in 0..<rounds {
        let closed = Channel<Counted>()
        let receivers = (0..<batch / 2).map { _ in Coroutine { try closed.receive() } }
        Coroutine.yield()
        #expect(closed.storage.machine.receivers.count == batch / 2)
        closed.close()
        for receiver in receivers { _ = try? receiver.get() }
        let other = Channel<Counted>()
        let senders = (0..<batch / 2).map { _ in Coroutine { try other.send(Counted(live)) } }
        Coroutine.yield()
        other.close()
        for sender in senders { _ = try? sender.get() }
      }
      #expect(live.comes(to: 2))
    }.get()
    #expect(live.now == 0, "with the channel")
  }

  @Test func tasksThatWereCancelledLeaveNothing() async throws {
    let live = Live()
    let channel = Channel<Counted>()
    for _ in 0..<20 {
      await withTaskGroup(of: Void.self) { group in
        for _ in 0..<50 {
          group.addTask { try? await channel.send(Counted(live)) }
          group.addTask { try? await channel.send(Counted(live), timeout: .microseconds(1)) }
        }
        group.cancelAll()
      }
    }
    #expect(live.now == 0)
    #expect(channel.storage.machine.senders.count == 0 && channel.storage.machine.receivers.count == 0)
  }
}
