// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
public import Coroutine
import CoroutineLibc
import Synchronization

/// What the copies of a stream share: its descriptor, the bytes read ahead, and the present reader and writer.
///
/// The streams of this module have one each. A type of yours, such as a serial line, becomes a stream by having one:
///
/// ```swift
/// struct SerialLine: ReadableByteStream, WritableByteStream {
///   let endpoint: StreamEndpoint
///   init(path: String) throws {
///     endpoint = StreamEndpoint(try Descriptor(adopting: open(path, O_RDWR | O_NOCTTY), name: path))
///   }
/// }
/// ```
///
/// The descriptor is closed when the last copy is gone.
// Unchecked: the buffer belongs to the coroutine that has the readers' claim; all else is constant or atomic.
public final class StreamEndpoint: HiddenFromMirrors, @unchecked Sendable {
  /// What it reads and writes.
  public let descriptor: Descriptor
  /// Sockets write by system calls of their own, which have a flag not to raise SIGPIPE.
  private let isSocket: Bool
  /// Whether a read that returns less than requested has returned all, and a write that takes less has filled it: the next
  /// call can wait first. So it is with TCP. A terminal gives a line at a time and a packet pipe a packet, though there are
  /// more; a Unix socket gives the bytes in parts where descriptors were sent with them.
  private let shortCallsAreLast: Bool
  /// The writer's; the reader's is the descriptor's: the bytes that it leaves concern those who wait there.
  private let writeClaim = StreamClaim()
  /// How many bytes the kernel has taken. Written by the writer.
  private let total = Atomic<UInt64>(0)
  /// Whether a write has got the error of a connection that the peer has reset. The kernel tells it once: the reader gets an end,
  /// as if the peer had sent all. (Behind an end of the peer's, a write fails with EPIPE.)
  private let isReset = Atomic<Bool>(false)
  /// Whether a call of the writer's is under way, or what it has brought is not noted yet.
  private let isSending = Atomic<Bool>(false)
  // Of the reader, as what follows.
  @exclusivity(unchecked) private var buffer = StreamBuffer()
  /// Whether the peer's end has been read.
  @exclusivity(unchecked) private var isAtEnd = false

