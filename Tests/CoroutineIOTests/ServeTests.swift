import Coroutine
import CoroutineTestSupport
import Glibc
import Synchronization
import Testing

@testable import CoroutineIO

@Suite(.ownThreads)
struct ServeTests {
  @Test func aThousandConnectionsAreServed() throws {
    // Two descriptors for each connection.
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    limit.rlim_cur = min(limit.rlim_max, max(limit.rlim_cur, 8192))
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    let listener = try TCPListener()
    let server = Coroutine(on: .pool) {
      try listener.serve(grace: .seconds(60)) { connection in
        while let line = try connection.readLine() { try connection.write(line + "\n") }
      }
    }
    let clients = (0..<1000).map { number in
      Coroutine(on: .pool) {
        let connection = try TCPConnection(to: listener.address)
        for round in 0..<3 {
          try connection.write("\(number) \(round)\n")
          guard try connection.readLine() == "\(number) \(round)" else { return false }
        }
        return true
      }
    }
    for client in clients { #expect(try client.getBlocking()) }
    server.cancel()
    #expect(throws: CancellationError.self) { try server.getBlocking() }
  }

  @Test func unixConnectionsAreServedTheSameWay() throws {
    try runUntilComplete {
      let folder = try TemporaryFolder()
      let listener = try UnixListener(path: folder.path + "/socket")
      let server = Coroutine {
        try listener.serve { connection in try connection.write(connection.readLine() ?? "") }
      }
      for _ in 0..<10 {
        let client = try UnixConnection(to: folder.path + "/socket")
        try client.write("hello\n")
        #expect(try readAll(client) == bytes("hello"))
      }
      listener.close()
      try server.get()
    }
  }

  @Test func anErrorOfOneConnectionEndsNoOther() throws {
    struct Failure: Error {}
    try runUntilComplete {
      let listener = try TCPListener()
      let errors = Channel<SocketAddress>(capacity: .unbounded)
      let server = Coroutine {
        try listener.serve(onError: { error, peer in if error is Failure { _ = errors.trySend(peer) } }) { connection in
          guard try connection.readLine() == "good" else { throw Failure() }
          try connection.write("fine")
        }
      }
      let good = try TCPConnection(to: listener.address)
      let bad = try TCPConnection(to: listener.address)
      try bad.write("bad\n")
      #expect(try errors.receive() == bad.localAddress)
      #expect(try bad.read() == nil)
      try good.write("good\n")
      #expect(try readAll(good) == bytes("fine"))
      server.cancel()
      #expect(throws: CancellationError.self) { try server.get() }
    }
  }

  /// A close with bytes that were not read resets the connection, and what was written last is lost.
  @Test func aClientThatStillSendsGetsItsAnswer() throws {
    try runUntilComplete {
      let listener = try TCPListener()
      let answer = pattern(1_000_000)
      let server = Coroutine {
        try listener.serve { connection in
          _ = try connection.read(upTo: 3)
          try connection.write(answer)
        }
      }
      let client = try TCPConnection(to: listener.address)
      // In one piece: the rest of it is there when the handler returns.
      try client.write(bytes("go\n") + pattern(10_000))
      let received = try readAll(client)
      #expect(received == answer)
      client.close()
      listener.close()
      try server.get()
    }
  }

  /// What was read ahead has left the kernel, which resets the connection all the same when more comes behind the close.
  @Test func aClientThatStillSendsGetsItsAnswerBehindALine() throws {
    try runUntilComplete {
      let listener = try TCPListener()
      // More than the kernel has room for: a part is still to be sent when the handler returns.
      let answer = pattern(2_600_000)
      let hasWritten = Flag()
      let server = Coroutine {
        try listener.serve { connection in
          _ = try connection.readLine()
          try connection.write(answer)
          hasWritten.set()
        }
      }
      let client = try TCPConnection(to: listener.address)
      try client.write(bytes("go\n") + pattern(10_000))
      var received: [UInt8] = []
      while !hasWritten.isSet {
        received += try client.read(upTo: 16 << 10) ?? []
        Coroutine.yield()
      }
      // Also behind its close, if it has closed.
      for _ in 0..<10 {
        try? client.write(pattern(1_000))
        Coroutine.yield()
      }
      received += try readAll(client)
      #expect(received == answer)
      client.close()
      listener.close()
      try server.get()
    }
  }

  /// By a Unix socket the peer got ECONNRESET behind the answer.
  @Test func aClientOfAUnixSocketGetsItsEnd() throws {
    try runUntilComplete {
      let folder = try TemporaryFolder()
      let listener = try UnixListener(path: folder.path + "/socket")
      let server = Coroutine {
        try listener.serve { connection in
          _ = try connection.read(upTo: 3)
          try connection.write("answer")
        }
      }
      let client = try UnixConnection(to: folder.path + "/socket")
      try client.write("go\nmore that is not read")
      #expect(try client.readToEnd(limit: 100) == bytes("answer"))
      client.close()
      listener.close()
      try server.get()
    }
  }

  /// It gets no second of the server's time, nor more than a part of what it sends is taken.
  @Test func aClientThatSendsForEverIsLetGo() throws {
    try runUntilComplete {
      let listener = try TCPListener()
      let server = Coroutine { try listener.serve { connection in _ = try connection.read(upTo: 1) } }
      let client = try TCPConnection(to: listener.address)
      let block = pattern(16_384)
      let end = failure { while true { try client.write(block) } }
      #expect(end.contains("EPIPE") || end.contains("ECONNRESET"), "\(end)")
      listener.close()
      try server.get()
    }
  }

  @Test func aQuietClientIsNotWaitedFor() throws {
    try runUntilComplete {
      let (client, connection) = try PairKind.tcp.make()
      try client.write("ab")
      #expect(try connection.readExactly(2) == bytes("ab"))
      withoutSuspension { connection.endpoint.lingerBeforeClose() }
      // Nothing has happened.
      try connection.write("c")
      #expect(try client.readExactly(1) == bytes("c"))
      // Nor at the client's end, whether it was read or not.
      try client.finishWriting()
      try connection.descriptor.waitUntilReadable()
      withoutSuspension { connection.endpoint.lingerBeforeClose() }
      #expect(try connection.read() == nil)
      withoutSuspension { connection.endpoint.lingerBeforeClose() }
      try connection.write("d")
      #expect(try client.readExactly(1) == bytes("d"))
    }
  }

  @Test func aCancelEndsTheLeaveOfAClient() throws {
    try runUntilComplete {
      let (client, connection) = try PairKind.tcp.make()
      try client.write("ab")
      _ = try connection.read(upTo: 1)
      let leave = Coroutine {
        connection.endpoint.lingerBeforeClose(upTo: .seconds(3600))
        return Coroutine.isCancelled
      }
      // It has told of its end, and waits for the client's.
      #expect(try client.read() == nil)
      while leave.suspension == nil { Coroutine.yield() }
      leave.cancel()
      #expect(try leave.get())
      withExtendedLifetime(client) {}
    }
  }

  @Test func noMoreConnectionsRunThanAllowed() throws {
    try runUntilComplete {
      let listener = try TCPListener()
      let begun = Channel<Int>(capacity: .unbounded)
      let running = Atomic<Int>(0)
      let most = Atomic<Int>(0)
      let server = Coroutine {
        try listener.serve(limit: 2) { connection in
          most.max(running.add(1, ordering: .relaxed).newValue, ordering: .relaxed)
          defer { running.subtract(1, ordering: .relaxed) }
          _ = begun.trySend(1)
          _ = try connection.read()
        }
      }
      let clients = try (0..<6).map { _ in try TCPConnection(to: listener.address) }
      for client in clients {
        _ = try begun.receive()
        client.close()
      }
      #expect(most.load(ordering: .relaxed) <= 2)
      server.cancel()
      #expect(throws: CancellationError.self) { try server.get() }
    }
  }

  @Test func connectionsMayEndWithinTheGrace() throws {
    try runUntilComplete {
      let listener = try TCPListener()
      let begun = Channel<Int>()
      let server = Coroutine {
        try listener.serve(grace: .seconds(3600)) { connection in
          try begun.send(1)
          while let bytes = try connection.read() { try connection.write(bytes) }
          try connection.write("bye")
        }
      }
      let client = try TCPConnection(to: listener.address)
      _ = try begun.receive()
      server.cancel()
      Coroutine.yield()
      #expect(!server.isFinished)
      try client.write("still here?")
      #expect(try client.readExactly(11) == bytes("still here?"))
      try client.finishWriting()
      #expect(try readAll(client) == bytes("bye"))
      #expect(throws: CancellationError.self) { try server.get() }
      // The listener is open, and nothing accepts.
      let late = try TCPConnection(to: listener.address)
      #expect(throws: TimeoutError.self) { try late.read(timeout: .milliseconds(1)) }
    }
  }

  @Test func connectionsAreCancelledAfterTheGrace() throws {
    try runUntilComplete {
      let listener = try TCPListener()
      let begun = Channel<Int>()
      let ends = Channel<Bool>(capacity: .unbounded)
      let server = Coroutine {
        try listener.serve(grace: .milliseconds(1), onError: { _, _ in Issue.record("a cancel was told") }) {
          connection in
          try begun.send(1)
          do { _ = try connection.read() } catch {
            _ = ends.trySend(error is CancellationError)
            throw error
          }
        }
      }
      let client = try TCPConnection(to: listener.address)
      _ = try begun.receive()
      server.cancel()
      #expect(throws: CancellationError.self) { try server.get() }
      #expect(ends.tryReceive() == .received(true))
      #expect(try client.read() == nil)
    }
  }

  @Test func aClosedListenerEndsItWithoutAnError() throws {
    try runUntilComplete {
      let listener = try TCPListener()
      let begun = Channel<Int>()
      let server = Coroutine {
        try listener.serve(grace: .zero) { connection in
          try begun.send(1)
          _ = try connection.read()
        }
      }
      let client = try TCPConnection(to: listener.address)
      _ = try begun.receive()
      listener.close()
      try server.get()
      #expect(try client.read() == nil)
    }
  }

  @Test func aClosedListenerEndsItAlsoWhereThereIsNoRoom() throws {
    try runUntilComplete {
      let listener = try TCPListener()
      let begun = Channel<Int>()
      let server = Coroutine {
        // It waits for the end of the only connection, which goes on until it is cancelled.
        try listener.serve(limit: 1, grace: .zero) { connection in
          try begun.send(1)
          _ = try connection.read()
        }
      }
      let client = try TCPConnection(to: listener.address)
      _ = try begun.receive()
      listener.close()
      try server.get()
      #expect(try client.read() == nil)
    }
  }

  @Test func aCancelAfterTheCloseEndsTheGrace() throws {
    try runUntilComplete {
      let listener = try TCPListener()
      let begun = Channel<Int>()
      let server = Coroutine {
        try listener.serve(grace: .seconds(3600), onError: { _, _ in Issue.record("a cancel was told") }) {
          connection in
          try begun.send(1)
          _ = try connection.read()
        }
      }
      let client = try TCPConnection(to: listener.address)
      _ = try begun.receive()
      listener.close()
      // It is in its grace, and not at the listener any more.
      while server.suspension?.reason != .group { Coroutine.yield() }
      server.cancel()
      #expect(throws: CancellationError.self) { try server.get() }
      #expect(try client.read() == nil)
    }
  }

  @Test func aConnectionWithoutAStackIsClosedAndDisturbsNoOther() async {
    await #expect(processExitsWith: .success) {
      let told = Channel<String>(capacity: .unbounded)
      CoroutineErrors.unhandled = { error, _ in
        _ = told.trySend(error is StackError ? "no stack" : "\(error)")
      }
      try runInExitTest {
        let listener = try TCPListener()
        let server = Coroutine { try listener.serve(limit: 1, stackSize: 1 << 50) { _ in exit(2) } }
        for number in 0..<3 {
          let client = try TCPConnection(to: listener.address)
          guard try client.read() == nil else { exit(3) }
          // As an error of a handler: at once, and once.
          if number == 0, try told.receive() != "no stack" { exit(4) }
        }
        server.cancel()
        do { try server.get() } catch is CancellationError {}
        let rest = try told.receive()
        guard rest.hasPrefix("errors that came again: "), rest.hasSuffix("StackError: 2") else { exit(5) }
        guard case .empty = told.tryReceive() else { exit(6) }
      }
      exit(0)
    }
  }

