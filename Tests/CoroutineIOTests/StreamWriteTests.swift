import Coroutine
import CoroutineTestSupport
import Glibc
import Testing

@testable import CoroutineIO

@Suite(.ownThreads)
struct StreamWriteTests {
  @Test(arguments: StreamKind.allCases)
  func writesMoreThanTheKernelHolds(_ kind: StreamKind) throws {
    let sent = pattern(3_000_000)
    try runUntilComplete {
      let (writer, reader) = try kind.make()
      Coroutine(on: .pool) {
        try writer.write(sent)
        writer.close()
      }
      #expect(try readAll(reader) == sent)
    }
  }

  @Test(arguments: StreamKind.allCases)
  func writesPiecesInOrder(_ kind: StreamKind) throws {
    // More pieces than one system call takes, empty ones, and one that fits into no buffer.
    var pieces = (0..<3000).map { pattern($0 % 7) }
    pieces.insert(pattern(1_000_000), at: 1500)
    let sent = pieces
    try runUntilComplete {
      let (writer, reader) = try kind.make()
      Coroutine(on: .pool) {
        try writer.write(contentsOf: sent)
        try writer.write(contentsOf: [[UInt8]]())
        writer.close()
      }
      #expect(try readAll(reader) == Array(sent.joined()))
    }
  }

  @Test(arguments: StreamKind.allCases)
  func copiesUpToTheEnd(_ kind: StreamKind) throws {
    let sent = pattern(1_000_000)
    try runUntilComplete {
      let (writer, reader) = try kind.make()
      let (copyReader, copyWriter) = try makePipe()
      Coroutine(on: .pool) {
        try writer.write(sent)
        writer.close()
      }
      // What was read ahead is a part of it.
      let copy = Coroutine(on: .pool) { () -> Int in
        let head = try reader.readExactly(3)
        try copyWriter.write(head)
        let count = try reader.copy(to: copyWriter)
        copyWriter.close()
        return count
      }
      #expect(try readAll(copyReader) == sent)
      #expect(try copy.get() == sent.count - 3)
    }
  }

  @Test func aCopyThatEndsEarlyLosesNoByte() throws {
    let sent = pattern(500_000)
    try runUntilComplete {
      let (source, copyFrom) = try UnixConnection.pair()
      let (target, copyTo) = try UnixConnection.pair()
      let sender = Coroutine {
        try source.write(sent)
        source.close()
      }
      // No reader takes from the target: the copy waits to write.
      let late = Coroutine { try copyFrom.copy(to: copyTo, timeout: .milliseconds(20)) }
      #expect(throws: TimeoutError.self) { try late.get() }
      let cancelled = Coroutine { try copyFrom.copy(to: copyTo) }
      while cancelled.state != .suspended { Coroutine.yield() }
      cancelled.cancel()
      #expect(throws: CancellationError.self) { try cancelled.get() }
      #expect(copyTo.bytesWritten > 0)
      copyTo.close()
      let first = try readAll(target)
      let rest = try readAll(copyFrom)
      #expect(first + rest == sent)
      try sender.get()
    }
  }

  @Test func aCopyToAPeerThatHasGoneKeepsTheBytes() throws {
    try runUntilComplete {
      let (source, copyFrom) = try UnixConnection.pair()
      let (target, copyTo) = try UnixConnection.pair()
      target.close()
      try source.write("bytes")
      source.close()
      let error = #expect(throws: IOError.self) { try copyFrom.copy(to: copyTo) }
      #expect(error?.code == EPIPE)
      #expect(try readAll(copyFrom) == bytes("bytes"))
    }
  }

  @Test func aConnectionIsCopiedToItself() throws {
    try runUntilComplete {
      let (client, server) = try UnixConnection.pair()
      let echo = Coroutine {
        defer { server.close() }
        return try server.copy(to: server)
      }
      try client.write("echo\n")
      #expect(try client.readLine() == "echo")
      try client.finishWriting()
      #expect(try readAll(client).isEmpty)
      #expect(try echo.get() == 5)
    }
  }

  @Test func writesAllKindsOfBytes() throws {
    try runUntilComplete {
      let (reader, writer) = try makePipe()
      let array = bytes("0123456789")
      try writer.write(array[2..<4])
      try writer.write(array.span.bytes)
      try writer.write("ü")
      try writer.write("")
      try writer.write(array.reversed())
      try array.withUnsafeBytes {
        try writer.write($0)
        try writer.write(contentsOf: [$0, $0])
      }
      writer.close()
      let all = try String(decoding: readAll(reader), as: UTF8.self)
      #expect(all == "230123456789ü9876543210" + String(repeating: "0123456789", count: 3))
    }
  }