  /// The endpoint of something that reads and writes bytes as they come: no socket of datagrams.
  ///
  /// - Parameter descriptor: is closed together with the endpoint.
  public convenience init(_ descriptor: Descriptor) {
    let domain = try? descriptor.withFileDescriptor { number in
      var domain: Int32 = 0
      var length = socklen_t(MemoryLayout<Int32>.size)
      return getsockopt(number, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 ? domain : nil
    }
    self.init(descriptor, socketDomain: domain ?? nil)
  }

  /// - Parameter socketDomain: `nil` if it is no socket.
  init(_ descriptor: Descriptor, socketDomain: Int32?) {
    self.descriptor = descriptor
    isSocket = socketDomain != nil
    shortCallsAreLast = socketDomain == AF_INET || socketDomain == AF_INET6
  }

  deinit { close() }

  func close() { descriptor.close() }

  // MARK: Reading

  func read(into target: UnsafeMutableRawBufferPointer, timeout: Duration?) throws -> Int {
    try reading {
      if target.isEmpty { return 0 }
      if !buffer.isEmpty { return buffer.take(into: target) }
      return try descriptor.perform(.read, WaitLimit(timeout), asked: whole(target.count)) { number in
        receive(number, target.baseAddress, target.count)
      }
    }
  }

  func read(upTo count: Int, timeout: Duration?) throws -> [UInt8]? {
    require(count > 0, "read(upTo: \(count)) on \(descriptor.name): ask for one byte or more")
    let count = min(count, Self.mostAtATime)
    return try reading {
      if !buffer.isEmpty { return buffer.take(min(count, buffer.count)) }
      var bytes: [UInt8] = []
      // The array is made when there is something to read: a waiter needs no memory for it.
      _ = try descriptor.perform(.read, WaitLimit(timeout), asked: whole(count)) { number in
        var result = 0
        var code: Int32 = 0
        bytes = [UInt8](unsafeUninitializedCapacity: count) { target, initialized in
          result = receive(number, target.baseAddress, count)
          code = coroutine_io_errno()
          initialized = max(result, 0)
        }
        // A waiter keeps no memory.
        if result <= 0 { bytes = [] }
        return result < 0 ? Int(coroutine_io_fail(code)) : result
      }
      if bytes.isEmpty { return nil }
      // Few bytes in much memory, which the caller may keep.
      return bytes.count < count / 4 ? bytes.withUnsafeBytes { [UInt8]($0) } : bytes
    }
  }

  /// Of a read that asks for as much as there is: memory for all that could come can't be had.
  private static var mostAtATime: Int { 1 << 20 }
  /// For how many bytes there is room at first where many were announced: 64 KiB, as much as a pipe holds.
  private static var leastRoom: Int { 65_536 }

  func readToEnd(limit: Int, timeout: Duration?) throws -> [UInt8] {
    try reading {
      let waitLimit = WaitLimit(timeout)
      guard buffer.count <= limit else { throw StreamTooLong(limit: limit, subject: descriptor.name) }
      while try fill(1, waitLimit) {
        guard buffer.count <= limit else { throw StreamTooLong(limit: limit, subject: descriptor.name) }
        try waitLimit.checkBetweenCalls()
      }
      return buffer.take(buffer.count)
    }
  }

  func readExactly(_ count: Int, timeout: Duration?) throws -> [UInt8] {
    require(count >= 0, "readExactly(\(count)) on \(descriptor.name): the number of bytes must not be negative")
    return try reading {
      guard try gather(count, WaitLimit(timeout)) else {
        throw UnexpectedEndOfStream(bytes: buffer.take(buffer.count), expected: count, subject: descriptor.name)
      }
      return buffer.take(count)
    }
  }

  /// As many bytes, or those before the end; `nil` at the end.
  func readChunk(of count: Int, timeout: Duration?) throws -> [UInt8]? {
    try reading {
      _ = try gather(count, WaitLimit(timeout))
      return buffer.isEmpty ? nil : buffer.take(min(count, buffer.count))
    }
  }

  func readLine(limit: Int, timeout: Duration?) throws -> String? {
    try withUnsafeBytes(of: UInt8(ascii: "\n")) { newline in
      try readPart(until: newline, limit: limit, timeout: timeout) {
        $0.droppingCarriageReturn
      } result: { line, _ in
        String(decoding: line, as: UTF8.self)
      }
    }
  }

  func read(
    until delimiter: UnsafeRawBufferPointer, strippingDelimiter: Bool, limit: Int, timeout: Duration?
  ) throws -> [UInt8]? {
    require(!delimiter.isEmpty, "read(until:) on \(descriptor.name): a delimiter has one byte or more")
    return try readPart(until: delimiter, limit: limit, timeout: timeout) {
      $0
    } result: { part, whole in
      [UInt8](strippingDelimiter ? part : whole)
    }
  }

  /// Reads up to a delimiter, or to the end of the stream; `nil` at the end. If it throws, the bytes that have come stay in the
  /// buffer.
  ///
  /// - Parameters:
  ///   - limit: how many bytes the content may have.
  ///   - content: what counts of the bytes before the delimiter.
  ///   - result: made of the content, and of all with the delimiter; of what is left where the stream ends.
  @inline(__always)
  private func readPart<Result>(
    until delimiter: UnsafeRawBufferPointer, limit: Int, timeout: Duration?,
    content: (UnsafeRawBufferPointer) -> UnsafeRawBufferPointer,
    result: (_ content: UnsafeRawBufferPointer, _ whole: UnsafeRawBufferPointer) -> Result
  ) throws -> Result? {
    try reading {
      let waitLimit = WaitLimit(timeout)
      // Before this no delimiter begins.
      var looked = 0
      while true {
        let bytes = buffer.bytes
        if let start = bytes.firstOffset(of: delimiter, from: looked) {
          let content = content(UnsafeRawBufferPointer(rebasing: bytes[..<start]))
          guard content.count <= limit else { throw LineTooLong(limit: limit, subject: descriptor.name) }
          let length = start + delimiter.count
          let value = result(content, UnsafeRawBufferPointer(rebasing: bytes[..<length]))
          buffer.drop(length)
          return value
        }
        // The last bytes may be the first ones of a delimiter.
        let held = delimiter.count - 1
        guard content(bytes).count - held <= limit else {
          throw LineTooLong(limit: limit, subject: descriptor.name)
        }
        looked = max(looked, bytes.count - held)
        if looked > 0 { try waitLimit.checkBetweenCalls() }
        guard try fill(1, waitLimit) else {
          // The last part need not have an end.
          guard !buffer.isEmpty else { return nil }
          guard buffer.count <= limit else {
            throw LineTooLong(limit: limit, subject: descriptor.name)
          }
          let value = result(buffer.bytes, buffer.bytes)
          buffer.drop(buffer.count)
          return value
        }
      }
    }
  }

  /// Writes what comes to the other one, up to the end. The reader for all of that time, also while it writes: if it throws,
  /// the bytes that the other one has not taken stay in the buffer.
  ///
  /// - Returns: how many bytes.
  func copy(to other: StreamEndpoint, timeout: Duration?) throws -> Int {
    try reading {
      let limit = WaitLimit(timeout)
      var copied = 0
      while try !buffer.isEmpty || fill(1, limit) {
        var written = 0
        defer {
          buffer.drop(written)
          // The next read may have to wait: a connection that waits for its peer uses no memory for bytes.
          buffer.releaseIfEmpty()
          copied += written
        }
        try other.writing { try other.write(buffer.bytes, limit, &written) }
        try limit.checkBetweenCalls()
      }
      return copied
    }
  }

  /// Reads until this many bytes are in the buffer; false if the stream ends before. If it throws, the bytes that have
  /// come stay there: the next read begins with them.
  private func gather(_ count: Int, _ limit: WaitLimit) throws -> Bool {
    while buffer.count < count {
      // Not all of it at once: a peer that announces much need not send it.
      let space = min(count - buffer.count, max(Self.leastRoom, buffer.count))
      guard try fill(space, limit) else { return false }
      if buffer.count < count { try limit.checkBetweenCalls() }
    }
    return true
  }

  /// Reads more into the buffer, which has room for `space` bytes then, or more; false at the end.
  private func fill(_ space: Int, _ limit: WaitLimit) throws -> Bool {
    buffer.releaseSurplus(space)
    let asked: Int
    if buffer.isEmpty {
      asked = max(space, StreamBuffer.usualCapacity)
    } else {
      buffer.reserve(space)
      asked = buffer.room.count
    }
    let count = try descriptor.perform(.read, limit, asked: whole(asked)) { number in
      // An empty buffer gets its memory only now that there may be something, and loses it if there is not.
      buffer.reserve(asked)
      let count = receive(number, buffer.room.baseAddress, asked)
      guard count <= 0 else { return count }
      let code = coroutine_io_errno()
      buffer.releaseIfEmpty()
      return count == 0 ? 0 : Int(coroutine_io_fail(code))
    }
    buffer.add(count)
    return count > 0
  }

  /// How much memory the bytes read ahead have. By the reader; for tests.
  var readAheadCapacity: Int { buffer.capacity }

  /// Takes the bytes that have come. (`recv` spares sockets the layer of files: a thirtieth of a request of HTTP.)
  private func receive(_ number: CInt, _ target: UnsafeMutableRawPointer?, _ count: Int) -> Int {
    // Never blocks the thread, also if another process that has the socket clears O_NONBLOCK, which is one flag for all of
    // them.
    let received =
      isSocket ? recv(number, target, count, Int32(MSG_DONTWAIT)) : CoroutineLibc.read(number, target, count)
    if received == 0 {
      if !isAtEnd {
        // The writer may have got the reset that this end stands for. It does not wait: the call is made again. (In a child of
        // `fork` it may be a thread of the parent's, which is not there.)
        if isSending.load(ordering: .acquiring), !descriptor.waits.isInForkedChild {
          return Int(coroutine_io_fail(EINTR))
        }
        if isReset.load(ordering: .relaxed) { return Int(coroutine_io_fail(ECONNRESET)) }
      }
      isAtEnd = true
    }
    return received
  }

  /// How many bytes the call requests, if a result of fewer means that the next one would have to wait.
  private func whole(_ count: Int) -> Int? { shortCallsAreLast ? count : nil }

  private func reading<Result>(_ body: () throws -> Result) throws -> Result {
    let core = CoroutineCore.running(for: "read")
    let waits = descriptor.waits
    try check(waits.readClaim.take(for: core.id), "read")
    defer {
      buffer.releaseIfEmpty()
      waits.endReading(leavesBytes: !buffer.isEmpty)
    }
    try begin()
    return try body()
  }

  // MARK: Writing

  func write(_ bytes: UnsafeRawBufferPointer, timeout: Duration?) throws {
    try writing {
      var written = 0
      do { try write(bytes, WaitLimit(timeout), &written) } catch {
        throw reason(error, toStopAfter: written, of: bytes.count)
      }
    }
  }

  /// By the writer. `written` counts the bytes that the kernel has taken, also if it throws.
  private func write(_ bytes: UnsafeRawBufferPointer, _ limit: WaitLimit, _ written: inout Int) throws {
    while written < bytes.count {
      let rest = UnsafeRawBufferPointer(rebasing: bytes[written...])
      let some = try descriptor.perform(.write, limit, asked: whole(rest.count)) { number in
        if isSocket { return noting { send(number, rest.baseAddress, rest.count, Self.sendFlags) } }
        var piece = iovec(rest)
        return coroutine_io_write_quietly(number, &piece, 1)
      }
      written += some
      count(some)
      if written < bytes.count { try nextCall(behind: some, limit) }
    }
  }

  private static var sendFlags: Int32 { Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT) }

