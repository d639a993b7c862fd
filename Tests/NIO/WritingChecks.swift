import Coroutine
import NIOCore
import NIOPosix
import Synchronization

@testable import CoroutineNIO

/// Counts the bytes that pass through it between two flushes.
private final class WriteCounter: ChannelOutboundHandler, Sendable {
  typealias OutboundIn = ByteBuffer
  let most = Atomic<Int>(0)
  private let unflushed = Atomic<Int>(0)

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    let count = unflushed.add(Self.unwrapOutboundIn(data).readableBytes, ordering: .relaxed).newValue
    most.max(count, ordering: .relaxed)
    context.write(data, promise: promise)
  }

  func flush(context: ChannelHandlerContext) {
    unflushed.store(0, ordering: .relaxed)
    context.flush()
  }
}

/// Before it lets the first message pass, it does something with the connection.
private final class Asker: ChannelOutboundHandler, Sendable {
  typealias OutboundIn = ByteBuffer
  private let action = Mutex<(@Sendable () -> Void)?>(nil)

  func atFirst(_ action: @escaping @Sendable () -> Void) { self.action.withLock { $0 = action } }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    action.withLock { $0.take() }?()
    context.write(data, promise: promise)
  }
}

/// Both ends are on that loop.
private func makePair(on group: MultiThreadedEventLoopGroup) throws -> (client: Bytes, server: Bytes) {
  let listener = try NIOListener(ServerBootstrap(group: group), host: "127.0.0.1", port: 0) {
    try Bytes(wrapping: $0)
  }
  guard let address = listener.localAddress else { throw Unexpected(description: "no address") }
  let client = try ClientBootstrap(group: group).connect(to: address) { try Bytes(wrapping: $0) }
  return (client, try listener.accept())
}

private struct WeakHandler: Sendable {
  weak let handler: ConnectionHandler?
}

