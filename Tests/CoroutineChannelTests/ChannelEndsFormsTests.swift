// SPDX-License-Identifier: Apache-2.0

import Coroutine
import CoroutineTestSupport
import Testing

/// The forms of the ends' operations that only hand on to the channel's: each does what the channel's does.
@Suite(.ownThreads) struct ChannelEndsFormsTests {
  @Test func plainThreadsBlockAtTheEnds() throws {
    let (sender, receiver) = Channel<Int>.makeEnds(capacity: .buffered(1))
    try sender.sendBlocking(1)
    #expect(throws: TimeoutError.self) { try sender.sendBlocking(2, timeout: .zero) }
    #expect(try receiver.receiveBlocking() == 1)
    #expect(throws: TimeoutError.self) { try receiver.receiveBlocking(timeout: .zero) }
  }

  @Test func elementsComeBackThatWereNotSent() async throws {
    let (sender, receiver) = Channel<Int>.makeEnds(capacity: .buffered(1))
    #expect(await sender.send(orReturn: 1).isSent)
    #expect(await sender.send(orReturn: 2, timeout: .zero) == .timedOut(2))
    let (outcome, element) = try await Coroutine {
      (sender.send(orReturn: 3, timeout: .zero), try receiver.receive())
    }.get()
    #expect(outcome == .timedOut(3) && element == 1)
    receiver.close()
    #expect(sender.isClosed)
    #expect(await sender.send(orReturn: 4) == .closed(4))
  }

  @Test func theySayWhoseEndsTheyAre() {
    let (sender, receiver) = Channel<Int>.makeEnds(name: "frames")
    #expect("\(sender)".hasPrefix("a sender of ") && "\(sender)".contains("frames"))
    #expect("\(receiver)".hasPrefix("a receiver of ") && "\(receiver)".contains("frames"))
  }

  @Test func anIteratorIsUsedWithoutIsolation() async throws {
    let (sender, receiver) = Channel<Int>.makeEnds(capacity: .buffered(2))
    try await sender.send(1)
    sender.close()
    var iterator = receiver.makeAsyncIterator()
    #expect(await iterator.next() == 1)
    #expect(await iterator.next() == nil)
  }

  @Test func waitsUntilAnInstantOfAClockInAsyncCode() async throws {
    let (sender, receiver) = Channel<Int>.makeEnds(capacity: .buffered(1))
    let clock = ContinuousClock()
    try await sender.send(1, until: clock.now, clock: clock)
    await #expect(throws: TimeoutError.self) { try await sender.send(2, until: clock.now, clock: clock) }
    #expect(try await receiver.receive(until: clock.now, clock: clock) == 1)
    await #expect(throws: TimeoutError.self) { try await receiver.receive(until: clock.now, clock: clock) }
  }
}
