import Coroutine
import CoroutineNIO
import Dispatch
import NIOCore
import NIOPosix
import Synchronization

private func echo(_ connection: Bytes) throws {
  while let bytes = try connection.read() { try connection.write(bytes) }
}

/// Tells of the first bytes.
private final class Arrival: ChannelInboundHandler, Sendable {
  typealias InboundIn = ByteBuffer
  let promise = group.next().makePromise(of: Void.self)

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    promise.succeed()
    context.fireChannelRead(data)
  }
}

/// Keeps the end of this side's half back until the channel is closed, as NIO's handler of TLS does in a handshake.
private final class HalfKeeper: ChannelOutboundHandler, @unchecked Sendable {
  typealias OutboundIn = ByteBuffer
  private var kept: [EventLoopPromise<Void>] = []

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    guard mode == .output else { return context.close(mode: mode, promise: promise) }
    if let promise { kept.append(promise) }
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    for promise in kept { promise.fail(ChannelError.ioOnClosedChannel) }
  }
}

/// Counts what a server's channel accepts.
private final class AcceptCounter: ChannelInboundHandler, Sendable {
  typealias InboundIn = any NIOCore::Channel
  let count = Atomic<Int>(0)

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    count.add(1, ordering: .relaxed)
    context.fireChannelRead(data)
  }
}