let writingChecks = [
  Check("writersThatHaveWaitedDoNotPassTheWatermarkTogether") {
    let counter = WriteCounter()
    let (client, server) = try makePair(highWatermark: 10) { try $0.pipeline.syncOperations.addHandler(counter) }
    try Coroutine(on: .eventLoop(server.eventLoop)) {
      try withScope { scope in
        for _ in 0..<50 { _ = scope.launch { try server.write(ByteBuffer(repeating: 1, count: 11)) } }
      }
    }.get()
    server.close()
    try expect("bytes", try client.countToEnd(), 550)
    try expect("at most", counter.most.load(ordering: .relaxed), 33)
  },

  Check("writersOfThePoolDoNotPassTheWatermarkTogether") {
    let counter = WriteCounter()
    let (client, server) = try makePair(highWatermark: 10) { try $0.pipeline.syncOperations.addHandler(counter) }
    let writers = (0..<50).map { _ in
      Coroutine(on: .pool) { try server.write(ByteBuffer(repeating: 1, count: 11)) }
    }
    for writer in writers { try writer.get() }
    server.close()
    try expect("bytes", try client.countToEnd(), 550)
    try expect("at most", counter.most.load(ordering: .relaxed), 11)
  },

  Check("aWriteThatRacesWithTheEndOfItsLoopEnds") {
    let listener = try listen()
    guard let address = listener.localAddress else { throw Unexpected(description: "no address") }
    for _ in 0..<20 {
      let own = MultiThreadedEventLoopGroup(numberOfThreads: 1)
      let client = try ClientBootstrap(group: own).connect(to: address) { try Bytes(wrapping: $0) }
      let server = try listener.accept()
      let reader = Coroutine(on: .pool) { try server.countToEnd() }
      let writers = (0..<4).map { _ in
        Coroutine(on: .pool) { while true { try client.write(text("x")) } }
      }
      try client.write(text("x"))
      try blocking { try own.syncShutdownGracefully() }
      for writer in writers { try expectError(ChannelError.self) { _ = try writer.get() } }
      // The system may report a reset.
      try reader.join()
    }
  },

  Check("aHandlerThatAsksForTheOthersWhileItHasAMessageKeepsTheirOrder") {
    let asks: [@Sendable (Bytes) -> Void] = [
      { $0.flush() }, { _ = $0.channel }, { $0.close() },
      { server in
        _ = Coroutine.immediate(on: .eventLoop(server.eventLoop)) { try server.finishWriting() }
      },
    ]
    for ask in asks {
      let asker = Asker()
      let (client, server) = try makePair { try $0.pipeline.syncOperations.addHandler(asker) }
      try Coroutine(on: .eventLoop(server.eventLoop)) {
        asker.atFirst { ask(server) }
        for letter in ["a", "b", "c"] { try server.write(text(letter)) }
      }.get()
      try expect("what arrives", try client.readText(3), "abc")
      server.close()
    }
  },

  Check("whatIsWrittenWhileAHandlerHasAMessageComesBehindTheOthers") {
    for letters in [["b"], ["a", "b"]] {
      let asker = Asker()
      let log = Log()
      let (client, server) = try makePair { try $0.pipeline.syncOperations.addHandler(asker) }
      try Coroutine(on: .eventLoop(server.eventLoop)) {
        asker.atFirst {
          Coroutine.immediate(on: .eventLoop(server.eventLoop)) {
            try server.writeAndFlush(text("c"))
            log.add("sent")
          }
        }
        for letter in letters { try server.write(text(letter)) }
      }.get()
      try wait { !log.all.isEmpty }
      try expect("what arrives", try client.readText(letters.count + 1), letters.joined() + "c")
      server.close()
    }
  },

  Check("whileAHandlerHasAMessageAWriterWaits") {
    let asker = Asker()
    let log = Log()
    let (client, server) = try makePair { try $0.pipeline.syncOperations.addHandler(asker) }
    try Coroutine(on: .eventLoop(server.eventLoop)) {
      asker.atFirst {
        Coroutine.immediate(on: .eventLoop(server.eventLoop)) {
          for _ in 0..<3 { try server.write(text("c")) }
          for timeout in [Duration.zero, .nanoseconds(1)] {
            try expectError(TimeoutError.self) { try server.write(text("x"), timeout: timeout) }
          }
          for _ in 0..<97 { try server.write(text("c")) }
          log.add("written")
          server.close()
        }
        log.add("passed on")
      }
      try server.write(text("a"))
    }.get()
    try expect("bytes", try client.countToEnd(), 101)
    try expect("order", log.all, ["passed on", "written"])
  },

  Check("aWriterOfThePoolThatHasToWaitForAHandlerGoesOnThere") {
    let asker = Asker()
    let log = Log()
    let (client, server) = try makePair { try $0.pipeline.syncOperations.addHandler(asker) }
    try Coroutine(on: .eventLoop(server.eventLoop)) {
      asker.atFirst {
        // The turn has ended, and no coroutine runs: this one is the pool's, and begins on the loop's thread.
        Coroutine.immediate {
          for _ in 0..<4 { try server.write(text("c")) }
          log.add(server.eventLoop.inEventLoop ? "on the loop" : "on the pool")
          server.close()
        }
        log.add("passed on")
      }
      try server.write(text("a"))
    }.get()
    try expect("bytes", try client.countToEnd(), 5)
    try expect("order", log.all, ["passed on", "on the pool"])
  },

  Check("aPinnedWriterThatAHandlerHasBegunDoesNotWaitForIt") {
    let asker = Asker()
    let (client, server) = try makePair { try $0.pipeline.syncOperations.addHandler(asker) }
    try Coroutine(on: .eventLoop(server.eventLoop)) {
      asker.atFirst {
        Coroutine.immediate(on: .eventLoop(server.eventLoop)) {
          try withThreadPinned { for _ in 0..<5 { try server.write(text("c")) } }
          server.close()
        }
      }
      try server.write(text("a"))
    }.get()
    try expect("bytes", try client.countToEnd(), 6)
  },

  Check("behindTheEndOfWritingOrTheCloseAWriteIsRefused") {
    let ends: [@Sendable (Bytes) throws -> Void] = [
      { try $0.finishWriting() }, { $0.close() },
      { try $0.channel.close(mode: .output).get() },
    ]
    for end in ends {
      let (client, server) = try makePair(halves: true)
      let write: @Sendable () throws -> Void = {
        try expectError(ChannelError.self) { try server.write(text("late")) }
        try expectError(ChannelError.self) { try server.writeAndFlush(text("late")) }
      }
      try Coroutine(on: .eventLoop(server.eventLoop)) {
        try server.write(text("before"))
        try end(server)
        try write()
      }.get()
      try Coroutine(on: .pool) { try write() }.get()
      try expect("what arrives", try client.readText(100), "before")
      client.close()
    }
  },

  Check("aWriteIsRefusedAlsoWhereThePeerHoldsUpTheEnd") {
    let (client, server) = try makePair(highWatermark: 1, halves: true)
    try Coroutine(on: .eventLoop(server.eventLoop)) {
      try server.write(ByteBuffer(repeating: 1, count: 16 << 20))
      server.close()
      try expectError(ChannelError.self) { try server.write(text("late")) }
    }.get()
    try expect("bytes", try client.countToEnd(), 16 << 20)
  },

  Check("aReaderDoesNotRunOnTopOfAHandlerThatHasAMessage") {
    // By a handler's code, which is in no turn; by another thread.
    let ways: [@Sendable (Bytes) throws -> Void] = [
      { server in
        try server.eventLoop.submit {
          Coroutine.immediate(on: .eventLoop(server.eventLoop)) {
            for letter in ["a", "b"] { try server.write(text(letter)) }
          }
          server.flush()
        }.get()
      },
      { server in for letter in ["a", "b"] { try on(.pool) { try server.write(text(letter)) } } },
    ]
    for write in ways {
      let asker = Asker()
      let log = Log()
      let (client, server) = try makePair { try $0.pipeline.syncOperations.addHandler(asker) }
      let reader = Coroutine(on: .eventLoop(server.eventLoop)) {
        _ = try server.read()
        log.add("read")
      }
      try wait { reader.suspension != nil }
      asker.atFirst {
        let pipeline = server.channel.pipeline
        pipeline.fireChannelRead(ByteBuffer(string: "?"))
        pipeline.fireChannelReadComplete()
        log.add("passed on")
      }
      try write(server)
      try reader.get()
      try expect("order", log.all, ["passed on", "read"])
      try expect("what arrives", try client.readText(2), "ab")
      server.close()
    }
  },

  Check("aConnectionGoesWhenItsMessagesAreGiven") {
    let one = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let handlers = try Coroutine(on: .eventLoop(one.next())) {
      let (client, server) = try makePair(on: one)
      let (other, peer) = try makePair(on: one)
      for letter in ["a", "b", "c", "d", "e"] {
        for connection in [server, peer] { try connection.write(text(letter)) }
      }
      for connection in [client, other] { try expect("what arrives", try connection.readText(5), "abcde") }
      // One alone, which was listed before the other.
      try server.write(text("f"))
      try expect("what arrives", try client.readText(1), "f")
      for connection in [server, peer] { try connection.write(text("z")) }
      return [server, peer].map { WeakHandler(handler: $0.storage.handler) }
    }.get()
    try wait { handlers.allSatisfy { $0.handler == nil } }
    one.shutdownGracefully { _ in }
  },
]