  /// What the kernel has taken; a reset is noted for the reader. Leaves `errno` as it is.
  ///
  /// The socket's own lock orders the two calls: a reader that gets an end behind a reset sees that one is under way, or what it
  /// has brought.
  @inline(__always)
  private func noting(_ send: () -> Int) -> Int {
    isSending.store(true, ordering: .relaxed)
    let sent = send()
    let code = sent < 0 ? coroutine_io_errno() : 0
    if code == ECONNRESET { isReset.store(true, ordering: .relaxed) }
    isSending.store(false, ordering: .releasing)
    return sent < 0 ? Int(coroutine_io_fail(code)) : sent
  }

  /// There is more to write.
  private func nextCall(behind written: Int, _ limit: WaitLimit) throws {
    // A file that takes nothing, and has no reason.
    guard written > 0 else { throw IOError(operation: "write", code: EIO, subject: descriptor.name) }
    try limit.checkBetweenCalls()
  }

  /// Writes pieces one behind the other, as many at a time as the kernel takes.
  func write(_ pieces: [UnsafeRawBufferPointer], timeout: Duration?) throws {
    try writing {
      let limit = WaitLimit(timeout)
      var rest = IOPieces(pieces)
      let asked = rest.count
      while rest.count > 0 {
        do {
          let written = try rest.withNext { next, count in
            try descriptor.perform(.write, limit, asked: whole(count)) { number in
              if !isSocket { return coroutine_io_write_quietly(number, next.baseAddress, Int32(next.count)) }
              var message = msghdr()
              message.msg_iov = next.baseAddress
              message.msg_iovlen = .init(next.count)  // musl: an Int32
              return noting { sendmsg(number, &message, Self.sendFlags) }
            }
          }
          rest.drop(written)
          count(written)
          if rest.count > 0 { try nextCall(behind: written, limit) }
        } catch {
          throw reason(error, toStopAfter: asked - rest.count, of: asked)
        }
      }
    }
  }

