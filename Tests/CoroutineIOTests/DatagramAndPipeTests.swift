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

  /// The kernel keeps what had come before the connect.
  @Test func aStrangersDatagramFromBeforeTheConnectIsDropped() throws {
    for host in ["127.0.0.1", "::1"] {
      try runUntilComplete {
        let (one, other) = (try UDPSocket(host: host), try UDPSocket(host: host))
        let stranger = try UDPSocket(host: host)
        try stranger.send(bytes("forged"), to: one.localAddress)
        try other.send(bytes("early"), to: one.localAddress)
        try one.connect(to: other.localAddress)
        #expect(try one.receive().bytes == bytes("early"))
        try stranger.send(bytes("forged"), to: one.localAddress)
        try other.send(bytes("answer"), to: one.localAddress)
        #expect(try one.receive().bytes == bytes("answer"))
        #expect(throws: TimeoutError.self) { try one.receive(timeout: .zero) }
      }
    }
  }

  @Test func oneForAPeerSpeaksWithItAlone() throws {
    try runUntilComplete {
      let server = try UDPSocket()
      let client = try UDPSocket(to: server.localAddress)
      try client.send(bytes("question"))
      let question = try server.receive(upTo: .max)
      #expect(question.bytes == bytes("question"))
      #expect(try question.sender == client.localAddress)
      try server.send(bytes("answer"), to: question.sender)
      #expect(try client.receive().bytes == bytes("answer"))
      #expect(throws: InvalidAddress.self) { try UDPSocket(to: .unix(path: "/tmp/socket")) }
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

  /// A pipe of packets gives one at a time, as a terminal gives lines: a short read does not tell that there is no more.
  @Test func aPipeOfPacketsIsReadToTheLast() throws {
    try runUntilComplete {
      var ends: [Int32] = [0, 0]
      #if arch(x86_64)
        let packets: Int32 = 0o40000  // O_DIRECT
      #else
        let packets: Int32 = 0o200000
      #endif
      try #require(pipe(&ends) == 0 && fcntl(ends[1], F_SETFL, packets) == 0)
      let reader = try PipeReader(adopting: ends[0])
      for line in ["one\n", "two\n", "three\n"] { #expect(write(ends[1], line, line.utf8.count) == line.utf8.count) }
      #expect(try reader.readLine() == "one")
      #expect(try reader.readLine(timeout: .seconds(10)) == "two")
      #expect(try reader.read(timeout: .seconds(10)) == bytes("three\n"))
      close(ends[1])
    }
  }

  @Test func aTerminalsLinesAreAllRead() throws {
    let master = open("/dev/ptmx", O_RDWR | O_NOCTTY)
    // Not every container has terminals.
    guard master >= 0 else { return }
    defer { close(master) }
    var (number, lock) = (UInt32(0), CInt(0))
    let (getNumber, setLock): (UInt, UInt) = (0x8004_5430, 0x4004_5431)  // TIOCGPTN, TIOCSPTLCK
    try #require(ioctl(master, getNumber, &number) == 0 && ioctl(master, setLock, &lock) == 0)
    let slave = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY)
    try #require(slave >= 0)
    try runUntilComplete {
      let terminal = try PipeReader(adopting: slave)
      #expect(write(master, "one\ntwo\nthree\n", 14) == 14)
      for line in ["one", "two", "three"] { #expect(try terminal.readLine(timeout: .seconds(10)) == line) }
    }
  }

  @Test func theStandardStreamsMayBeFiles() async {
    await #expect(processExitsWith: .success) {
      let folder = try TemporaryFolder()
      let (input, output) = (folder.path + "/in", folder.path + "/out")
      let writer = open(input, O_CREAT | O_RDWR, 0o600)
      guard write(writer, "head\none\ntwo\n", 13) == 13, lseek(writer, 5, SEEK_SET) == 5, dup2(writer, 0) == 0,
        dup2(open(output, O_CREAT | O_WRONLY | O_APPEND, 0o600), 1) == 1
      else { exit(2) }
      try runInExitTest {
        // Each call goes on behind the last one; the first begins where the process stands in the file.
        guard try PipeReader.standardInput().readLine() == "one", try PipeReader.standardInput().readLine() == "two",
          try PipeReader.standardInput().readLine() == nil
        else { exit(3) }
        try PipeWriter.standardOutput().write("a")
        try PipeWriter.standardOutput().write("b")
        try PipeWriter.standardOutput().close()
        let null = open("/dev/null", O_RDWR)
        guard dup2(null, 0) == 0, dup2(null, 1) == 1 else { exit(4) }
        try PipeReader.standardInput().close()
        guard try PipeReader.standardInput().read() == nil else { exit(5) }
        try PipeWriter.standardOutput().write("nowhere")
        guard try File.contents(of: output) == bytes("ab") else { exit(6) }
      }
      try? FileManager.default.removeItem(atPath: folder.path)
      exit(0)
    }
  }

  @Test func theEndOfAFIFOWhoseWritersHaveGoneIsReported() async {
    await #expect(processExitsWith: .success) {
      let folder = try TemporaryFolder()
      let path = folder.path + "/fifo"
      guard mkfifo(path, 0o600) == 0, dup2(open(path, O_RDONLY | O_NONBLOCK), 0) == 0 else { exit(2) }
      let writer = open(path, O_WRONLY)
      guard write(writer, "x", 1) == 1, close(writer) == 0 else { exit(3) }
      try runInExitTest {
        let input = try PipeReader.standardInput()
        guard try input.readExactly(1) == [120] else { exit(4) }
        try input.descriptor.waitUntilReadable(timeout: .zero)
        guard try input.read() == nil else { exit(5) }
      }
      exit(0)
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
