import Coroutine
import Dispatch
import NIOCore
import NIOPosix
import Synchronization

@testable import CoroutineNIO

/// Counts the flushes that pass through it.
private final class FlushCounter: ChannelOutboundHandler, Sendable {
  typealias OutboundIn = ByteBuffer
  let count = Atomic<Int>(0)

  func flush(context: ChannelHandlerContext) {
    count.add(1, ordering: .relaxed)
    context.flush()
  }
}

/// Keeps the loop's thread where the end of the channel is about to be told.
private final class HeldEnd: ChannelInboundHandler, Sendable {
  typealias InboundIn = ByteBuffer
  let (reached, goesOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))

  func channelInactive(context: ChannelHandlerContext) {
    reached.signal()
    goesOn.wait()
    context.fireChannelInactive()
  }
}

/// Puts brackets around each message.
private final class Bracketer: ChannelOutboundHandler, RemovableChannelHandler, Sendable {
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    let message = text("[\(String(buffer: Self.unwrapOutboundIn(data)))]")
    context.write(Self.wrapOutboundOut(message), promise: promise)
  }
}

/// Before it lets a message pass, for the first one, the channel reads something.
private final class Interjecter: ChannelDuplexHandler, Sendable {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer
  typealias OutboundIn = ByteBuffer
  private let isDone = Atomic<Bool>(false)

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    if !isDone.exchange(true, ordering: .relaxed) {
      context.fireChannelRead(Self.wrapInboundOut(text("!")))
      context.fireChannelReadComplete()
    }
    context.write(data, promise: promise)
  }
}

/// Goes when it has let a message pass.
private final class OneShot: ChannelOutboundHandler, RemovableChannelHandler, Sendable {
  typealias OutboundIn = ByteBuffer

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    context.write(data, promise: promise)
    context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
  }
}

/// Reports an error when a message asks for it.
private final class ErrorReporter: ChannelInboundHandler, Sendable {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let bytes = Self.unwrapInboundIn(data)
    if String(buffer: bytes).hasSuffix("!") {
      context.fireChannelRead(data)
      context.fireErrorCaught(Failure())
    } else {
      context.fireChannelRead(data)
    }
  }
}

/// Writes until the peer, which does not read, holds it up. Then lets the peer read: no byte is lost or written
/// twice.
private func expectBackPressure(on scheduler: some Scheduler, _ client: Bytes, _ server: Bytes) throws {
  let piece = ByteBuffer(repeating: 7, count: 1 << 16)
  let writer = Coroutine(on: scheduler) {
    var count = 0
    do {
      while count < 1 << 30 {
        try client.write(piece, timeout: .milliseconds(100))
        count += piece.readableBytes
      }
    } catch is TimeoutError {}
    return count
  }
  let written = try writer.get()
  try expect("held up before it has written a gigabyte", written < 1 << 30)
  client.close()
  try expect("bytes that arrive", try server.countToEnd(), written)
}

