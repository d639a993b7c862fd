import Coroutine
import CoroutineNIO
import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
import Synchronization

private typealias ServerStream = NIOConnection<HTTPServerRequestPart, HTTPServerResponsePart>
private typealias ClientStream = NIOConnection<HTTPClientResponsePart, HTTPClientRequestPart>

/// Listens for HTTP/2 without TLS.
private func listenForStreams(
  at address: NIOCore::SocketAddress? = nil, managed: Bool = false,
  _ handlers: @escaping @Sendable (any NIOCore::Channel) throws -> Void = { _ in }
) throws -> NIOListener<ServerStream, Never> {
  let bootstrap = ServerBootstrap(group: group).serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
  return try NIOListener(bootstrap, at: address ?? SocketAddress(ipAddress: "127.0.0.1", port: 0)) { channel in
    try NIOConnection(multiplexing: channel) { stream in
      try stream.pipeline.syncOperations.addHandler(HTTP2FramePayloadToHTTP1ServerCodec())
      try handlers(stream)
      return try ServerStream(wrapping: stream)
    } configure: { initializer in
      let management = NIOHTTP2ServerConnectionManagementHandler(
        eventLoop: channel.eventLoop,
        configuration: .init(maxIdleTime: nil, maxAge: nil, maxGraceTime: nil, keepalive: nil))
      _ = try channel.pipeline.syncOperations.configureHTTP2Pipeline(
        mode: .server, connectionConfiguration: .init(), streamConfiguration: .init(),
        streamDelegate: managed ? management.http2StreamDelegate : nil, inboundStreamInitializer: initializer)
      if managed { try channel.pipeline.syncOperations.addHandler(management) }
      try channel.pipeline.syncOperations.addHandler(NIOCloseOnErrorHandler())
    }
  }
}

/// Listens as a server of HTTP/2 does for a client that speaks only HTTP/1.1: the connection is its own only stream.
private func listenForBoth() throws -> NIOListener<ServerStream, Never> {
  let bootstrap = ServerBootstrap(group: group).serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
  return try NIOListener(bootstrap, host: "127.0.0.1", port: 0) { channel in
    try NIOConnection(multiplexing: channel) {
      try ServerStream(wrapping: $0)
    } configure: { initializer in
      try channel.pipeline.syncOperations.configureHTTPServerPipeline()
      _ = initializer(channel)
    }
  }
}

private func connectByHTTP1(_ listener: NIOListener<ServerStream, Never>) throws -> ClientStream {
  guard let address = listener.localAddress else { throw Unexpected(description: "no address") }
  return try ClientBootstrap(group: group).connect(to: address) { channel in
    try channel.pipeline.syncOperations.addHTTPClientHandlers()
    return try ClientStream(wrapping: channel)
  }
}

/// A client's connection.
private struct HTTP2Client {
  let connection: NIOConnection<ClientStream, Never>
  private let multiplexer: NIOHTTP2Handler.StreamMultiplexer

  init(_ listener: NIOListener<ServerStream, Never>) throws {
    guard let address = listener.localAddress else { throw Unexpected(description: "no address") }
    let (made, resolver) = Promise.makePromise(of: NIOHTTP2Handler.StreamMultiplexer.self)
    connection = try ClientBootstrap(group: group).connect(to: address) { channel in
      try NIOConnection(multiplexing: channel) { _ in
        throw Unexpected(description: "a push")
      } configure: { initializer in
        resolver.fulfill(
          try channel.pipeline.syncOperations.configureHTTP2Pipeline(
            mode: .client, connectionConfiguration: .init(), streamConfiguration: .init(),
            inboundStreamInitializer: initializer))
      }
    }
    multiplexer = try made.get()
  }

  func open() throws -> ClientStream {
    let (made, resolver) = Promise.makePromise(of: ClientStream.self)
    _ = try multiplexer.createStreamChannel { channel in
      channel.eventLoop.makeCompletedFuture {
        try channel.pipeline.syncOperations.addHandler(HTTP2FramePayloadToHTTP1ClientCodec(httpProtocol: .http))
        resolver.fulfill(try ClientStream(wrapping: channel))
      }
    }.get()
    return try made.get()
  }

