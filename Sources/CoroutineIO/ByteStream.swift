// SPDX-License-Identifier: Apache-2.0

import Coroutine

/// A stream of bytes without borders between writes: a connection, one end of a pipe.
///
/// `ReadableByteStream` and `WritableByteStream` have its operations. They suspend the coroutine that calls, and no thread.
/// A stream has one reader and one writer at a time, which may be two coroutines: a third gets `StreamInUse`. No byte is
/// lost or read twice when an operation is cancelled or its time is up.
public protocol ByteStream: Sendable {
  /// What the copies of the stream share.
  var endpoint: StreamEndpoint { get }
}

extension ByteStream {
  /// What it reads and writes: for options of the socket, and for a `select`.
  ///
  /// It does not keep the stream: with the last copy of that it is closed, whoever has a copy of the `Descriptor`.
  public var descriptor: Descriptor { endpoint.descriptor }

  /// Its name in messages and dumps.
  public var name: String { endpoint.descriptor.name }

  /// Closes it: waiting operations throw `DescriptorClosed`, as do all later ones. Further calls have no effect.
  /// Callable from any thread.
  ///
  /// A stream is closed, too, when its last copy is gone.
  public func close() { endpoint.close() }

  /// Whether it was closed on this side.
  public var isClosed: Bool { endpoint.descriptor.isClosed }
}

/// A stream of bytes that can be read.
///
/// Bytes that one operation has read ahead, such as those behind a line, are the first ones of the next operation,
/// whichever it is.
public protocol ReadableByteStream: ByteStream {}

