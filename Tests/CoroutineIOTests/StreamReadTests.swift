import Coroutine
import CoroutineTestSupport
import Foundation
import Glibc
import Testing

@testable import CoroutineIO

@Suite(.ownThreads)
struct StreamReadTests {
  @Test(arguments: StreamKind.allCases)
  func readsWhatHasComeAndThenTheEnd(_ kind: StreamKind) throws {
    try runUntilComplete {
      let (writer, reader) = try kind.make()
      try writer.write("hello")
      #expect(try reader.readExactly(5) == bytes("hello"))
      writer.close()
      #expect(try reader.read() == nil)
      #expect(try reader.read() == nil)
    }
  }

  @Test(arguments: StreamKind.allCases)
  func gathersBytesThatComeOneByOne(_ kind: StreamKind) throws {
    try runUntilComplete {
      let (writer, reader) = try kind.make()
      Coroutine {
        for byte in bytes("hello\nworld") {
          try writer.write([byte])
          Coroutine.yield()
        }
        writer.close()
      }
      #expect(try reader.readLine() == "hello")
      #expect(try reader.readExactly(5) == bytes("world"))
      #expect(try reader.readLine() == nil)
    }
  }

  @Test(arguments: StreamKind.allCases)
  func aSelectSeesTheBytesThatWereReadAhead(_ kind: StreamKind) throws {
    try runUntilComplete {
      let (writer, reader) = try kind.make()
      let stop = Channel<String?>()
      func line() throws -> String? {
        try select {
          reader.descriptor.onReadable { try reader.readLine() }
          stop.onReceive { $0 ?? nil }
          onTimeout(.seconds(10)) { "late" }
        }
      }
      try writer.write("one\ntwo\nthree")
      #expect(try line() == "one")
      #expect(try line() == "two")
      try reader.descriptor.waitUntilReadable(timeout: .zero)
      #expect(try reader.readExactly(5) == bytes("three"))
      #expect(throws: TimeoutError.self) { try reader.descriptor.waitUntilReadable(timeout: .zero) }
      writer.close()
      #expect(try line() == nil)
    }
  }