  /// The error of a write that stops after a part of its bytes. A cancel stays a cancel, as for all code around it. If
  /// a `withTimeout` is the reason, its `TimeoutError` says how far the write had come.
  private func reason(_ error: any Error, toStopAfter written: Int, of asked: Int) -> any Error {
    guard written > 0 else { return error }
    let partial = PartialWrite(bytesWritten: written, bytesAsked: asked, cause: error)
    guard error is CancellationError else { return partial }
    // Not the coroutine that has begun: a generator's body may have been moved.
    CoroutineCore.current?.noteCause(partial)
    return error
  }

  /// By the writer.
  private func count(_ written: Int) {
    total.store(total.load(ordering: .relaxed) &+ UInt64(written), ordering: .relaxed)
  }

  /// How many bytes the kernel has taken, in all.
  var bytesWritten: UInt64 { total.load(ordering: .relaxed) }

  /// Informs the peer that nothing more will be written.
  func finishWriting() throws {
    try writing {
      try descriptor.withFileDescriptor { number in
        if shutdown(number, Int32(SHUT_WR)) != 0 {
          throw IOError(operation: "shutdown", code: coroutine_io_errno(), subject: descriptor.name)
        }
      }
    }
  }

  private func writing(_ body: () throws -> Void) throws {
    let core = CoroutineCore.running(for: "write")
    try check(writeClaim.take(for: core.id), "write")
    defer { writeClaim.giveBack() }
    try begin()
    try body()
  }