extension ReadableByteStream {
  /// Reads the bytes that have come, as many as fit; suspends while there are none.
  ///
  /// ```swift
  /// let count = try withUnsafeTemporaryAllocation(byteCount: 512, alignment: 1) { try connection.read(into: $0) }
  /// ```
  ///
  /// - Parameters:
  ///   - buffer: where to.
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Returns: how many bytes were read. 0: the stream has ended, or the buffer has no room.
  /// - Throws: `TimeoutError`, `CancellationError`, and has read nothing; `DescriptorClosed`; `StreamInUse`; `IOError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func read(into buffer: UnsafeMutableRawBufferPointer, timeout: Duration? = nil) throws -> Int {
    try endpoint.read(into: buffer, timeout: timeout)
  }

  /// Reads the bytes that have come, as many as fit, into a span; suspends while there are none. As the form with a
  /// buffer.
  ///
  /// - Throws: `TimeoutError`, `CancellationError`, and has read nothing; `DescriptorClosed`; `StreamInUse`; `IOError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func read(into span: inout MutableRawSpan, timeout: Duration? = nil) throws -> Int {
    try span.withUnsafeMutableBytes { try endpoint.read(into: $0, timeout: timeout) }
  }

  /// Reads the bytes that have come, up to a number; suspends while there are none.
  ///
  /// ```swift
  /// while let bytes = try connection.read() { try connection.write(bytes) }
  /// ```
  ///
  /// - Parameters:
  ///   - count: how many at most, of which one call gives a MiB at most; 1 or more: traps otherwise.
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Returns: the bytes, one at least; `nil`: the stream has ended.
  /// - Throws: `TimeoutError`, `CancellationError`, and has read nothing; `DescriptorClosed`; `StreamInUse`; `IOError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func read(upTo count: Int = 16_384, timeout: Duration? = nil) throws -> [UInt8]? {
    try endpoint.read(upTo: count, timeout: timeout)
  }

  /// Reads exactly this many bytes; suspends until all are there.
  ///
  /// ```swift
  /// let header = try connection.readExactly(4)
  /// ```
  ///
  /// - Parameters:
  ///   - count: how many; not negative: traps otherwise.
  ///   - timeout: how long all of it may take; zero or less: only bytes that are there; `nil`: without a limit.
  /// - Throws: `UnexpectedEndOfStream`, with the bytes that had come; `TimeoutError`, `CancellationError`: bytes that
  ///   had come are not lost, the next read begins with them; `DescriptorClosed`; `StreamInUse`; `IOError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func readExactly(_ count: Int, timeout: Duration? = nil) throws -> [UInt8] {
    try endpoint.readExactly(count, timeout: timeout)
  }

  /// Reads all bytes up to the end of the stream; suspends until the peer has ended it.
  ///
  /// ```swift
  /// let answer = try connection.readToEnd(limit: 1 << 20, timeout: .seconds(30))
  /// ```
  ///
  /// - Parameters:
  ///   - limit: how many bytes may come. Not negative: traps otherwise.
  ///   - timeout: how long all of it may take; zero or less: only bytes that are there; `nil`: without a limit.
  /// - Throws: `StreamTooLong`; `TimeoutError`, `CancellationError`; `IOError`: bytes that had come are not lost, the next read
  ///   begins with them. `DescriptorClosed`; `StreamInUse`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func readToEnd(limit: Int, timeout: Duration? = nil) throws -> [UInt8] {
    require(limit >= 0, "a stream can't have \(limit) bytes at most: give zero or more")
    return try endpoint.readToEnd(limit: limit, timeout: timeout)
  }

  /// Writes all bytes to another stream as they come, up to the end of this one; suspends until then.
  ///
  /// ```swift
  /// try withScope { scope in
  ///   scope.launch {
  ///     try client.copy(to: server)
  ///     try server.finishWriting()            // the copy sends no end: its caller decides
  ///   }
  ///   try server.copy(to: client)
  ///   try client.finishWriting()
  /// }
  /// ```
  ///
  /// It reads no more before the other one has taken what has come. No byte is lost or doubled: those that have come, and that
  /// the other one has not taken when it throws, are what the next read begins with.
  ///
  /// No other coroutine may read from this stream meanwhile, or write to the other one: what it writes comes between two pieces, or
  /// either of them gets `StreamInUse`.
  ///
  /// - Parameters:
  ///   - writer: where they go; this stream itself, for an echo.
  ///   - timeout: how long all of it may take; zero or less: only bytes that are there, and for which there is room;
  ///     `nil`: without a limit.
  /// - Returns: how many bytes.
  /// - Throws: `TimeoutError`, `CancellationError`; `DescriptorClosed`, `StreamInUse`, `IOError` of either stream. No
  ///   `PartialWrite`: the writer's `bytesWritten` says how many were written.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @discardableResult
  @available(*, noasync, message: "call it in a coroutine")
  public func copy(to writer: some WritableByteStream, timeout: Duration? = nil) throws -> Int {
    try endpoint.copy(to: writer.endpoint, timeout: timeout)
  }

  /// Reads a line, without its end ("\n" or "\r\n"); suspends until it is there. Bytes behind the last line end are a
  /// line, too, if the stream ends there.
  ///
  /// ```swift
  /// let request = try connection.readLine(timeout: .seconds(30))
  /// ```
  ///
  /// - Parameters:
  ///   - limit: how many bytes a line may have. Not negative: traps otherwise.
  ///   - timeout: how long all of it may take; zero or less: only bytes that are there; `nil`: without a limit.
  /// - Returns: the line, its bytes taken for UTF-8 and repaired where they are not; `nil`: the stream has ended.
  /// - Throws: `LineTooLong`, and has read nothing; `TimeoutError`, `CancellationError`: bytes that had come are not
  ///   lost, the next read begins with them; `DescriptorClosed`; `StreamInUse`; `IOError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func readLine(limit: Int = 65_536, timeout: Duration? = nil) throws -> String? {
    requireLineLimit(limit)
    return try endpoint.readLine(limit: limit, timeout: timeout)
  }

  /// The lines that are still to come, one at a time.
  ///
  /// ```swift
  /// let lines = connection.lines()
  /// while let line = try lines.next() { try connection.write(line + "\n") }
  /// ```
  ///
  /// - Parameters:
  ///   - limit: how many bytes a line may have. Not negative: traps otherwise.
  ///   - timeout: how long each may take; `nil`: without a limit.
  public func lines(limit: Int = 65_536, timeout: Duration? = nil) -> ByteStreamLines {
    requireLineLimit(limit)
    return ByteStreamLines(endpoint: endpoint, limit: limit, timeout: timeout)
  }

  /// Reads the bytes up to a delimiter; suspends until it is there. Bytes behind the last delimiter are a part, too, if the
  /// stream ends there.
  ///
  /// ```swift
  /// let head = try connection.read(until: "\r\n\r\n".utf8, limit: 8192, timeout: .seconds(10))
  /// ```
  ///
  /// - Parameters:
  ///   - delimiter: one byte or more: traps otherwise.
  ///   - strippingDelimiter: whether the result is without it. With `false` the last part shows by that whether the stream was cut
  ///     off in it.
  ///   - limit: how many bytes there may be before the delimiter. Not negative: traps otherwise.
  ///   - timeout: how long all of it may take; zero or less: only bytes that are there; `nil`: without a limit.
  /// - Returns: the bytes before the delimiter, none if it comes at once; `nil`: the stream has ended.
  /// - Throws: `LineTooLong`, and has read nothing; `TimeoutError`, `CancellationError`: bytes that had come are not
  ///   lost, the next read begins with them; `DescriptorClosed`; `StreamInUse`; `IOError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func read(
    until delimiter: some Collection<UInt8>, strippingDelimiter: Bool = true, limit: Int = 65_536,
    timeout: Duration? = nil
  ) throws -> [UInt8]? {
    try parts(until: delimiter, strippingDelimiter: strippingDelimiter, limit: limit, timeout: timeout).next()
  }

  /// Reads the bytes up to a byte; suspends until it is there. As the form with several.
  ///
  /// ```swift
  /// while let name = try pipe.read(until: 0) { names.append(name) }       // of `find -print0`
  /// ```
  ///
  /// - Throws: as the form with several.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func read(
    until delimiter: UInt8, strippingDelimiter: Bool = true, limit: Int = 65_536, timeout: Duration? = nil
  ) throws -> [UInt8]? {
    requireLineLimit(limit)
    return try withUnsafeBytes(of: delimiter) {
      try endpoint.read(until: $0, strippingDelimiter: strippingDelimiter, limit: limit, timeout: timeout)
    }
  }

  /// The parts that are still to come, each with a delimiter at its end, one at a time.
  ///
  /// ```swift
  /// let events = connection.parts(until: "\n\n".utf8, limit: 1 << 20)
  /// while let event = try events.next() { handle(event) }
  /// ```
  ///
  /// - Parameters:
  ///   - delimiter: one byte or more: traps otherwise.
  ///   - strippingDelimiter: whether they are without it.
  ///   - limit: how many bytes a part may have before its delimiter. Not negative: traps otherwise.
  ///   - timeout: how long each may take; `nil`: without a limit.
  public func parts(
    until delimiter: some Collection<UInt8>, strippingDelimiter: Bool = true, limit: Int = 65_536,
    timeout: Duration? = nil
  ) -> ByteStreamParts {
    requireLineLimit(limit)
    return ByteStreamParts(
      endpoint: endpoint, delimiter: Array(delimiter), strippingDelimiter: strippingDelimiter, limit: limit,
      timeout: timeout)
  }

  /// The bytes that are still to come, in chunks of this size; the last one has the rest.
  ///
  /// ```swift
  /// let blocks = pipe.chunks(of: 512)
  /// while let block = try blocks.next() { checksum.update(block) }
  /// ```
  ///
  /// - Parameters:
  ///   - count: how many; 1 or more: traps otherwise.
  ///   - timeout: how long each may take; `nil`: without a limit.
  public func chunks(of count: Int, timeout: Duration? = nil) -> ByteStreamChunks {
    requireChunkSize(count)
    return ByteStreamChunks(endpoint: endpoint, count: count, timeout: timeout)
  }
}