let connectionChecks = [
  Check("messagesComeInTheirOrderAndThenTheEnd") {
    let (client, server) = try makePair()
    let sum = Coroutine(on: .eventLoop(server.eventLoop)) { try server.countToEnd() }
    for number in 0..<1000 { try client.write(text("\(number % 10)")) }
    client.close()
    try expect("bytes", try sum.get(), 1000)
    try expect("nothing after the end", try server.read() == nil)
  },

  // The operation uses the handler, and its caller nothing behind it: what closes the channel must stay until it ends. (An optimiser
  // could let it go earlier, if the operation did not extend its life. These checks are not optimised.)
  Check("aConnectionLastsAsLongAsItsLastOperation") {
    let loop = group.next()
    for scheduler in [{ .pool }, { EventLoopScheduler.of(loop) }] as [() -> any Scheduler] {
      let listener = try listen()
      func begin(on scheduler: some Scheduler) -> Coroutine<String, any Error> {
        Coroutine(on: scheduler) { try connect(listener).read().map { String(buffer: $0) } ?? "the end" }
      }
      let reader = begin(on: scheduler())
      let server = try listener.accept()
      try expectError(TimeoutError.self) { _ = try server.read(timeout: .milliseconds(50)) }
      try server.write(text("answer"))
      try expect("what the last reader gets", try reader.get(), "answer")
      try expect("the end behind it", try server.read() == nil)
    }
  },

  Check("aWriteThatTheLoopFindsBehindTheEndThrows") {
    let end = HeldEnd()
    let (client, server) = try makePair { try $0.pipeline.syncOperations.addHandler(end) }
    client.close()
    end.reached.wait()
    let writer = Coroutine(on: .pool) { try server.write(text("too late")) }
    // It waits for the loop.
    while writer.suspension == nil { try Coroutine.sleep(for: .milliseconds(1)) }
    end.goesOn.signal()
    try expectError(ChannelError.self) { try writer.get() }
  },

  Check("aConnectionWithoutAnOwnerCutsOffAPeerThatTakesNothing") {
    let (client, server) = try makePair(highWatermark: 1)
    let piece = ByteBuffer(repeating: 7, count: 1 << 20)
    try expectError(TimeoutError.self) { while true { try client.write(piece, timeout: .milliseconds(10)) } }
    client.storage.onLoopSoon { $0.close(cuttingOffAfter: .milliseconds(1)) }
    try wait(until: { client.isClosed })
    _ = server
  },

  Check("aConnectionWithoutAnOwnerCutsOffNoPeerThatGoesOnReading") {
    let (client, server) = try makePair(highWatermark: 64 << 20)
    try server.write(ByteBuffer(repeating: 1, count: 32 << 20))
    server.storage.onLoopSoon { $0.close(cuttingOffAfter: .milliseconds(300)) }
    // Each read is of some 64 KiB at most: it takes a multiple of the time.
    var count = 0
    while let bytes = try client.read() {
      count += bytes.readableBytes
      try Coroutine.sleep(for: .milliseconds(3))
    }
    try expect("bytes", count, 32 << 20)
  },

  Check("aSlowReaderHoldsUpAWriterOfTheLoop") {
    let (client, server) = try makePair()
    try expectBackPressure(on: .eventLoop(client.eventLoop), client, server)
  },

  Check("aSlowReaderHoldsUpAWriterOfThePool") {
    let (client, server) = try makePair()
    try expectBackPressure(on: .pool, client, server)
  },

  Check("aReadThatIsCancelledLosesNothing") {
    let (client, server) = try makePair()
    for number in 0..<200 {
      let reader = Coroutine { try server.read() }
      Coroutine { reader.cancel() }
      try client.write(text("\(number % 10)"))
      do {
        try expect("what was read", try reader.get().map { String(buffer: $0) }, "\(number % 10)")
      } catch is CancellationError {
        try expect("what was left", try server.readText(1), "\(number % 10)")
      }
    }
    try expectError(TimeoutError.self) { _ = try server.read(timeout: .zero) }
  },

  Check("whatIsWrittenInATurnIsFlushedOnce") {
    let counter = FlushCounter()
    let (client, server) = try makePair { try $0.pipeline.syncOperations.addHandler(counter) }
    let loop = server.eventLoop
    // They all begin in the first one's turn: the loop is told of that one before the others are there.
    try Coroutine(on: .eventLoop(loop)) {
      let writers = (0..<5).map { _ in Coroutine { for _ in 0..<3 { try server.write(text("x")) } } }
      for writer in writers { try writer.get() }
    }.get()
    try expect("what arrives", try client.readText(15), "xxxxxxxxxxxxxxx")
    try expect("flushes", counter.count.load(ordering: .relaxed), 1)
  },

  Check("aWriteIsFlushedAlsoInAnImmediateCoroutineOfAHandler") {
    let (client, server) = try makePair()
    let job = try server.eventLoop.submit {
      Coroutine.immediate(on: .eventLoop(server.eventLoop)) { try server.write(text("at once")) }
    }.get()
    try job.get()
    try expect("what arrives", try client.readText(7), "at once")
  },

  Check("aMessagePassesTheHandlersThatWereThereWhenItWasWritten") {
    let (client, server) = try makePair { try $0.pipeline.syncOperations.addHandler(Bracketer()) }
    try Coroutine(on: .eventLoop(server.eventLoop)) {
      try server.write(text("a"))
      let pipeline = server.channel.pipeline.syncOperations
      pipeline.removeHandler(context: try pipeline.context(handlerType: Bracketer.self), promise: nil)
      try server.write(text("b"))
    }.get()
    try expect("what arrives", try client.readText(4), "[a]b")
  },

  Check("whatAMessageHasThePipelineReadIsAnsweredBehindIt") {
    let (client, server) = try makePair { try $0.pipeline.syncOperations.addHandler(Interjecter()) }
    Coroutine(on: .eventLoop(server.eventLoop)) {
      while let request = try server.read() { try server.write(request) }
    }
    try client.write(text("?"))
    try expect("what arrives", try client.readText(2), "?!")
    client.close()
  },

  Check("aReaderDoesNotRunOnTopOfACoroutineThatWrites") {
    let (client, server) = try makePair { try $0.pipeline.syncOperations.addHandler(Interjecter()) }
    let log = Log()
    let reader = Coroutine(on: .eventLoop(server.eventLoop)) {
      _ = try server.read()
      log.add("read")
    }
    try wait { reader.suspension != nil }
    try server.eventLoop.submit {
      Coroutine.immediate(on: .eventLoop(server.eventLoop)) {
        try server.write(text("a"))
        server.flush()
        log.add("written")
      }
    }.get().get()
    try reader.get()
    try expect("order", log.all, ["written", "read"])
    try expect("what arrives", try client.readText(1), "a")
  },

  Check("aHandlerThatRemovesItselfInAWriteDoesNotKeepTheFlush") {
    let (client, server) = try makePair { try $0.pipeline.syncOperations.addHandler(OneShot()) }
    try Coroutine(on: .eventLoop(server.eventLoop)) { try server.write(text("a")) }.get()
    try expect("what arrives", try client.readText(1), "a")
  },

  Check("aWriteThatHasBegunOnTheLoopAndGoesOnElsewhereIsGivenByTheLoop") {
    let (client, server) = try makePair(highWatermark: 10)
    // A handler's code, and none of a coroutine of the loop.
    let writer = try server.eventLoop.submit {
      server.channel.write(ByteBuffer(repeating: 1, count: 11), promise: nil)
      return Coroutine.immediate { try server.write(text("x")) }
    }.get()
    try expect("waits", writer.suspension != nil)
    server.flush()
    try writer.get()
    try expect("bytes", try client.readBytes(12).readableBytes, 12)
  },

  Check("theMessagesOfATurnKeepTheirOrderWhateverOperationWritesThem") {
    let (client, server) = try makePair()
    let (other, peer) = try makePair()
    try Coroutine(on: .eventLoop(server.eventLoop)) {
      try server.write(text("a"))
      // Begins at once, within the turn, and waits for its message.
      let flushed = Coroutine.immediate { try server.writeAndFlush(text("b")) }
      try server.write(text("c"))
      if peer.eventLoop === server.eventLoop { try peer.write(text("1")) }
      try server.write(text("d"))
      server.flush()
      try server.write(text("e"))
      try flushed.get()
      try server.write(text("f"))
      server.close()
    }.get()
    try expect("what arrives", try client.readText(6), "abcdef")
    peer.close()
    try expect("at the other", try other.countToEnd(), peer.eventLoop === server.eventLoop ? 1 : 0)
  },

  Check("threeMessagesOfATurnCountForTheWatermark") {
    let (client, server) = try makePair(highWatermark: 10)
    try Coroutine(on: .eventLoop(server.eventLoop)) {
      for _ in 0..<3 { try server.write(ByteBuffer(repeating: 1, count: 11), timeout: .zero) }
      // Nothing is flushed yet.
      try expectError(TimeoutError.self) { try server.write(text("x"), timeout: .zero) }
    }.get()
    server.close()
    try expect("bytes", try client.countToEnd(), 33)
  },

  Check("onceUnwritableEachMessageCountsForTheWatermarkAtOnce") {
    let (client, server) = try makePair(highWatermark: 10)
    try Coroutine(on: .eventLoop(server.eventLoop)) {
      for _ in 0..<2 { try server.writeAndFlush(ByteBuffer(repeating: 1, count: 11)) }
      try server.write(ByteBuffer(repeating: 1, count: 11))
      try expectError(TimeoutError.self) { try server.write(text("x"), timeout: .zero) }
    }.get()
    server.close()
    try expect("bytes", try client.countToEnd(), 33)
  },

  Check("aMessageThatItsTurnHasNotGivenIsDroppedByAClose") {
    let (client, server) = try makePair()
    try Coroutine(on: .eventLoop(server.eventLoop)) {
      let channel = server.channel
      try server.write(text("too late"))
      channel.close(promise: nil)
      try expectError(ChannelError.self) { try server.write(text("later")) }
    }.get()
    try expect("bytes", try client.countToEnd(), 0)
  },

  Check("aWriteThatIsFlushedIsWithTheSystemWhenItReturns") {
    let (client, server) = try makePair()
    for scheduler in [EventLoopScheduler.of(server.eventLoop) as any Scheduler, ThreadPool.shared] {
      func write(on scheduler: some Scheduler) throws {
        try Coroutine(on: scheduler) { try server.writeAndFlush(text("now"), timeout: .seconds(30)) }.get()
      }
      try write(on: scheduler)
      try expect("what arrives", try client.readText(3), "now")
    }
  },

  Check("aCloseSendsFirstWhatWasWritten") {
    let (client, server) = try makePair(highWatermark: 64 << 20)
    let piece = ByteBuffer(repeating: 1, count: 1 << 20)
    try Coroutine(on: .eventLoop(server.eventLoop)) {
      for _ in 0..<16 { try server.write(piece) }
      server.close()
    }.get()
    try expect("bytes", try client.countToEnd(), 16 << 20)
  },

  Check("theLastCopyClosesTheChannel") {
    let server = try Coroutine { try makePair().server }.get()
    try expect("the end", try server.read() == nil)
  },

  Check("afterTheCloseOperationsThrow") {
    let (client, server) = try makePair()
    server.close()
    try expect("the peer's end", try client.read() == nil)
    try wait { server.isClosed }
    try expectError(ChannelError.self) { try server.write(text("late")) }
    try expectError(ChannelError.self) { try server.writeAndFlush(text("late")) }
    try expectError(ChannelError.self) { try server.finishWriting() }
    try expect("read", try server.read() == nil)
    server.close()
    server.flush()
  },

  Check("aWriterThatWaitsLearnsOfTheClose") {
    let (client, server) = try makePair()
    let writer = Coroutine(on: .eventLoop(client.eventLoop)) {
      let piece = ByteBuffer(repeating: 7, count: 1 << 16)
      while true { try client.write(piece) }
    }
    try wait { writer.suspension?.waitsFor == "write on NIO connection \(client.name)" }
    client.channel.close(promise: nil)
    try expectError(ChannelError.self) { _ = try writer.get() }
    server.close()
  },

  Check("anErrorOfAHandlerIsReadAfterWhatCameBefore") {
    let (client, server) = try makePair { try $0.pipeline.syncOperations.addHandler(ErrorReporter()) }
    try client.write(text("help!"))
    try expect("what came before", try server.readText(5), "help!")
    try expectError(Failure.self) { _ = try server.read() }
  },

  Check("theHalvesOfAConnectionEndByThemselves") {
    let (client, server) = try makePair(halves: true)
    try client.write(text("request"))
    try client.finishWriting()
    try expect("request", try server.readText(100), "request")
    try server.write(text("answer"))
    try server.finishWriting()
    try expect("answer", try client.readText(100), "answer")
  },

  Check("behindThePeersEndAllThatWasWrittenIsSentBeforeTheClose") {
    for closesAll in [true, false] {
      let (client, server) = try makePair(highWatermark: 64 << 20, halves: true)
      try client.finishWriting()
      try expect("the peer's end", try server.read() == nil)
      let writer = Coroutine(on: .eventLoop(server.eventLoop)) {
        for _ in 0..<16 { try server.write(ByteBuffer(repeating: 1, count: 1 << 20)) }
        if closesAll { server.close() } else { try server.finishWriting() }
      }
      try expect("bytes", try client.countToEnd(), 16 << 20)
      try writer.get()
    }
  },

  Check("anEndOfWritingSucceedsAlsoWhereThePeersEndComesFirst") {
    let (client, server) = try makePair(highWatermark: 64 << 20, halves: true)
    let writer = Coroutine(on: .eventLoop(server.eventLoop)) {
      for _ in 0..<16 { try server.write(ByteBuffer(repeating: 1, count: 1 << 20)) }
      try server.finishWriting()
    }
    try wait { writer.suspension != nil }
    try client.finishWriting()
    try expect("the peer's end", try server.read() == nil)
    try expect("bytes", try client.countToEnd(), 16 << 20)
    try writer.get()
  },

  Check("aClientMayWrapAnotherChannelThanTheConnectedOne") {
    let (other, peer) = try makePair()
    let listener = try listen()
    guard let address = listener.localAddress else { throw Unexpected(description: "no address") }
    let client = try ClientBootstrap(group: group).connect(to: address) { _ in other }
    try client.write(text("a"))
    try expect("what arrives", try peer.readText(1), "a")
    try listener.accept(timeout: .seconds(30)).channel.close(promise: nil)
  },

  Check("afterTheEndOfItsLoopAConnectionRefuses") {
    let own = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let listener = try listen()
    guard let address = listener.localAddress else { throw Unexpected(description: "no address") }
    let client = try ClientBootstrap(group: own).connect(to: address) { try Bytes(wrapping: $0) }
    try blocking { try own.syncShutdownGracefully() }
    try expect("closed", client.isClosed)
    try expectError(ChannelError.self) { try client.write(text("late")) }
    try expectError(ChannelError.self) { try client.writeAndFlush(text("late")) }
    try expectError(ChannelError.self) { try client.finishWriting() }
    try expect("read", try client.read() == nil)
    client.flush()
    client.close()
  },

  Check("aReadIsACaseOfASelect") {
    let (client, server) = try makePair()
    let stop = Coroutine::Channel<Int>()
    func next() throws -> String {
      try select {
        server.onRead { $0.map { String(buffer: $0) } ?? "end" }
        stop.onReceive { "stop \($0)" }
      }
    }
    try client.writeAndFlush(text("a"))
    try expect("chosen", try next(), "a")
    let job = Coroutine { try stop.send(1) }
    try expect("chosen", try next(), "stop 1")
    try job.get()
    client.close()
    try expect("chosen", try next(), "end")
  },

  Check("aCancelEndsAWriteBeforeItBegins") {
    let (client, server) = try makePair()
    let log = Log()
    let writer = Coroutine(on: .eventLoop(client.eventLoop)) {
      Coroutine.current?.cancel()
      do { try client.write(text("no")) } catch { log.add("\(type(of: error))") }
    }
    try writer.join()
    try expect("error", log.all, ["CancellationError"])
    client.close()
    try expect("bytes", try server.countToEnd(), 0)
  },
]