  // MARK: Before a close

  /// Lets the peer of a connection get what was written, and its end, where a close would keep it from that: if bytes have come
  /// that were not read, or still come, the kernel drops what it has not sent yet, and resets the connection. By a Unix socket
  /// the peer would get a reset in place of the end.
  ///
  /// Then it sends the peer the end, and drops what comes until the peer's own end: 256 KiB at most, for some time at most,
  /// and until the calling coroutine is cancelled. In all other cases it does nothing: a peer that is quiet gets its end by the
  /// close.
  func lingerBeforeClose(upTo time: Duration = .seconds(1)) {
    guard isSocket else { return }
    // Where it was closed, or other code still reads or writes, that is the handler's affair.
    try? reading { () throws -> Void in
      // A peer whose bytes were read ahead may be about to send more.
      guard !isAtEnd, try !buffer.isEmpty || hasUnreadBytes() else { return }
      try finishWriting()
      buffer.drop(buffer.count)
      let limit = WaitLimit(time)
      var rest = 256 << 10
      while rest > 0, try fill(1, limit) {
        rest -= buffer.count
        buffer.drop(buffer.count)
        buffer.releaseIfEmpty()
        try limit.checkBetweenCalls()
      }
    }
  }

  /// Whether the kernel has bytes that were not read. By the reader.
  private func hasUnreadBytes() throws -> Bool {
    var byte: UInt8 = 0
    return try descriptor.withFileDescriptor { recv($0, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) > 0 }
  }

  // MARK: Both

  /// Throws if another coroutine has the claim.
  private func check(_ holder: UInt64?, _ operation: String) throws(StreamInUse) {
    if let holder { throw StreamInUse(operation: operation, subject: descriptor.name, holder: holder) }
  }

  /// A cancelled coroutine does not even get bytes that were read ahead, nor does a reader get those from a closed
  /// stream.
  private func begin() throws {
    try Coroutine.checkCancellation()
    if descriptor.isClosed { try descriptor.withFileDescriptor { _ in } }
  }
}

extension UnsafeRawBufferPointer {
  /// Where these bytes begin first, at this offset or behind it.
  @inline(__always)
  fileprivate func firstOffset(of bytes: UnsafeRawBufferPointer, from offset: Int) -> Int? {
    guard let base = baseAddress, let wanted = bytes.baseAddress, let first = bytes.first else { return nil }
    var offset = offset
    while offset <= count - bytes.count {
      guard let found = memchr(base + offset, Int32(first), count - bytes.count + 1 - offset) else { return nil }
      offset = UnsafeRawPointer(found) - base
      if bytes.count == 1 || memcmp(base + offset, wanted, bytes.count) == 0 { return offset }
      offset += 1
    }
    return nil
  }

  /// Without a carriage return at its end.
  fileprivate var droppingCarriageReturn: UnsafeRawBufferPointer {
    last == 13 ? UnsafeRawBufferPointer(rebasing: dropLast()) : self
  }
}