/// The lines of a stream, as they come. Keeps no bytes of its own: other reads of the stream may come between two
/// lines.
public struct ByteStreamLines: Sendable {
  let endpoint: StreamEndpoint
  let limit: Int
  let timeout: Duration?

  /// The next line, without its end; suspends until it is there. `nil`: the stream has ended.
  ///
  /// - Throws: as `ReadableByteStream.readLine(limit:timeout:)`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func next() throws -> String? {
    try endpoint.readLine(limit: limit, timeout: timeout)
  }
}

/// The parts of a stream that end with a delimiter, as they come. Keeps no bytes of the stream: other reads may come between two.
public struct ByteStreamParts: Sendable {
  let endpoint: StreamEndpoint
  let delimiter: [UInt8]
  let strippingDelimiter: Bool
  let limit: Int
  let timeout: Duration?

  /// The next part; suspends until it is there. `nil`: the stream has ended.
  ///
  /// - Throws: as `ReadableByteStream.read(until:strippingDelimiter:limit:timeout:)`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func next() throws -> [UInt8]? {
    try delimiter.withUnsafeBytes {
      try endpoint.read(until: $0, strippingDelimiter: strippingDelimiter, limit: limit, timeout: timeout)
    }
  }
}

/// The bytes of a stream, in chunks of one size. Keeps no bytes of its own: other reads of the stream may come between
/// two.
public struct ByteStreamChunks: Sendable {
  let endpoint: StreamEndpoint
  let count: Int
  let timeout: Duration?

