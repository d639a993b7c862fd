import Coroutine
import CoroutineDebug
import CoroutineIO
import CoroutineTestSupport
import Testing

/// What one sees of a server whose clients are all silent.
@Suite(.ownThreads) struct LoadedServerTests {
  private static let clientCount = 200

  @Test func eachConnectionIsNamedAndNoneIsInADeadlock() throws {
    let listener = try TCPListener(host: "127.0.0.1", port: 0)
    let server = Coroutine(name: "server") {
      try listener.serve { connection in _ = try connection.read() }
    }
    let clients = try Coroutine {
      try (0..<Self.clientCount).map { _ in try TCPConnection(to: listener.address) }
    }.getBlocking()
    // The server names a connection by its peer.
    let names = try clients.map { try "TCP \($0.localAddress)" }
    let waits = Set(names.map { "read on \($0)" })

    var served: [CoroutineBacktrace] = []
    try look {
      served = try CoroutineDump.capture().coroutines.filter { waits.contains($0.waitsFor) }
      // It may have started the last one, and not have come back to wait for the next.
      let isWaiting = try CoroutineDump.capture()[server.id]?.state == .suspended
      return served.count == Self.clientCount && isWaiting
    }
    #expect(Set(served.map(\.waitsFor)) == waits)
    #expect(served.allSatisfy { $0.state == .suspended && $0.parentID == server.id })
    let accepting = try #require(try CoroutineDump.capture()[server.id])
    #expect(accepting.state == .suspended && accepting.waitsFor.hasPrefix("accept on "))
    #expect(accepting.waitsFor.contains("\(listener.address)"))

    var bytes: [UInt8] = []
    try CoroutineDump.write { bytes += $0 }
    let text = String(decoding: bytes, as: UTF8.self)
    // Those that stand at the same place are one group, which counts what each of them waits for.
    #expect(text.contains("\(Self.clientCount) coroutines: suspended"))

    let own = Set(served.map(\.id) + [server.id])
    #expect(try DeadlockDetector.find().allSatisfy { own.isDisjoint(with: $0.coroutines.map(\.id)) })

    try Coroutine { for client in clients { client.close() } }.getBlocking()
    server.cancel()
    #expect(throws: CancellationError.self) { try server.getBlocking() }
  }
}