  @Test(arguments: StreamKind.allCases)
  func withoutTimeWhatIsThereIsRead(_ kind: StreamKind) throws {
    try runUntilComplete {
      let (writer, reader) = try kind.make()
      // A read that waits, and gets less than it asked for.
      let first = Coroutine { try reader.read() }
      Coroutine.yield()
      try writer.write("x")
      #expect(try first.get() == bytes("x"))
      try writer.write("y")
      // Of TCP the byte may need a moment.
      var second: [UInt8]?
      while second == nil {
        do { second = try reader.read(timeout: .zero) } catch is TimeoutError { #expect(kind == .tcp) }
      }
      #expect(second == bytes("y"))
    }
  }

  @Test(arguments: StreamKind.allCases)
  func allIsReadToTheEndUnlessItIsTooMuch(_ kind: StreamKind) throws {
    try runUntilComplete {
      let (writer, reader) = try kind.make()
      let all = pattern(300_000)
      Coroutine {
        try writer.write(all)
        writer.close()
      }
      #expect(throws: StreamTooLong.self) { try reader.readToEnd(limit: 1000) }
      // Nothing of it is lost.
      #expect(try reader.read(upTo: 10) == Array(all.prefix(10)))
      #expect(try reader.readToEnd(limit: 299_990) == Array(all.dropFirst(10)))
      #expect(try reader.readToEnd(limit: 0) == [])
    }
  }

  @Test func asMuchAsHasComeCanBeAskedFor() throws {
    try runUntilComplete {
      let (reader, writer) = try makePipe()
      try writer.write("abc")
      #expect(try reader.read(upTo: .max) == bytes("abc"))
    }
  }

  @Test func readsIntoABufferAndASpan() throws {
    try runUntilComplete {
      let (reader, writer) = try makePipe()
      try writer.write("abcdef")
      var storage = [UInt8](repeating: 0, count: 4)
      #expect(try storage.withUnsafeMutableBytes { try reader.read(into: $0) } == 4)
      #expect(storage == bytes("abcd"))
      var span = storage.mutableSpan
      var raw = span.mutableBytes
      #expect(try reader.read(into: &raw) == 2)
      #expect(storage == bytes("efcd"))
      // A buffer without room is no end of the stream.
      #expect(try reader.read(into: UnsafeMutableRawBufferPointer(start: nil, count: 0)) == 0)
    }
  }

  @Test func anEndBeforeAllBytesHandsOverThoseThatCame() throws {
    try runUntilComplete {
      let (reader, writer) = try makePipe()
      try writer.write("abc")
      writer.close()
      let error = #expect(throws: UnexpectedEndOfStream.self) { try reader.readExactly(5) }
      #expect(error?.bytes == bytes("abc"))
      #expect(error?.expected == 5)
      #expect(try reader.read() == nil)
    }
  }

  @Test(arguments: StreamKind.allCases)
  func aTimeoutInTheMiddleLosesNothing(_ kind: StreamKind) throws {
    try runUntilComplete {
      let (writer, reader) = try kind.make()
      try writer.write("abc")
      #expect(throws: TimeoutError.self) { try reader.readExactly(5, timeout: .milliseconds(1)) }
      #expect(throws: TimeoutError.self) { try reader.readLine(timeout: .zero) }
      try writer.write("de\n")
      #expect(try reader.readLine() == "abcde")
    }
  }

  @Test(arguments: StreamKind.allCases)
  func aCancelInTheMiddleLosesNothing(_ kind: StreamKind) throws {
    try runUntilComplete {
      let (writer, reader) = try kind.make()
      try writer.write("abc")
      let first = Coroutine { try reader.readExactly(5) }
      Coroutine.yield()
      first.cancel()
      #expect(throws: CancellationError.self) { try first.get() }
      try writer.write("de")
      #expect(try reader.readExactly(5) == bytes("abcde"))
    }
  }

  @Test func aCancelledCoroutineReadsNothing() throws {
    try runUntilComplete {
      let (reader, writer) = try makePipe()
      try writer.write("line\nrest")
      #expect(try reader.readLine() == "line")
      // "rest" has been read ahead.
      let late = Coroutine {
        withCancellationShield { Coroutine.yield() }
        return try reader.read()
      }
      Coroutine.yield()
      late.cancel()
      #expect(throws: CancellationError.self) { try late.get() }
      #expect(try reader.read() == bytes("rest"))
    }
  }

  @Test func aLostSelectReadsNothing() throws {
    try runUntilComplete {
      let (reader, writer) = try makePipe()
      let news = Channel<Int>(capacity: .buffered(1))
      try news.send(1)
      let chosen = try select {
        news.onReceive { _ in "news" }
        reader.descriptor.onReadable { "bytes" }
      }
      #expect(chosen == "news")
      try writer.write("abc")
      #expect(try reader.readExactly(3) == bytes("abc"))
    }
  }

  @Test func linesEndByNewlineWithOrWithoutReturn() throws {
    try runUntilComplete {
      let (reader, writer) = try makePipe()
      try writer.write("a\nb\r\n\nlast")
      writer.close()
      let lines = reader.lines()
      var all: [String] = []
      while let line = try lines.next() { all.append(line) }
      #expect(all == ["a", "b", "", "last"])
      #expect(try lines.next() == nil)
    }
  }

  @Test func whatALineReaderReadAheadBelongsToTheNextRead() throws {
    try runUntilComplete {
      let (reader, writer) = try makePipe()
      try writer.write("POST\nbody and more")
      #expect(try reader.lines().next() == "POST")
      #expect(try reader.readExactly(4) == bytes("body"))
      var four = [UInt8](repeating: 0, count: 4)
      #expect(try four.withUnsafeMutableBytes { try reader.read(into: $0) } == 4)
      #expect(four == bytes(" and"))
      #expect(try reader.read(upTo: 2) == bytes(" m"))
      #expect(try reader.chunks(of: 3).next() == bytes("ore"))
    }
  }

  @Test func aLineHasALimit() throws {
    try runUntilComplete {
      let (reader, writer) = try makePipe()
      try writer.write("1234\r\n12345\nx")
      #expect(try reader.readLine(limit: 4) == "1234")
      for _ in 0..<2 {
        #expect(throws: LineTooLong(limit: 4, subject: reader.name)) { try reader.readLine(limit: 4) }
      }
      #expect(try reader.readLine(limit: 5) == "12345")
      // Where no end is in sight the read does not wait for one.
      try writer.write("yyyyy")
      #expect(throws: LineTooLong.self) { try reader.readLine(limit: 5) }
      #expect(try reader.readExactly(6) == bytes("xyyyyy"))
      // A carriage return without a line feed is a part of the line.
      try writer.write("1234\r")
      writer.close()
      #expect(throws: LineTooLong.self) { try reader.readLine(limit: 4) }
      #expect(try reader.readLine(limit: 5) == "1234\r")
    }
  }

  @Test(arguments: StreamKind.allCases)
  func partsEndByAnyDelimiter(_ kind: StreamKind) throws {
    try runUntilComplete {
      let (writer, reader) = try kind.make()
      try writer.write("a\u{0}\u{0}b--c-d--e\r\n\r\nf---g")
      writer.close()
      #expect(try reader.read(until: 0) == bytes("a"))
      #expect(try reader.read(until: 0, strippingDelimiter: false) == [0])
      #expect(try reader.read(until: [45, 45]) == bytes("b"))
      #expect(try reader.read(until: "--".utf8, strippingDelimiter: false) == bytes("c-d--"))
      #expect(try reader.read(until: "\r\n\r\n".utf8) == bytes("e"))
      // The first place counts, and what is left is a part.
      let parts = reader.parts(until: "--".utf8, strippingDelimiter: false)
      #expect(try parts.next() == bytes("f--"))
      #expect(try parts.next() == bytes("-g"))
      #expect(try parts.next() == nil)
      #expect(try reader.read(until: 0) == nil)
    }
  }

  @Test(arguments: StreamKind.allCases)
  func aDelimiterMayComeInPieces(_ kind: StreamKind) throws {
    try runUntilComplete {
      let (writer, reader) = try kind.make()
      let text = "aab" + "xaaab" + "aaaa" + "aab" + "end"
      Coroutine {
        for byte in bytes(text) {
          try writer.write([byte])
          Coroutine.yield()
        }
        writer.close()
      }
      let parts = reader.parts(until: "aab".utf8)
      var all: [[UInt8]] = []
      while let part = try parts.next() { all.append(part) }
      #expect(all == [bytes(""), bytes("xa"), bytes("aaaa"), bytes("end")])
    }
  }

  /// Every text of a few letters, in every two pieces, against a plain search.
  @Test func everyShortTextIsCutAtTheFirstPlaces() throws {
    try runUntilComplete {
      for delimiter in ["a", "ab", "aa", "aba"].map(bytes) {
        for length in 0...5 {
          for code in 0..<(1 << length) {
            let text = (0..<length).map { code >> $0 & 1 == 0 ? UInt8(ascii: "a") : UInt8(ascii: "b") }
            for cut in 0...length {
              let (reader, writer) = try makePipe()
              let writing = Coroutine {
                try writer.write(text[..<cut])
                Coroutine.yield()
                try writer.write(text[cut...])
                writer.close()
              }
              let parts = reader.parts(until: delimiter, strippingDelimiter: false, limit: length)
              var all: [[UInt8]] = []
              while let part = try parts.next() { all.append(part) }
              try writing.get()
              #expect(all.flatMap { $0 } == text && all == split(text, after: delimiter))
            }
          }
        }
      }
    }
  }

  private func split(_ text: [UInt8], after delimiter: [UInt8]) -> [[UInt8]] {
    var parts: [[UInt8]] = []
    var part: [UInt8] = []
    for byte in text {
      part.append(byte)
      guard part.suffix(delimiter.count) == delimiter[...] else { continue }
      parts.append(part)
      part = []
    }
    return part.isEmpty ? parts : parts + [part]
  }

  @Test func aPartHasALimit() throws {
    try runUntilComplete {
      let (reader, writer) = try makePipe()
      try writer.write("1234;;12345;;x")
      #expect(try reader.read(until: ";;".utf8, limit: 4) == bytes("1234"))
      for _ in 0..<2 {
        #expect(throws: LineTooLong(limit: 4, subject: reader.name)) { try reader.read(until: ";;".utf8, limit: 4) }
      }
      #expect(try reader.read(until: ";;".utf8, limit: 5) == bytes("12345"))
      // Where no end is in sight the read does not wait for one; half of a delimiter is in sight.
      try writer.write("yyyy;")
      #expect(throws: TimeoutError.self) { try reader.read(until: ";;".utf8, limit: 5, timeout: .zero) }
      try writer.write("z")
      #expect(throws: LineTooLong.self) { try reader.read(until: ";;".utf8, limit: 5) }
      #expect(throws: LineTooLong.self) { try reader.read(until: 0, limit: 6) }
      // What is left at the end has the same limit.
      writer.close()
      #expect(throws: LineTooLong.self) { try reader.read(until: "no such".utf8, limit: 6) }
      #expect(try reader.read(until: "no such".utf8, limit: 7) == bytes("xyyyy;z"))
      #expect(try reader.read(until: 0, limit: .max) == nil)
    }
  }

  @Test(arguments: StreamKind.allCases)
  func whatEndsAReadUntilADelimiterLosesNothing(_ kind: StreamKind) throws {
    try runUntilComplete {
      let (writer, reader) = try kind.make()
      try writer.write("abc;")
      #expect(throws: TimeoutError.self) { try reader.read(until: ";;".utf8, timeout: .milliseconds(1)) }
      #expect(throws: TimeoutError.self) {
        try withTimeout(.milliseconds(1)) { try reader.read(until: ";;".utf8) }
      }
      let first = Coroutine { try reader.read(until: ";;".utf8) }
      Coroutine.yield()
      first.cancel()
      #expect(throws: CancellationError.self) { try first.get() }
      try writer.write(";d;;rest")
      #expect(try reader.read(until: ";;".utf8) == bytes("abc"))
      #expect(try reader.parts(until: [59]).next() == bytes("d"))
      #expect(try reader.readExactly(5) == bytes(";rest"))
    }
  }