  /// Sends a request without a body.
  func request(_ path: String) throws -> ClientStream {
    let stream = try open()
    try stream.begin(.GET, path)
    try stream.writeAndFlush(.end(nil))
    return stream
  }

  func get(_ path: String) throws -> String { try request(path).answer() }
}

extension ClientStream {
  fileprivate func begin(_ method: HTTPMethod, _ path: String) throws {
    let headers: HTTPHeaders = ["host": "localhost"]
    try writeAndFlush(.head(HTTPRequestHead(version: .http1_1, method: method, uri: path, headers: headers)))
  }

  /// The answer's body, to its end.
  fileprivate func answer() throws -> String {
    var all = ByteBuffer()
    while let part = try read() {
      switch part {
      case .head: continue
      case .body(var bytes): all.writeBuffer(&bytes)
      case .end: return String(buffer: all)
      }
    }
    throw Unexpected(description: "an answer without an end")
  }
}

extension ServerStream {
  /// Reads a request to its end: the path, and the size of the body.
  fileprivate func request() throws -> (path: String, size: Int) {
    var (path, size) = ("", 0)
    while let part = try read() {
      switch part {
      case .head(let head): path = head.uri
      case .body(let bytes): size += bytes.readableBytes
      case .end: return (path, size)
      }
    }
    throw Unexpected(description: "a request without an end")
  }

  fileprivate func answer(_ text: String) throws {
    try write(.head(HTTPResponseHead(version: .http2, status: .ok)))
    try write(.body(.byteBuffer(ByteBuffer(string: text))))
    try write(.end(nil))
  }
}

/// Serves streams until the coroutine is cancelled.
private func serve(
  _ listener: NIOListener<ServerStream, Never>, limit: Int? = nil, grace: Duration = .seconds(50),
  onError: (@Sendable (any Error, ServerStream) -> Void)? = nil,
  _ handler: @escaping @Sendable (ServerStream) throws -> Void
) -> Coroutine<Void, any Error> {
  Coroutine(on: .pool) {
    try listener.serve(grace: grace) { connection in
      try connection.serveStreams(limit: limit, onError: onError, handler)
    }
  }
}

@Sendable private func answerWithPath(_ stream: ServerStream) throws {
  try stream.answer(try stream.request().path)
}

/// Channels, as long as they live.
private final class Living: Sendable {
  private struct Box: Sendable { weak let channel: (any NIOCore::Channel)? }
  private let boxes = Mutex<[Box]>([])

  func add(_ channel: any NIOCore::Channel) { boxes.withLock { $0.append(Box(channel: channel)) } }
  /// How many have been added.
  var all: Int { boxes.withLock { $0.count } }
  var count: Int { boxes.withLock { $0.count { $0.channel != nil } } }
}