let serverChecks = [
  Check("aServerWithoutDescriptorsWaitsAndGoesOn") {
    let (status, text) = try run("shortage")
    try expect("an end, but \(status): \(text)", status == 0)
  },

  Check("manyMoreConnectionsThanAreAcceptedAheadAreAllServed") {
    let listener = try listen()
    let server = Coroutine(on: .pool) { try listener.serve(limit: 30, echo) }
    let clients = (0..<200).map { number in
      Coroutine(on: .pool) {
        let client = try connect(listener)
        try client.write(text("hello"))
        try expect("echo", try client.readText(5), "hello")
        client.close()
        try expect("end", try client.read() == nil)
      }
    }
    for client in clients { try client.get() }
    server.cancel()
    try expectError(CancellationError.self) { try server.get() }
  },

  Check("noMoreRunThanTheLimitAllows") {
    let listener = try listen()
    let running = Atomic<Int>(0)
    let most = Atomic<Int>(0)
    let gate = Coroutine::Channel<Int>()
    let server = Coroutine(on: .pool) {
      try listener.serve(limit: 2) { connection in
        let now = running.add(1, ordering: .relaxed).newValue
        _ = most.max(now, ordering: .relaxed)
        _ = try gate.receive()
        running.subtract(1, ordering: .relaxed)
        try connection.write(text("done"))
      }
    }
    let clients = try (0..<10).map { _ in try connect(listener) }
    for number in 0..<10 { try gate.send(number) }
    for client in clients { try expect("answer", try client.readText(4), "done") }
    try expect("at once", most.load(ordering: .relaxed), 2)
    server.cancel()
    try server.join()
  },

  Check("aClosedListenerEndsItAlsoWhereThereIsNoRoom") {
    let listener = try listen()
    let begun = Coroutine::Channel<Int>()
    let server = Coroutine(on: .pool) {
      // It waits for the end of the only connection, which goes on until it is cancelled.
      try listener.serve(limit: 1, grace: .zero) { connection in
        try begun.send(1)
        _ = try connection.read()
      }
    }
    let client = try connect(listener)
    _ = try begun.receive()
    listener.close()
    try server.get()
    try expect("end", try client.read() == nil, true)
  },

  Check("anErrorThatEndsTheListenerIsThrownAlsoWhereThereIsNoRoom") {
    let listener = try listen()
    let begun = Coroutine::Channel<Int>()
    let server = Coroutine(on: .pool) {
      try listener.serve(limit: 1, grace: .zero) { connection in
        try begun.send(1)
        _ = try connection.read()
      }
    }
    let client = try connect(listener)
    _ = try begun.receive()
    // As if the system had refused to accept for good.
    let channel = listener.channel
    channel.eventLoop.execute {
      channel.pipeline.fireErrorCaught(IOError(errnoCode: 1, reason: "accept"))
      channel.close(promise: nil)
    }
    try expectError(IOError.self) { try server.get() }
    try expect("end", try client.read() == nil, true)
  },

  Check("anAnswerWithoutARequestIsSentBeforeTheClose") {
    let (client, server) = try makePair()
    try Coroutine(on: .eventLoop(server.eventLoop)) {
      try server.write(text("greeting"))
      server.close()
    }.get()
    try expect("greeting", String(buffer: try client.readBytes(100)), "greeting")
  },

  Check("anAnswerReachesAClientThatStillSends") {
    for (halves, finishes) in [(false, false), (true, false), (true, true)] {
      let listener = try listen(highWatermark: 64 << 20, halves: halves)
      let server = Coroutine(on: .pool) {
        try listener.serve { connection in
          // The rest is more than the channel reads ahead.
          _ = try connection.read()
          try connection.write(ByteBuffer(repeating: 1, count: 4 << 20))
          if finishes { try connection.finishWriting() }
        }
      }
      let client = try connect(listener, halves: halves)
      try client.write(ByteBuffer(repeating: 2, count: 1 << 19))
      try expect("bytes", try client.countToEnd(), 4 << 20)
      client.close()
      server.cancel()
      try server.join()
    }
  },

  Check("aClientThatNeverStopsSendingIsLeftInTheEnd") {
    let listener = try listen()
    let server = Coroutine(on: .pool) {
      try listener.serve { connection in
        _ = try connection.read()
        try connection.write(text("too much"))
      }
    }
    let client = try connect(listener, halves: true)
    try expectError((any Error).self) {
      while true { try client.write(ByteBuffer(repeating: 2, count: 1 << 16)) }
    }
    server.cancel()
    try server.join()
  },

  Check("aConnectionWithoutAMessageIsClosedAtOnce") {
    let listener = try listen { try $0.pipeline.syncOperations.addHandler(HalfKeeper()) }
    let server = Coroutine(on: .pool) {
      // Longer than this check may last.
      try listener.serve(closeTimeout: .seconds(1000), onError: { _, _ in }) { connection in
        _ = try connection.read(timeout: .milliseconds(1))
      }
    }
    let client = try connect(listener)
    try expect("end", try client.read() == nil, true)
    server.cancel()
    try server.join()
  },

  Check("connectionsWhoseLoopIsBusyAreNotAcceptedAhead") {
    let (parent, children) = (
      MultiThreadedEventLoopGroup(numberOfThreads: 1), MultiThreadedEventLoopGroup(numberOfThreads: 1)
    )
    let counter = AcceptCounter()
    let bootstrap = ServerBootstrap(group: parent, childGroup: children)
      .serverChannelOption(.backlog, value: 256)
      .serverChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(counter) }
      }
    let listener = try NIOListener(bootstrap, host: "127.0.0.1", port: 0) { try Bytes(wrapping: $0) }
    let (busy, release) = (parent.next().makePromise(of: Void.self), DispatchSemaphore(value: 0))
    children.next().execute {
      busy.succeed()
      release.wait()
    }
    try busy.futureResult.get()
    let clients = try (0..<100).map { _ in try connect(listener) }
    // At each of these the loop looks for clients.
    for _ in 0..<100 { try parent.next().submit {}.get() }
    let count = counter.count.load(ordering: .relaxed)
    release.signal()
    try expect("accepted at most twenty, but \(count)", count <= 20)
    for _ in clients { try listener.accept().close() }
    for client in clients { try expect("end", try client.read() == nil, true) }
    listener.close()
    try listener.channel.closeFuture.get()
    for group in [parent, children] { try blocking { try group.syncShutdownGracefully() } }
  },

  Check("aPeerThatTakesNoAnswerLosesItsPlace") {
    let listener = try listen()
    let server = Coroutine(on: .pool) {
      // Much more than the kernel keeps for a peer that does not read.
      try listener.serve(limit: 1, closeTimeout: .milliseconds(50)) { connection in
        try connection.write(text(String(repeating: "x", count: 32 << 20)))
      }
    }
    let (idle, other) = (try connect(listener), try connect(listener))
    try expect("answer", try other.readText(4).prefix(4), "xxxx")
    _ = idle
    server.cancel()
    try server.join()
  },

  Check("aHandlerRunsOnItsConnectionsLoopAndIsNamedAfterThePeer") {
    let listener = try listen()
    let seen = Coroutine::Channel<Bool>(capacity: .unbounded)
    let server = Coroutine(on: .pool) {
      try listener.serve { connection in
        let name = Coroutine.current.map { $0.name } ?? ""
        try seen.send(connection.eventLoop.inEventLoop && name == connection.name && name.hasPrefix("127.0.0.1:"))
      }
    }
    let client = try connect(listener)
    try expect("end", try client.read() == nil)
    try expect("there", try seen.receive())
    server.cancel()
    try server.join()
  },

  Check("aServerThatIsCancelledLetsItsConnectionsEndInTheirTime") {
    let listener = try listen()
    let server = Coroutine(on: .pool) { try listener.serve(grace: .seconds(50), echo) }
    let client = try connect(listener)
    try client.write(text("one"))
    try expect("echo", try client.readText(3), "one")
    server.cancel()
    try client.write(text("two"))
    try expect("echo during the grace", try client.readText(3), "two")
    client.close()
    try expectError(CancellationError.self) { try server.get() }
  },

  Check("aCancelAfterTheCloseEndsTheGrace") {
    let listener = try listen()
    let server = Coroutine(on: .pool) { try listener.serve(grace: .seconds(3600), echo) }
    let client = try connect(listener)
    try client.write(text("one"))
    try expect("echo", try client.readText(3), "one")
    listener.close()
    // It is in its grace, and not at the listener any more.
    try wait { server.suspension?.reason == .group }
    server.cancel()
    try expectError(CancellationError.self) { try server.get() }
    try expect("end", try client.read() == nil)
  },

  Check("aServerWithoutGraceCancelsItsConnections") {
    let listener = try listen()
    let log = Log()
    let server = Coroutine(on: .pool) {
      try listener.serve(grace: .zero, onError: { error, _ in log.add("\(error)") }, echo)
    }
    let client = try connect(listener)
    try client.write(text("one"))
    try expect("echo", try client.readText(3), "one")
    server.cancel()
    try expectError(CancellationError.self) { try server.get() }
    try expect("end", try client.read() == nil)
    try expect("errors", log.all, [])
  },

  Check("aPeerThatDoesNotReadHoldsTheEndUpNoLongerThanTheGrace") {
    let listener = try listen(highWatermark: 64 << 20)
    let server = Coroutine(on: .pool) {
      try listener.serve(grace: .milliseconds(10)) { connection in
        for _ in 0..<16 { try connection.write(ByteBuffer(repeating: 1, count: 1 << 20)) }
      }
    }
    let client = try connect(listener)
    // From here on it reads only what it has read ahead.
    _ = try client.read()
    server.cancel()
    try expectError(CancellationError.self) { try server.get() }
  },

  Check("anErrorOfOneHandlerIsToldAndEndsNoOther") {
    let listener = try listen()
    let log = Log()
    let server = Coroutine(on: .pool) {
      try listener.serve(onError: { error, connection in log.add("\(error)") }) { connection in
        while let bytes = try connection.read() {
          if String(buffer: bytes) == "fail" { throw Failure() }
          try connection.write(bytes)
        }
      }
    }
    let (good, bad) = (try connect(listener), try connect(listener))
    try bad.write(text("fail"))
    try expect("end", try bad.read() == nil)
    try good.write(text("one"))
    try expect("echo", try good.readText(3), "one")
    try expect("errors", log.all, ["\(Failure())"])
    good.close()
    server.cancel()
    try server.join()
  },

  Check("aConnectionWhoseInitializerThrowsIsClosedAndEndsNoOther") {
    let count = Atomic<Int>(0)
    let listener = try listen { _ in
      if count.add(1, ordering: .relaxed).newValue == 1 { throw Failure() }
    }
    let server = Coroutine(on: .pool) { try listener.serve(echo) }
    let bad = try connect(listener)
    // The system may have reported a reset.
    do { try expect("end", try bad.read() == nil) } catch is IOError {}
    let good = try connect(listener)
    try good.write(text("one"))
    try expect("echo", try good.readText(3), "one")
    good.close()
    server.cancel()
    try server.join()
  },

  Check("aListenerThatIsClosedEndsItsServerWithoutAnError") {
    let listener = try listen()
    let server = Coroutine(on: .pool) { try listener.serve(echo) }
    let client = try connect(listener)
    try client.write(text("one"))
    try expect("echo", try client.readText(3), "one")
    listener.close()
    try expectError(ChannelError.self) { _ = try listener.accept() }
    client.close()
    try server.get()
  },

  Check("aListenerThatIsGoneListensNoLonger") {
    let address = try Coroutine { try listen().localAddress }.get()
    guard let address else { throw Unexpected(description: "no address") }
    while true {
      // It is closed in the background.
      do {
        let client = try ClientBootstrap(group: group).connect(to: address) { try Bytes(wrapping: $0) }
        client.close()
      } catch is IOError { return }
    }
  },

  Check("aListenerThatIsGoneHasClosedWhatNoCallerHasTaken") {
    // It lives longer than its listener, as for another one.
    let bootstrap = ServerBootstrap(group: group)
    func connectToNobody() throws -> Bytes {
      let arrival = Arrival()
      let listener = try NIOListener(bootstrap, host: "127.0.0.1", port: 0) { channel in
        try channel.pipeline.syncOperations.addHandler(arrival)
        return try Bytes(wrapping: channel)
      }
      let client = try connect(listener)
      try client.writeAndFlush(text("hello"))
      try arrival.promise.futureResult.get()
      return client
    }
    let client = try connectToNobody()
    // The system may have reported a reset.
    do { try expect("end", try client.read(timeout: .seconds(10)) == nil) } catch is IOError {}
    withExtendedLifetime(bootstrap) {}
  },

  Check("whatOutlivesItsLoopsAsksThemForNothing") {
    let (status, text) = try run("survivors")
    try expect("an end in silence, but \(status): \(text)", status == 0 && !text.contains("shut down"))
  },

  Check("whoCannotConnectLearnsWhy") {
    let listener = try listen()
    let port = listener.localAddress?.port ?? 0
    listener.close()
    try listener.channel.closeFuture.get()
    do {
      _ = try ClientBootstrap(group: group).connect(host: "127.0.0.1", port: port) { try Bytes(wrapping: $0) }
    } catch is NIOConnectionError { return }
    throw Unexpected(description: "no NIOConnectionError")
  },
]
