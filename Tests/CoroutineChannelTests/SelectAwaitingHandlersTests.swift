// SPDX-License-Identifier: Apache-2.0

import Coroutine
import CoroutineTestSupport
import Testing

/// Cases in `async` code whose handlers await: of the ends of channels, and of broadcasts.
@Suite(.ownThreads) struct SelectAwaitingHandlersTests {
  @Test func selectsInAsyncCodeTakeTheEnds() async throws {
    let (sender, receiver) = Channel<Int>.makeEnds(capacity: .buffered(1))
    let wasSent = try await select {
      sender.onSend(1) { () async throws -> Bool in
        await _Concurrency.Task.yield()
        return true
      }
    }
    #expect(wasSent)
    let element = try await select {
      receiver.onReceive { (element: Int) async throws -> Int in
        await _Concurrency.Task.yield()
        return element
      }
    }
    #expect(element == 1)
    sender.close()
    let last = try await select {
      receiver.onNext { (element: Int?) async throws -> Int? in
        await _Concurrency.Task.yield()
        return element
      }
    }
    #expect(last == nil)
  }

  @Test func theEndsLiveAsLongAsAHandlerThatAwaits() async throws {
    let channel: ChannelSender<Int>
    do {
      let (sender, receiver) = Channel<Int>.makeEnds(capacity: .buffered(1))
      channel = sender
      try await sender.send(1)
      // The receiver's last use is the select: its end must not close the channel before the handler is done.
      let isOpen = try await select {
        receiver.onReceive { (_: Int) async throws -> Bool in
          await _Concurrency.Task.yield()
          return !sender.isClosed
        }
      }
      #expect(isOpen)
    }
    #expect(channel.isClosed)
  }

  @Test func broadcastsAreSentAndReceived() async throws {
    let broadcast = BroadcastChannel<Int>(capacity: 1)
    let subscription = broadcast.subscribe()
    let wasSent = try await select {
      broadcast.onSend(1) { () async throws -> Bool in
        await _Concurrency.Task.yield()
        return true
      }
    }
    #expect(wasSent)
    let element = try await select {
      subscription.onReceive { (element: Int) async throws -> Int in
        await _Concurrency.Task.yield()
        return element
      }
    }
    #expect(element == 1)
    broadcast.close()
    let last = try await select {
      subscription.onNext { (element: Int?) async throws -> Int? in
        await _Concurrency.Task.yield()
        return element
      }
    }
    #expect(last == nil)
    await #expect(throws: ChannelClosed<Int>.self) {
      try await select { subscription.onReceive { (_: Int) async throws in await _Concurrency.Task.yield() } }
    }
  }
}