  @Test func aServerIsToldOfConnectionsWithoutAStackInACoroutine() throws {
    try runUntilComplete {
      let listener = try TCPListener()
      let told = Channel<Bool>(capacity: .unbounded)
      let server = Coroutine {
        try listener.serve(
          stackSize: 1 << 50, onError: { error, _ in _ = told.trySend(error is StackError && Coroutine.isInside) }
        ) { _ in }
      }
      let client = try TCPConnection(to: listener.address)
      #expect(try client.read() == nil)
      server.cancel()
      #expect(throws: CancellationError.self) { try server.get() }
      #expect(told.tryReceive() == .received(true))
      #expect(told.tryReceive() == .empty)
    }
  }

  /// Each client would be accepted and dropped, as fast as they come.
  @Test func withoutAStackAServerWaitsUntilAConnectionEnds() throws {
    try runUntilComplete {
      let connections = RunningConnections(limit: nil, name: "test")
      let (gate, told) = (Channel<Void>(), Channel<Void>(capacity: .unbounded))
      func start(stackSize: Int?) {
        connections.start(name: "test", stackSize: stackSize) { _ in
          _ = try? gate.receive()
        } withoutStack: { _ in
          _ = told.trySend(())
        }
      }
      start(stackSize: nil)
      try withoutSuspension { try connections.waitForStack(upTo: .seconds(3600)) }
      Coroutine.yield()
      start(stackSize: 1 << 50)
      try told.receive()
      let end = Coroutine { try connections.waitForStack(upTo: .seconds(3600)) }
      while end.suspension == nil { Coroutine.yield() }
      try gate.send(())
      try end.get()
      // There may be one now: the next connection is tried, and where it begins, it is over.
      start(stackSize: nil)
      try connections.waitForStack(upTo: .seconds(3600))
      try withoutSuspension { try connections.waitForStack(upTo: .seconds(3600)) }
      try gate.send(())
      try connections.waitForAll()
    }
  }

  @Test func errorsOfOneKindAreToldOnceAndCounted() async {
    await #expect(processExitsWith: .success) {
      struct Failure: Error {}
      let told = Channel<String>(capacity: .unbounded)
      CoroutineErrors.unhandled = { error, _ in _ = told.trySend("\(error)") }
      try runInExitTest {
        let listener = try TCPListener()
        let server = Coroutine { try listener.serve { _ in throw Failure() } }
        for _ in 0..<5 {
          let client = try TCPConnection(to: listener.address)
          guard try client.read() == nil else { exit(2) }
        }
        listener.close()
        try server.get()
        guard try told.receive() == "Failure()" else { exit(3) }
        let rest = try told.receive()
        guard rest.hasPrefix("errors that came again: "), rest.hasSuffix("Failure: 4") else { exit(4) }
        guard case .empty = told.tryReceive() else { exit(5) }
      }
      exit(0)
    }
  }
}