  /// The next bytes; suspends until all of them are there, or the stream has ended. `nil`: it has, and there is no rest.
  ///
  /// - Throws: `TimeoutError`, `CancellationError`: bytes that had come are not lost, the next read begins with them;
  ///   `DescriptorClosed`; `StreamInUse`; `IOError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func next() throws -> [UInt8]? {
    try endpoint.readChunk(of: count, timeout: timeout)
  }
}

/// A stream of bytes that can be written to. It never raises SIGPIPE: a peer that has gone is an `IOError` (EPIPE).
public protocol WritableByteStream: ByteStream {}

extension WritableByteStream {
  /// How many bytes the kernel has taken in the stream's life. From any thread; exact for the coroutine that writes.
  public var bytesWritten: UInt64 { endpoint.bytesWritten }

  /// Writes all of the bytes; suspends while the kernel has no room for more.
  ///
  /// ```swift
  /// try connection.write([0, 1, 2])
  /// ```
  ///
  /// - Parameters:
  ///   - bytes: an array, a slice of one, `Data`, an unsafe buffer. What has no contiguous bytes is copied.
  ///   - timeout: how long all of it may take; zero or less: only as many bytes as there is room for; `nil`: without a
  ///     limit.
  /// - Throws: `PartialWrite` if it ended in the middle, with the number of bytes written, and the reason. If nothing
  ///   was written, the reason itself: `TimeoutError`, `DescriptorClosed`, `IOError`. `CancellationError`:
  ///   `bytesWritten` says how many were written. `StreamInUse`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  @inlinable
  public func write(_ bytes: some Collection<UInt8>, timeout: Duration? = nil) throws {
    let isWritten: Void? = try bytes.withContiguousStorageIfAvailable {
      try endpoint.write(contiguous: UnsafeRawBufferPointer($0), timeout: timeout)
    }
    if isWritten == nil {
      try Array(bytes).withUnsafeBytes { try endpoint.write(contiguous: $0, timeout: timeout) }
    }
  }

  /// Writes a text, as UTF-8; suspends while the kernel has no room for more.
  ///
  /// ```swift
  /// try connection.write("220 ready\r\n")
  /// ```
  ///
  /// - Throws: as for bytes.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func write(_ text: String, timeout: Duration? = nil) throws {
    var text = text
    try text.withUTF8 { try endpoint.write(UnsafeRawBufferPointer($0), timeout: timeout) }
  }

  /// Writes the bytes of a span; suspends while the kernel has no room for more.
  ///
  /// - Throws: as for bytes.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func write(_ bytes: RawSpan, timeout: Duration? = nil) throws {
    try bytes.withUnsafeBytes { try endpoint.write($0, timeout: timeout) }
  }

  /// Writes pieces one behind the other, in as few system calls as can be (`sendmsg`, `writev`), without a copy.
  ///
  /// ```swift
  /// try connection.write(contentsOf: [header, body])
  /// ```
  ///
  /// - Throws: as for bytes; `PartialWrite` counts through all pieces.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func write(contentsOf pieces: [[UInt8]], timeout: Duration? = nil) throws {
    // An array has its elements in one place as long as it is not changed, which nothing does that is kept alive here.
    let addresses = pieces.map { $0.withUnsafeBytes { $0 } }
    try withExtendedLifetime(pieces) { try endpoint.write(addresses, timeout: timeout) }
  }

  /// Writes pieces one behind the other, which the caller keeps in their place. As for arrays.
  ///
  /// - Throws: as for bytes; `PartialWrite` counts through all pieces.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func write(contentsOf pieces: [UnsafeRawBufferPointer], timeout: Duration? = nil) throws {
    try endpoint.write(pieces, timeout: timeout)
  }
}

extension StreamEndpoint {
  @usableFromInline
  func write(contiguous bytes: UnsafeRawBufferPointer, timeout: Duration?) throws {
    try write(bytes, timeout: timeout)
  }
}

private func requireLineLimit(_ limit: Int) {
  require(limit >= 0, "a line can't have \(limit) bytes at most: give zero or more")
}

private func requireChunkSize(_ count: Int) {
  require(count > 0, "chunks of \(count) bytes: give one or more")
}
