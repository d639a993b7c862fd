import Coroutine
import CoroutineTestSupport
import Foundation
import Glibc
import Testing

@testable import CoroutineIO

@Suite(.ownThreads)
struct DatagramTests {
  @Test(arguments: ["127.0.0.1", "::1"])
  func datagramsKeepTheirBorders(_ host: String) throws {
    try runUntilComplete {
      let (one, other) = (try UDPSocket(host: host), try UDPSocket(host: host))
      try one.send(bytes("first"), to: other.localAddress)
      try one.send([], to: other.localAddress)
      try one.send(bytes("third"), to: other.localAddress)
      let first = try other.receive()
      #expect(first == Datagram(bytes: bytes("first"), sender: try one.localAddress, length: 5))
      #expect(try other.receive().bytes == [])
      #expect(try other.receive().bytes == bytes("third"))
      try other.send(bytes("answer"), to: first.sender)
      #expect(try one.receive().bytes == bytes("answer"))
    }
  }

  @Test func whatDoesNotFitIsTold() throws {
    try runUntilComplete {
      let (one, other) = (try UDPSocket(), try UDPSocket())
      try one.send(bytes("0123456789"), to: other.localAddress)
      try one.send(bytes("0123"), to: other.localAddress)
      let long = try other.receive(upTo: 4)
      #expect(long.bytes == bytes("0123"))
      #expect(long.length == 10)
      #expect(long.isTruncated)
      #expect(try other.receive(upTo: 4).isTruncated == false)
      let tooLong = [UInt8](repeating: 0, count: 70_000)
      let error = #expect(throws: IOError.self) { try one.send(tooLong, to: other.localAddress) }
      #expect(error?.code == EMSGSIZE)
    }
  }

  @Test func aConnectedSocketHasOnePeer() throws {
    try runUntilComplete {
      let (one, other, stranger) = (try UDPSocket(), try UDPSocket(), try UDPSocket())
      try one.connect(to: other.localAddress)
      try stranger.send(bytes("spam"), to: one.localAddress)
      try one.send(bytes("question"))
      try other.send(bytes("answer"), to: other.receive().sender)
      #expect(try one.receive().bytes == bytes("answer"))
      other.close()
      try one.send(bytes("anybody?"))
      let error = #expect(throws: IOError.self) { try one.receive() }
      #expect(error?.code == ECONNREFUSED)
    }
  }

  @Test func aWaitEndsByTimeoutCancelAndCloseAndLosesNothing() throws {
    try runUntilComplete {
      let (one, other) = (try UDPSocket(), try UDPSocket())
      #expect(throws: TimeoutError.self) { try other.receive(timeout: .milliseconds(1)) }
      let cancelled = Coroutine { try other.receive() }
      Coroutine.yield()
      cancelled.cancel()
      #expect(throws: CancellationError.self) { try cancelled.get() }
      try one.send([1], to: other.localAddress)
      #expect(try other.receive().bytes == [1])
      let waiting = Coroutine { try other.receive() }
      Coroutine.yield()
      other.close()
      #expect(throws: DescriptorClosed.self) { try waiting.get() }
    }
  }
}

@Suite(.ownThreads)
struct PipeTests {
  @Test func aRegularFileIsRefusedAndStaysTheCallers() throws {
    let folder = try TemporaryFolder()
    let number = open(folder.path + "/file", O_CREAT | O_RDWR, 0o600)
    let error = #expect(throws: IOError.self) { try PipeReader(adopting: number) }
    #expect(error?.code == EPERM)
    #expect(fcntl(number, F_GETFD) >= 0)
    close(number)
  }

  @Test func theLastCopyCloses() throws {
    try runUntilComplete {
      let (reader, writer) = try makePipe()
      var copy: PipeWriter? = writer
      try copy?.write("x")
      copy = nil
      #expect(try reader.read() == bytes("x"))
      #expect(!writer.isClosed)
      writer.close()
      #expect(try reader.read() == nil)
    }
    try runUntilComplete {
      var ends: (reader: PipeReader, writer: PipeWriter)? = try makePipe()
      let reader = try #require(ends?.reader)
      ends = nil
      #expect(try reader.read() == nil)
    }
  }

  /// Other processes that share the standard input still see it as blocking.
  @Test func theStandardInputIsOpenedOnceMore() async {
    await #expect(processExitsWith: .success) {
      var ends: [Int32] = [0, 0]
      guard pipe(&ends) == 0, dup2(ends[0], 0) == 0, write(ends[1], "one\ntwo\n", 8) == 8, close(ends[1]) == 0 else {
        exit(2)
      }
      try runInExitTest {
        let input = try PipeReader.standardInput()
        guard try input.readLine() == "one", try input.readLine() == "two", try input.readLine() == nil else { exit(3) }
      }
      exit(fcntl(0, F_GETFL) & O_NONBLOCK == 0 ? 0 : 4)
    }
  }

  @Test func aTypeOfYourOwnIsAStream() throws {
    struct Line: ReadableByteStream, WritableByteStream { let endpoint: StreamEndpoint }
    try runUntilComplete {
      var ends: [Int32] = [0, 0]
      try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
      let one = Line(endpoint: StreamEndpoint(try Descriptor(adopting: ends[0], name: "one")))
      let other = Line(endpoint: StreamEndpoint(try Descriptor(adopting: ends[1], name: "other")))
      try one.write("hello\n")
      #expect(try other.readLine() == "hello")
      #expect(other.name == "other")
    }
  }
}
