import Coroutine
import CoroutineTestSupport
import Glibc
import Testing

@testable import CoroutineIO

@Suite(.ownThreads)
struct ConnectionTests {
  @Test(arguments: ["127.0.0.1", "::1"])
  func bothFamiliesConnect(_ host: String) throws {
    try runUntilComplete {
      let listener = try TCPListener(host: host)
      let client = try TCPConnection(to: host, port: try #require(listener.address.port))
      let server = try listener.accept()
      #expect(client.remoteAddress == listener.address)
      #expect(try client.localAddress == server.remoteAddress)
      #expect(try server.localAddress == listener.address)
      #expect(server.name == "TCP \(server.remoteAddress)")
      try client.write("hello")
      #expect(try server.readExactly(5) == bytes("hello"))
    }
  }

  @Test func smallWritesLeaveAtOnceUnlessAskedOtherwise() throws {
    func noDelay(_ connection: TCPConnection) throws -> Bool {
      try connection.descriptor.withFileDescriptor { number in
        var value: Int32 = -1
        var length = socklen_t(MemoryLayout<Int32>.size)
        #expect(getsockopt(number, Int32(IPPROTO_TCP), TCP_NODELAY, &value, &length) == 0)
        return value != 0
      }
    }
    try runUntilComplete {
      for isSet in [true, false] {
        let listener = try TCPListener(noDelay: isSet)
        let client = try TCPConnection(to: listener.address, noDelay: isSet)
        #expect(try noDelay(client) == isSet)
        #expect(try noDelay(listener.accept()) == isSet)
        try client.setNoDelay(!isSet)
        #expect(try noDelay(client) == !isSet)
      }
    }
  }

  @Test func allAddressesOfAListenerTakeBothFamilies() throws {
    try runUntilComplete {
      let listener = try TCPListener(host: "::")
      let port = try #require(listener.address.port)
      _ = try TCPConnection(to: "127.0.0.1", port: port)
      #expect(try listener.accept().remoteAddress.ip == "::ffff:127.0.0.1")
      _ = try TCPConnection(to: "::1", port: port)
      #expect(try listener.accept().remoteAddress.ip == "::1")
    }
  }

  @Test func aRefusedConnectionNamesThePeer() throws {
    try runUntilComplete {
      // Bound, and not listening: so no other process gets the port meanwhile.
      let socket = try SocketSetup.make(AF_INET, Int32(SOCK_STREAM.rawValue), name: "bound")
      defer { close(socket) }
      try SocketSetup.bind(socket, to: SocketAddress(ip: "127.0.0.1", port: 0), name: "bound")
      let address = try SocketSetup.localAddress(of: socket, name: "bound")
      let port = try #require(address.port)
      let error = #expect(throws: ConnectionFailed.self) { try TCPConnection(to: "127.0.0.1", port: port) }
      #expect(error?.attempts.map(\.address) == [address])
      #expect((error?.attempts.first?.error as? IOError)?.code == ECONNREFUSED)
      #expect(throws: IOError(operation: "connect", code: ECONNREFUSED, subject: "TCP \(address)")) {
        try TCPConnection(to: address)
      }
    }
  }