  @Test(arguments: StreamKind.allCases)
  func aTimeoutInTheMiddleTellsHowMuchWasWritten(_ kind: StreamKind) throws {
    let sent = pattern(16_000_000)
    try runUntilComplete {
      let (writer, reader) = try kind.make()
      let error = #expect(throws: PartialWrite.self) { try writer.write(sent, timeout: .milliseconds(1)) }
      #expect(error?.cause is TimeoutError)
      #expect(error?.bytesAsked == sent.count)
      let written = error?.bytesWritten ?? 0
      #expect(written > 0 && written < sent.count)
      var arrived = Array(sent.prefix(written))
      // As soon as not a single byte fits any more, the error is the reason itself. (A socket may still move some on.)
      #expect(throws: TimeoutError.self) {
        while true {
          do { try writer.write(contentsOf: [sent], timeout: .zero) } catch let error as PartialWrite {
            arrived += sent.prefix(error.bytesWritten)
          }
        }
      }
      writer.close()
      #expect(try readAll(reader) == arrived)
    }
  }

  @Test(arguments: StreamKind.allCases)
  func aCancelInTheMiddleIsACancel(_ kind: StreamKind) throws {
    let sent = pattern(16_000_000)
    try runUntilComplete {
      let (writer, reader) = try kind.make()
      let write = Coroutine { try writer.write(contentsOf: [sent, sent]) }
      Coroutine.yield()
      #expect(throws: StreamInUse(operation: "write", subject: writer.name, holder: write.id)) {
        try writer.write("intruder")
      }
      write.cancel()
      #expect(throws: CancellationError.self) { try write.get() }
      let written = Int(writer.bytesWritten)
      #expect(written > 0)
      writer.close()
      #expect(try readAll(reader) == Array(sent.prefix(written)))
    }
  }

  @Test func aTimeoutAroundAWriteIsATimeout() throws {
    let sent = pattern(1_000_000)
    try runUntilComplete {
      let (reader, writer) = try makePipe()
      var partial: PartialWrite?
      // Repeated if the time was up before the first byte.
      while partial == nil {
        let error = #expect(throws: TimeoutError.self) {
          try withTimeout(.milliseconds(5)) { try writer.write(sent) }
        }
        partial = error?.cause as? PartialWrite
      }
      #expect(partial.map { UInt64($0.bytesWritten) } == writer.bytesWritten)
      writer.close()
      #expect(try readAll(reader).count == partial?.bytesWritten)
    }
  }

  @Test(arguments: PairKind.allCases)
  func oneReadsWhileAnotherWrites(_ kind: PairKind) throws {
    let sent = pattern(2_000_000)
    try runUntilComplete {
      let (client, server) = try kind.make()
      Coroutine(on: .pool) {
        while let bytes = try server.read() { try server.write(bytes) }
        server.close()
      }
      Coroutine(on: .pool) {
        try client.write(sent)
        try client.finishWriting()
      }
      #expect(try readAll(client) == sent)
    }
  }

  @Test(arguments: PairKind.allCases)
  func anEndOfWritingLeavesTheOtherDirection(_ kind: PairKind) throws {
    try runUntilComplete {
      let (client, server) = try kind.make()
      try client.write("question")
      try client.finishWriting()
      #expect(throws: IOError.self) { try client.write("more") }
      #expect(try readAll(server) == bytes("question"))
      try server.write("answer")
      server.close()
      #expect(try readAll(client) == bytes("answer"))
    }
  }

  @Test func aResetIsAnErrorOfTheReader() throws {
    try runUntilComplete {
      let (client, server) = try PairKind.tcp.make()
      let waiting = Coroutine { try server.read() }
      Coroutine.yield()
      try client.descriptor.withFileDescriptor { number in
        var option = linger(l_onoff: 1, l_linger: 0)
        #expect(setsockopt(number, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size)) == 0)
      }
      client.close()
      let error = #expect(throws: IOError.self) { try waiting.get() }
      #expect(error?.code == ECONNRESET)
      #expect(error?.subject == server.name)
    }
  }

  /// The kernel tells the writer, and the reader an end, as if the peer had sent all.
  @Test func aResetThatAWriteHasMetIsAnErrorOfTheReader() throws {
    try runUntilComplete {
      let (client, server) = try PairKind.tcp.make()
      try client.write("half a li")
      try client.descriptor.withFileDescriptor { number in
        var option = linger(l_onoff: 1, l_linger: 0)
        #expect(setsockopt(number, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size)) == 0)
      }
      client.close()
      let ofTheWriter = #expect(throws: IOError.self) { try server.write("x") }
      #expect(ofTheWriter?.code == ECONNRESET)
      let ofTheReader = #expect(throws: IOError.self) { try server.readLine() }
      #expect(ofTheReader?.code == ECONNRESET)
    }
  }

  /// Another process that has the socket, as a CGI program or a shell, makes it blocking.
  @Test func aSocketThatOthersHaveMadeBlockingBlocksNoThread() throws {
    try runUntilComplete {
      let (client, server) = try PairKind.tcp.make()
      for stream in [client, server] {
        try stream.descriptor.withFileDescriptor { #expect(fcntl($0, F_SETFL, fcntl($0, F_GETFL) & ~O_NONBLOCK) == 0) }
      }
      #expect(throws: TimeoutError.self) { try server.read(timeout: .milliseconds(1)) }
      let block = pattern(1 << 20)
      let failure = failure { while true { try client.write(block, timeout: .milliseconds(1)) } }
      #expect(failure.contains("timed out") || failure.contains("bytes"), "\(failure)")
    }
  }

  /// The poller has not told of the byte yet when the wait begins, nor when its time is up.
  @Test func aByteThatCameBeforeTheCallIsReadInItsTime() throws {
    try runUntilComplete {
      let (client, server) = try PairKind.tcp.make()
      try client.write("a")
      #expect(try server.read() == bytes("a"))
      let other = Coroutine {
        let end = ContinuousClock.now + .milliseconds(20)
        while ContinuousClock.now < end {}
      }
      try client.write("b")
      #expect(try server.read(timeout: .milliseconds(1)) == bytes("b"))
      try other.get()
    }
  }

  @Test func aPeerThatVanishesInTheMiddleOfALineLeavesItsBeginning() throws {
    try runUntilComplete {
      let (client, server) = try PairKind.tcp.make()
      try client.write("whole\nhalf")
      client.close()
      #expect(try server.readLine() == "whole")
      #expect(try server.readLine() == "half")
      #expect(try server.readLine() == nil)
    }
  }

  /// Writes to a stream that is no longer read, until that is an error. SIGPIPE would end the program.
  @Test func noSignalIsRaisedByWritesToNoReader() async {
    await #expect(processExitsWith: .success) {
      signal(SIGPIPE, SIG_DFL)
      try runInExitTest {
        for kind in StreamKind.allCases {
          let (writer, reader) = try kind.make()
          reader.close()
          for isVectored in [false, true] {
            let error = #expect(throws: IOError.self) {
              // TCP answers the first bytes after a close by a reset.
              for _ in 0..<1000 {
                if isVectored { try writer.write(contentsOf: [[1], [2]]) } else { try writer.write([1]) }
                try Coroutine.sleep(for: .milliseconds(1))
              }
            }
            guard error?.code == EPIPE || error?.code == ECONNRESET else { exit(2) }
          }
        }
      }
      var pending = sigset_t()
      sigpending(&pending)
      var mask = sigset_t()
      pthread_sigmask(SIG_SETMASK, nil, &mask)
      exit(sigismember(&pending, SIGPIPE) == 0 && sigismember(&mask, SIGPIPE) == 0 ? 0 : 3)
    }
  }

  /// A signal every millisecond, whose handler does not restart system calls.
  @Test func interruptedSystemCallsAreRepeated() async {
    await #expect(processExitsWith: .success) {
      var action = sigaction()
      action.__sigaction_handler.sa_handler = { _ in }
      sigaction(SIGALRM, &action, nil)
      var interval = itimerval(
        it_interval: timeval(tv_sec: 0, tv_usec: 1000), it_value: timeval(tv_sec: 0, tv_usec: 1000))
      setitimer(__itimer_which_t(ITIMER_REAL.rawValue), &interval, nil)
      let sent = pattern(4_000_000)
      try runInExitTest {
        for kind in StreamKind.allCases {
          let (writer, reader) = try kind.make()
          Coroutine(on: .pool) {
            try writer.write(sent)
            writer.close()
          }
          if try readAll(reader) != sent { exit(2) }
        }
      }
      exit(0)
    }
  }
}