let streamChecks = [
  Check("streamsOfOneConnectionAreServedAtTheSameTime") {
    let listener = try listenForStreams()
    let gate = Coroutine::Channel<String>()
    let server = serve(listener) { stream in
      switch try stream.request().path {
      case "/wait": try stream.answer(try gate.receive())
      default:
        try gate.send("opened")
        try stream.answer("went")
      }
    }
    let client = try HTTP2Client(listener)
    let waiting = try (0..<20).map { _ in try client.request("/wait") }
    for _ in waiting { try expect("answer", try client.get("/go"), "went") }
    for stream in waiting { try expect("answer", try stream.answer(), "opened") }
    client.connection.close()
    server.cancel()
    try server.join()
  },

  Check("aStreamRunsOnItsConnectionsLoopAndIsNamedAndNumbered") {
    let listener = try listenForStreams()
    let server = serve(listener) { stream in
      _ = try stream.request()
      let name = Coroutine.current.map { $0.name } ?? ""
      try stream.answer("\(stream.eventLoop.inEventLoop) \(name.dropFirst(stream.name.count))")
    }
    let client = try HTTP2Client(listener)
    try expect("first", try client.get("/"), "true  #1")
    try expect("second", try client.get("/"), "true  #2")
    client.connection.close()
    server.cancel()
    try server.join()
  },

  Check("anAnswerIsSentBeforeItsStreamIsClosed") {
    let path = "/tmp/coroutine-streams-\(UInt64.random(in: 0...UInt64.max))"
    for address in [try SocketAddress(ipAddress: "127.0.0.1", port: 0), try SocketAddress(unixDomainSocketPath: path)] {
      let listener = try listenForStreams(at: address)
      let returned = Coroutine::Channel<Int>()
      let server = serve(listener) { stream in
        _ = try stream.request()
        // More than the window, and less than what a write waits for.
        let (window, body) = (65_535, String(repeating: "x", count: 65_535 + 30_000))
        try stream.answer(body)
        try returned.send(window)
      }
      let client = try HTTP2Client(listener)
      let stream = try client.request("/")
      let window = try returned.receive()
      try expect("answer", try stream.answer().utf8.count, window + 30_000)
      client.connection.close()
      server.cancel()
      try server.join()
    }
  },

  Check("aStreamHasNoHalfToClose") {
    let listener = try listenForStreams()
    let server = serve(listener) { stream in
      _ = try stream.request()
      try expectError(ChannelError.self) { try stream.finishWriting() }
      try stream.answer("whole")
    }
    let client = try HTTP2Client(listener)
    try expect("answer", try client.get("/"), "whole")
    client.connection.close()
    server.cancel()
    try server.join()
  },

  Check("streamsBeyondTheLimitWaitAndDoNotHoldUpTheOthers") {
    let listener = try listenForStreams()
    let running = Atomic<Int>(0)
    let most = Atomic<Int>(0)
    let server = serve(listener, limit: 2) { stream in
      _ = most.max(running.add(1, ordering: .relaxed).newValue, ordering: .relaxed)
      let size = try stream.request().size
      running.subtract(1, ordering: .relaxed)
      try stream.answer("\(size)")
    }
    let client = try HTTP2Client(listener)
    let uploads = try (0..<2).map { _ in try client.open() }
    for upload in uploads { try upload.begin(.POST, "/") }
    // More than a connection reads ahead: the bodies of those two have to get through.
    let waiting = try (0..<40).map { _ in try client.request("/") }
    let piece = ByteBuffer(repeating: 7, count: 50_000)
    for upload in uploads {
      for _ in 0..<10 { try upload.write(.body(.byteBuffer(piece))) }
      try upload.writeAndFlush(.end(nil))
      try expect("answer", try upload.answer(), "500000")
    }
    for stream in waiting { try expect("answer", try stream.answer(), "0") }
    try expect("at once", most.load(ordering: .relaxed), 2)
    client.connection.close()
    server.cancel()
    try server.join()
  },

  Check("streamsThatNoCoroutineHasTakenGoWithTheirConnection") {
    let living = Living()
    let listener = try listenForStreams { living.add($0) }
    let server = Coroutine(on: .pool) {
      try listener.serve { connection in
        let first = try connection.read()
        try wait { living.all == 6 }
        withExtendedLifetime(first) {}
      }
    }
    let client = try HTTP2Client(listener)
    var streams: [ClientStream] = []
    for _ in 0..<6 {
      let stream = try client.open()
      streams.append(stream)
      // The last one may be closed by then.
      try? stream.begin(.POST, "/")
    }
    do { try expect("streams", try client.connection.read() == nil) } catch is IOError {}
    server.cancel()
    try server.join()
    try wait { living.count == 0 }
  },

  Check("streamsThatWereResetBeforeTheyAreTakenAreDropped") {
    let living = Living()
    let listener = try listenForStreams { living.add($0) }
    let (began, gate) = (Coroutine::Channel<Int>(), Coroutine::Channel<Int>())
    let paths = Log()
    let server = serve(listener, limit: 1, onError: { _, _ in }) { stream in
      try began.send(1)
      _ = try gate.receive()
      let path = try stream.request().path
      paths.add(path)
      try stream.answer(path)
    }
    let client = try HTTP2Client(listener)
    let first = try client.request("/first")
    _ = try began.receive()
    var open: [ClientStream] = []
    for number in 0..<150 {
      if number % 50 == 0 { open.append(try client.request("/\(number)")) }
      let stream = try client.open()
      try stream.begin(.POST, "/reset")
      stream.channel.close(promise: nil)
    }
    // Those that were opened, not reset, are kept, in their order.
    open.append(try client.request("/last"))
    try wait { living.all == 155 && living.count < 80 }
    let ending = Coroutine(on: .pool) { for number in 0... { try gate.send(number) } }
    let beginning = Coroutine(on: .pool) { while true { _ = try began.receive() } }
    try expect("answer", try first.answer(), "/first")
    for (stream, path) in zip(open, ["/0", "/50", "/100", "/last"]) { try expect("answer", try stream.answer(), path) }
    try expect("order", paths.all, ["/first", "/0", "/50", "/100", "/last"])
    for coroutine in [ending, beginning] { coroutine.cancel() }
    client.connection.close()
    server.cancel()
    try server.join()
  },

  Check("anErrorOfOneStreamIsToldAndEndsNoOther") {
    let listener = try listenForStreams()
    let log = Log()
    let gate = Coroutine::Channel<Int>()
    let server = serve(listener, onError: { error, _ in log.add("\(error)") }) { stream in
      let path = try stream.request().path
      if path == "/fail" { throw Failure() }
      try gate.send(1)
      try stream.answer(path)
    }
    let client = try HTTP2Client(listener)
    let good = try client.request("/good")
    try expectError(NIOHTTP2Errors.StreamClosed.self) { _ = try client.get("/fail") }
    _ = try gate.receive()
    try expect("answer", try good.answer(), "/good")
    try expect("errors", log.all, ["\(Failure())"])
    client.connection.close()
    server.cancel()
    try server.join()
  },

  Check("aStreamWhoseInitializerThrowsIsClosedAndEndsNoOther") {
    let count = Atomic<Int>(0)
    let listener = try listenForStreams { _ in
      if count.add(1, ordering: .relaxed).newValue == 1 { throw Failure() }
    }
    let server = serve(listener, answerWithPath)
    let client = try HTTP2Client(listener)
    do {
      _ = try client.get("/first")
      throw Unexpected(description: "no error")
    } catch is NIOHTTP2Errors.StreamClosed {
    } catch ChannelError.ioOnClosedChannel {}  // known before all was written
    try expect("answer", try client.get("/second"), "/second")
    client.connection.close()
    server.cancel()
    try server.join()
  },

  Check("aHandlerOutlivesItsConnection") {
    let listener = try listenForStreams()
    let (began, gate, log) = (Coroutine::Channel<Int>(), Coroutine::Channel<Int>(), Log())
    let connections = Coroutine::Channel<Coroutine<Void, any Error>>(capacity: .unbounded)
    let server = Coroutine(on: .pool) {
      try listener.serve(limit: 1, onError: { _, _ in }) { connection in
        // The system may have reported a reset.
        defer { log.add("end") }
        let serving = Coroutine {
          try connection.serveStreams { stream in
            try began.send(1)
            log.add("\(try gate.receive())")
          }
        }
        try connections.send(serving)
        try serving.get()
      }
    }
    let client = try HTTP2Client(listener)
    let stream = try client.request("/")
    _ = try began.receive()
    client.connection.channel.close(promise: nil)
    let served = try connections.receive()
    try wait { served.suspension?.waitsFor.contains("streams of") ?? false }
    // A second connection is served when the first one is done.
    let other = try HTTP2Client(listener)
    try gate.send(7)
    _ = try other.request("/")
    _ = try began.receive()
    try expect("events", log.all, ["7", "end"])
    try gate.send(8)
    other.connection.close()
    stream.close()
    server.cancel()
    try server.join()
  },

  Check("aServerThatIsCancelledLetsItsStreamsEndInTheirTime") {
    let listener = try listenForStreams()
    let began = Coroutine::Channel<Int>()
    let server = serve(listener) { stream in
      try began.send(1)
      try stream.answer("\(try stream.request().size)")
    }
    let client = try HTTP2Client(listener)
    let upload = try client.open()
    try upload.begin(.POST, "/")
    _ = try began.receive()
    server.cancel()
    try upload.write(.body(.byteBuffer(text("abc"))))
    try upload.writeAndFlush(.end(nil))
    try expect("answer during the grace", try upload.answer(), "3")
    client.connection.close()
    try expectError(CancellationError.self) { try server.get() }
  },

  Check("aServerWithoutGraceCancelsItsStreams") {
    let listener = try listenForStreams()
    let (began, log) = (Coroutine::Channel<Int>(), Log())
    let server = serve(listener, grace: .zero, onError: { error, _ in log.add("\(error)") }) { stream in
      try began.send(1)
      _ = try stream.request()
    }
    let client = try HTTP2Client(listener)
    let upload = try client.open()
    try upload.begin(.POST, "/")
    _ = try began.receive()
    server.cancel()
    try expectError(CancellationError.self) { try server.get() }
    try expect("errors", log.all, [])
    try wait { upload.isClosed }
  },

  Check("aServerThatIsCancelledSendsItsClientsAway") {
    let listener = try listenForStreams(managed: true)
    // Longer than this check may last.
    let server = serve(listener, grace: .seconds(1000), answerWithPath)
    let client = try HTTP2Client(listener)
    try expect("answer", try client.get("/a"), "/a")
    server.cancel()
    // The system may report a reset.
    do { try expect("streams", try client.connection.read() == nil) } catch is IOError {}
    try expectError(CancellationError.self) { try server.get() }
  },

  Check("aStreamMayBeClosedAsSoonAsItIsThere") {
    let listener = try listenForStreams(managed: true)
    let server = Coroutine(on: .pool) {
      try listener.serve(grace: .seconds(1000)) { connection in
        while let stream = try connection.read() { stream.close() }
      }
    }
    let client = try HTTP2Client(listener)
    for _ in 0..<10 {
      let stream = try client.open()
      try stream.begin(.GET, "/")
      try expectError(NIOHTTP2Errors.StreamClosed.self) { _ = try stream.answer() }
    }
    server.cancel()
    do { try expect("streams", try client.connection.read() == nil) } catch is IOError {}
    try server.join()
  },

  Check("aServerWithoutGraceCancelsARequestOfHTTP1") {
    let listener = try listenForBoth()
    let (began, log) = (Coroutine::Channel<Int>(), Log())
    let server = serve(listener, grace: .zero, onError: { error, _ in log.add("\(error)") }) { stream in
      // Before its head has come, NIO closes the connection as an idle one.
      _ = try stream.read()
      try began.send(1)
      _ = try stream.request()
    }
    let client = try connectByHTTP1(listener)
    try client.begin(.POST, "/")
    _ = try began.receive()
    server.cancel()
    try expectError(CancellationError.self) { try server.get() }
    try expect("errors", log.all, [])
    try wait { client.isClosed }
  },

  Check("aServerThatIsCancelledClosesIdleConnectionsOfHTTP1") {
    let listener = try listenForBoth()
    let server = serve(listener, grace: .seconds(1000)) { stream in
      while case .head(let head)? = try stream.read() {
        _ = try stream.request()
        try stream.write(
          .head(HTTPResponseHead(version: .http1_1, status: .ok, headers: ["content-length": "\(head.uri.utf8.count)"]))
        )
        try stream.write(.body(.byteBuffer(text(head.uri))))
        try stream.write(.end(nil))
      }
    }
    let client = try connectByHTTP1(listener)
    for path in ["/a", "/b"] {
      try client.begin(.GET, path)
      try client.writeAndFlush(.end(nil))
      try expect("answer", try client.answer(), path)
    }
    server.cancel()
    try expect("end", try client.read() == nil)
    try expectError(CancellationError.self) { try server.get() }
  },
]