  @Test func aConnectionToItselfIsRefused() throws {
    try runUntilComplete {
      // The kernel may choose the very port that is connected to. Here it has no choice.
      let listener = try TCPListener(host: "127.3.1.4")
      let address = listener.address
      listener.close()
      #expect(throws: IOError(operation: "connect", code: ECONNREFUSED, subject: "itself")) {
        try SocketSetup.connect(to: address, name: "itself", WaitLimit(nil)) {
          try SocketSetup.set(SO_REUSEADDR, of: SOL_SOCKET, on: $0, name: "itself")
          try SocketSetup.bind($0, to: address, name: "itself")
        }
      }
    }
  }

  @Test func aNameIsLookedUp() throws {
    try runUntilComplete {
      // Of the two address families one listens. The refusal of the other one is no failure.
      let listener = try TCPListener()
      let client = try TCPConnection(to: "localhost", port: try #require(listener.address.port), timeout: .seconds(60))
      #expect(client.remoteAddress == listener.address)
      let tooLong = String(repeating: "x", count: 300)
      #expect(throws: NameResolutionFailed.self) { try TCPConnection(to: tooLong, port: 80) }
      #expect(throws: InvalidAddress.self) { try TCPConnection(to: "", port: 80) }
      #expect(throws: InvalidAddress.self) { try TCPConnection(to: "localhost", port: 70_000) }
    }
  }

  @Test func familiesTakeTurnsBeginningWithTheFirst() throws {
    let (a, b, c) = (
      try SocketAddress(ip: "::1", port: 1), try SocketAddress(ip: "::2", port: 1),
      try SocketAddress(ip: "::3", port: 1)
    )
    let (x, y) = (try SocketAddress(ip: "1.1.1.1", port: 1), try SocketAddress(ip: "2.2.2.2", port: 1))
    #expect(ConnectionRace.alternating([a, b, c, x, y]) == [a, x, b, y, c])
    #expect(ConnectionRace.alternating([x, a]) == [x, a])
    #expect(ConnectionRace.alternating([]) == [])
  }

  private func race(_ addresses: [SocketAddress], timeout: Duration? = nil) throws -> TCPConnection {
    try ConnectionRace(to: addresses, host: "test", port: 1, noDelay: true, WaitLimit(timeout)).run()
  }

  @Test func anAddressThatDoesNotAnswerLosesTheRace() throws {
    try runUntilComplete {
      let silent = try SilentAddress()
      let listener = try TCPListener()
      let connection = try race([silent.address, listener.address])
      #expect(connection.remoteAddress == listener.address)
      _ = try listener.accept()
    }
  }

  @Test func whenAllFailEachOneIsTold() throws {
    try runUntilComplete {
      let closed = try (0..<3).map { _ in
        let listener = try TCPListener()
        defer { listener.close() }
        return listener.address
      }
      let error = #expect(throws: ConnectionFailed.self) { try race(closed) }
      #expect(Set(error?.attempts.map(\.address) ?? []) == Set(closed))
      #expect(error?.attempts.allSatisfy { ($0.error as? IOError)?.code == ECONNREFUSED } == true)
    }
  }

  @Test func aRaceEndsByTimeoutAndByCancel() throws {
    try runUntilComplete {
      let silent = [try SilentAddress(), try SilentAddress()]
      let addresses = silent.map(\.address)
      #expect(throws: TimeoutError.self) { try race(addresses, timeout: .milliseconds(5)) }
      #expect(throws: TimeoutError.self) { try race([addresses[0]], timeout: .milliseconds(5)) }
      for count in 1...2 {
        let attempt = Coroutine { try race(Array(addresses.prefix(count))) }
        Coroutine.yield()
        Coroutine.yield()
        attempt.cancel()
        #expect(throws: CancellationError.self) { try attempt.get() }
      }
      withExtendedLifetime(silent) {}
    }
  }

  @Test func unixConnectionsWaitForRoomInTheQueue() throws {
    try runUntilComplete {
      let folder = try TemporaryFolder()
      let listener = try UnixListener(path: folder.path + "/socket", backlog: 0)
      let first = try UnixConnection(to: folder.path + "/socket")
      #expect(throws: TimeoutError.self) { try UnixConnection(to: folder.path + "/socket", timeout: .milliseconds(5)) }
      let second = Coroutine { try UnixConnection(to: folder.path + "/socket") }
      Coroutine.yield()
      let accepted = try listener.accept()
      try first.write("1")
      #expect(try accepted.read() == bytes("1"))
      try second.get().write("2")
      #expect(try listener.accept().read() == bytes("2"))
      #expect(first.remoteAddress.path == folder.path + "/socket")
      #expect(accepted.remoteAddress.description == "unix:(unnamed)")
    }
  }

  /// A thousand clients at a listener that does not accept would take a processor.
  @Test func theTriesToGetIntoAFullQueueBecomeFewer() {
    var backoff = ConnectBackoff()
    for longest in [1, 2, 4, 8, 16, 32, 64, 64, 64] {
      let pause = backoff.next()
      #expect(pause >= .microseconds(500 * longest) && pause <= .milliseconds(longest))
    }
  }

  @Test func aPauseEndsWithTheTime() throws {
    try runUntilComplete {
      let limit = WaitLimit(.milliseconds(20))
      // So long that its end is too late. What is left is used, and then there is one try more.
      try limit.pause(for: .seconds(3600))
      let end = outcome { try limit.pause(for: .milliseconds(1)) }
      #expect(end == "timed out")
      let without = outcome { try WaitLimit(.zero).pause(for: .milliseconds(1)) }
      #expect(without == "timed out")
    }
  }
}