  @Test func aDelimiterOfNoBytesTraps() async {
    let exit = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Coroutine {
        let (reader, _) = try makePipe()
        _ = try reader.read(until: [UInt8]())
      }.get()
    }
    let text = exit.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
    #expect(text.contains("a delimiter has one byte or more"))
  }

  @Test(arguments: StreamKind.allCases)
  func longLinesAndLargeBlocksComeWhole(_ kind: StreamKind) throws {
    try runUntilComplete {
      let (writer, reader) = try kind.make()
      let line = String(repeating: "z", count: 60_000)
      let block = pattern(300_000)
      Coroutine {
        try writer.write("short\n" + line + "\n")
        try writer.write(block)
        writer.close()
      }
      #expect(try reader.readLine() == "short")
      #expect(try reader.readLine() == line)
      #expect(try reader.readExactly(block.count) == block)
      #expect(try reader.read() == nil)
    }
  }

  @Test func chunksAreFullButTheLast() throws {
    try runUntilComplete {
      let (reader, writer) = try makePipe()
      try writer.write("0123456789")
      writer.close()
      let chunks = reader.chunks(of: 4)
      #expect(try chunks.next() == bytes("0123"))
      #expect(try chunks.next() == bytes("4567"))
      #expect(try chunks.next() == bytes("89"))
      #expect(try chunks.next() == nil)
    }
  }

  @Test func aSecondReaderIsRefused() throws {
    try runUntilComplete {
      let (reader, writer) = try makePipe()
      let first = Coroutine { try reader.readExactly(4) }
      Coroutine.yield()
      try writer.write("ab")
      Coroutine.yield()
      #expect(throws: StreamInUse(operation: "read", subject: reader.name, holder: first.id)) { try reader.read() }
      #expect(throws: StreamInUse.self) { try reader.readLine() }
      try writer.write("cd")
      #expect(try first.get() == bytes("abcd"))
      try writer.write("e")
      #expect(try reader.read() == bytes("e"))
    }
  }

  @Test func aCloseEndsTheReadersWait() throws {
    try runUntilComplete {
      let (reader, writer) = try makePipe()
      try writer.write("line\nrest")
      #expect(try reader.readLine() == "line")
      let first = Coroutine { try reader.readExactly(10) }
      Coroutine.yield()
      reader.close()
      #expect(reader.isClosed)
      #expect(throws: DescriptorClosed.self) { try first.get() }
      #expect(throws: DescriptorClosed.self) { try reader.read() }
      writer.close()
    }
  }

  /// The kernel delivers such bytes in parts: a short read does not mean that there are no more.
  @Test func bytesBehindAPassedDescriptorAreRead() throws {
    try runUntilComplete {
      let (sender, receiver) = try UnixConnection.pair()
      try sender.descriptor.withFileDescriptor { number in
        // A header for one descriptor, in the layout of CMSG_FIRSTHDR.
        var control = [Int32](repeating: 0, count: 6)
        control[0] = 20
        control[2] = SOL_SOCKET
        control[3] = 1  // SCM_RIGHTS
        control[4] = number
        var byte: UInt8 = 97
        withUnsafeMutableBytes(of: &byte) { byte in
          control.withUnsafeMutableBytes { control in
            var piece = iovec(iov_base: byte.baseAddress, iov_len: 1)
            withUnsafeMutablePointer(to: &piece) { piece in
              var message = msghdr()
              message.msg_iov = piece
              message.msg_iovlen = 1
              message.msg_control = control.baseAddress
              message.msg_controllen = control.count
              #expect(sendmsg(number, &message, 0) == 1)
            }
          }
        }
      }
      try sender.write("bc")
      #expect(try receiver.readExactly(3) == bytes("abc"))
    }
  }

  /// A TCP read stops before an urgent byte, even if more bytes have arrived.
  @Test func bytesBehindAnUrgentOneAreRead() throws {
    try runUntilComplete {
      let (client, server) = try PairKind.tcp.make()
      let (reader, writer) = try makePipe()
      let told = Coroutine { try reader.read() }
      Coroutine.yield()
      try client.write("abc")
      try client.descriptor.withFileDescriptor { #expect(send($0, "!", 1, Int32(MSG_OOB)) == 1) }
      try client.write("def")
      // Sent once all of the above was reported: from here on a short read would be believed.
      try writer.write("x")
      _ = try told.get()
      #expect(try server.readExactly(6) == bytes("abcdef"))
    }
  }

  /// A peer that sends as fast as it is read: no call has to wait.
  @Test(arguments: ["its own time", "a region's time", "a cancel"])
  func aReadThatNeverWaitsEnds(_ reason: String) throws {
    try runUntilComplete {
      let number = open("/dev/random", O_RDONLY | O_CLOEXEC)
      try #require(number >= 0)
      let endless = try PipeReader(adopting: number)
      switch reason {
      case "its own time":
        #expect(throws: TimeoutError.self) { try endless.readToEnd(limit: .max, timeout: .milliseconds(20)) }
        #expect(throws: TimeoutError.self) { try endless.readExactly(1 << 40, timeout: .milliseconds(20)) }
        let sink = try PipeWriter(adopting: open("/dev/random", O_WRONLY | O_CLOEXEC))
        #expect(throws: TimeoutError.self) { try endless.copy(to: sink, timeout: .milliseconds(20)) }
      case "a region's time":
        #expect(throws: TimeoutError.self) {
          try withTimeout(.milliseconds(20)) { try endless.readToEnd(limit: .max) }
        }
      default:
        let own = try #require(Coroutine.current)
        DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(20)) { own.cancel() }
        #expect(throws: CancellationError.self) { try endless.readToEnd(limit: .max) }
      }
    }
  }

  /// The next read begins with it, and may wait for ever.
  @Test func aByteThatIsLeftKeepsNoLargeBlock() throws {
    try runUntilComplete {
      let (writer, reader) = try PairKind.unix.make()
      let line = String(repeating: "z", count: 100_000)
      // All of it is there when the read begins, which takes the last byte together with the line's end.
      try writer.write(line + "\nx")
      #expect(try reader.readLine(limit: .max) == line)
      let before = reader.endpoint.readAheadCapacity
      #expect(before > 100_000)
      let end = outcome { _ = try reader.readExactly(2, timeout: .milliseconds(1)) }
      #expect(end == "timed out")
      let after = reader.endpoint.readAheadCapacity
      #expect(after == StreamBuffer.usualCapacity)
      try writer.write("y\n")
      #expect(try reader.readLine() == "xy")
    }
  }

  @Test(.disabled(if: isSanitized, "a sanitizer maps memory for each stack: AddressSanitizer eleven megabytes"))
  func oneThatWaitsKeepsNoMemory() async {
    await #expect(processExitsWith: .success) {
      try runInExitTest {
        let pairs = try (0..<301).map { _ in try PairKind.unix.make() }
        let readers = pairs.map { pair in Coroutine(start: .lazy) { _ = try pair.0.read(upTo: .max) } }
        func wait(_ reader: Coroutine<Void, any Error>) {
          reader.start()
          while reader.suspension == nil { Coroutine.yield() }
        }
        wait(readers[0])
        let before = virtualSize()
        for reader in readers.dropFirst() { wait(reader) }
        // A megabyte each, if it were kept. (Their stacks take a third of that; a thread that begins, 64 MiB.)
        if virtualSize() - before > 220 << 20 { exit(2) }
        for pair in pairs { pair.1.close() }
        for reader in readers { try reader.get() }
      }
      exit(0)
    }
  }
}

/// Of the process, in bytes.
private func virtualSize() -> Int {
  let pages = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ").first
  return pages.flatMap { Int($0) }.map { $0 * Int(getpagesize()) } ?? 0
}
