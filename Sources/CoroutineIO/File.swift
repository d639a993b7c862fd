// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
public import Coroutine
import CoroutineLibc

/// A regular file, which is read and written at offsets: operations of several coroutines may go on at the same time.
///
/// ```swift
/// let file = try File(opening: "/etc/services")
/// defer { file.close() }
/// let beginning = try file.read(upTo: 512, at: 0)
/// ```
///
/// The kernel does not report when a disk is ready. So each operation runs on a thread of a pool for files, while the
/// calling coroutine is suspended; on a plain thread it is a plain call. In `async` code: `try await blocking { try
/// file.read(…) }`.
///
/// An operation whose coroutine is cancelled throws `CancellationError`. If it had begun, it goes on to its end in the
/// background: a write may have been done, or a part of it.
///
/// A file is closed when its last reference is gone, and by `close()`. In a coroutine the last reference leaves that to a
/// thread of the pool, which may come to it a moment later: call `close()` where it matters when it is done, as for a program
/// that is to be run next.
public final class File: HiddenFromMirrors, Sendable {
  /// What it is opened for.
  public enum Access: Sendable, Hashable {
    /// Only reading; only writing; both. All at offsets.
    case reading, writing, readingAndWriting
    /// Writing at the end, wherever that is at the moment of the write, also if other programs do the same.
    case appending
  }

  /// Whether a file is made.
  public enum Creation: Sendable, Hashable {
    /// No: it must exist.
    case never
    /// If there is none.
    case ifMissing
    /// Yes: there must be none.
    case always
  }

  /// In messages: its path.
  public let name: String
  private let access: Access
  private let number: FileNumber

  /// Opens a file.
  ///
  /// - Parameters:
  ///   - path: absolute, or from the process's current folder.
  ///   - access: what it is opened for.
  ///   - creation: whether it is made.
  ///   - truncates: whether it loses its content. Only for a file that is opened for writing: traps otherwise.
  ///   - permissions: of a file that is made, less the process's `umask`.
  /// - Throws: `IOError`, such as `ENOENT`; with `ESPIPE` if it is no regular file (a socket, a FIFO, a terminal: wait
  ///   for those with a `Descriptor`). `CancellationError`.
  @available(*, noasync, message: "in async code use 'try await blocking { … }'")
  public init(
    opening path: String, for access: Access = .reading, creating creation: Creation = .never,
    truncating truncates: Bool = false,
    permissions: UInt32 = 0o666
  ) throws {
    require(
      !truncates || access != .reading, "File(opening: \"\(path)\"): to lose its bytes it must be opened for writing")
    let flags = access.flags | creation.flags | (truncates ? O_TRUNC : 0)
    name = path
    self.access = access
    try FilePool.requireNoZero(in: path, "open")
    number = try blocking(on: FilePool.shared) { () throws -> FileNumber in
      FileNumber(try FilePool.check(coroutine_io_file_open(path, flags, permissions), "open", path))
    }
  }

  /// Closes it. Operations that run at this moment end as they would have; later ones throw `DescriptorClosed`. Again: without
  /// effect. From any thread.
  ///
  /// The calling thread makes the system call, in a coroutine, too. Some file systems, such as NFS, write then what they have
  /// kept back: `try blocking { file.close() }` lets the other coroutines go on meanwhile.
  public func close() { number.close() }

  /// Reads up to a number of bytes, from an offset on.
  ///
  /// - Parameters:
  ///   - count: how many at most; not negative: traps otherwise.
  ///   - offset: where from, in bytes; not negative: traps otherwise.
  /// - Returns: the bytes; fewer than `count` only where the file ends.
  /// - Throws: `IOError`, `DescriptorClosed`, `CancellationError`.
  @available(*, noasync, message: "in async code use 'try await blocking { … }'")
  public func read(upTo count: Int, at offset: Int64) throws -> [UInt8] {
    require(count >= 0 && offset >= 0, "\(count) bytes can't be read at \(offset): give zero or more")
    // As much memory as there are bytes, where more are asked for.
    if count > 1 << 20 { return try run("read") { try Self.readAll($0, self.name, from: offset, upTo: count) } }
    return try run("read") { number in
      try [UInt8](unsafeUninitializedCapacity: count) { buffer, read in
        guard count > 0 else { return }
        read = try FilePool.check(coroutine_io_file_read(number, buffer.baseAddress!, count, offset), "read", self.name)
      }
    }
  }

  /// Writes all of the bytes, from an offset on. A file that is too short for the offset has zeros in between.
  ///
  /// - Parameters:
  ///   - bytes: the bytes to write.
  ///   - offset: where to, in bytes; not negative: traps otherwise.
  /// - Throws: `IOError`; `PartialWrite` if the disk became full in the middle; `DescriptorClosed`, `CancellationError`.
  @available(*, noasync, message: "in async code use 'try await blocking { … }'")
  public func write(_ bytes: [UInt8], at offset: Int64) throws {
    require(offset >= 0, "bytes can't be written at \(offset): give zero or more")
    // The kernel would put them at the end, whatever the offset.
    guard access != .appending else {
      throw IOError(operation: "write", code: EBADF, subject: "\(name), opened for .appending: use append(_:)")
    }
    try writeAll(bytes, at: offset)
  }

  /// Writes all of the bytes at the end of a file that was opened for `.appending`.
  ///
  /// - Throws: as `write(_:at:)`; `IOError` with `EBADF` for a file that was opened in another way.
  @available(*, noasync, message: "in async code use 'try await blocking { … }'")
  public func append(_ bytes: [UInt8]) throws {
    // The kernel would put them where the file's position is: at its beginning.
    guard access == .appending else {
      throw IOError(operation: "append", code: EBADF, subject: "\(name), opened for \(access): open it for .appending")
    }
    try writeAll(bytes, at: -1)
  }

  private func writeAll(_ bytes: [UInt8], at offset: Int64) throws {
    try run("write") { number in
      try bytes.withUnsafeBytes { bytes in
        try FilePool.writeAll(bytes, to: number, at: offset, self.name)
      }
    }
  }

  /// How many bytes it has.
  ///
  /// - Throws: `IOError`, `DescriptorClosed`, `CancellationError`.
  @available(*, noasync, message: "in async code use 'try await blocking { … }'")
  public func size() throws -> Int64 {
    try run("fstat") { number in
      Int64(try FilePool.check(coroutine_io_file_size(number), "fstat", self.name))
    }
  }

  /// Cuts it off, or fills it with zeros, so that it has this many bytes; not negative: traps otherwise.
  ///
  /// - Throws: `IOError`, `DescriptorClosed`, `CancellationError`.
  @available(*, noasync, message: "in async code use 'try await blocking { … }'")
  public func resize(to size: Int64) throws {
    require(size >= 0, "a file can't have \(size) bytes")
    try run("ftruncate") { number in
      try FilePool.check(coroutine_io_file_resize(number, size), "ftruncate", self.name)
    }
  }

  /// Waits until all that was written is on the disk (`fsync`).
  ///
  /// - Throws: `IOError`, `DescriptorClosed`, `CancellationError`.
  @available(*, noasync, message: "in async code use 'try await blocking { … }'")
  public func synchronize() throws {
    try run("fsync") { number in
      try FilePool.check(coroutine_io_file_synchronize(number), "fsync", self.name)
    }
  }

  /// The bytes from an offset on, in chunks of this size; the last one has the rest.
  ///
  /// ```swift
  /// var chunks = file.chunks()
  /// while let chunk = try chunks.next() { checksum.update(chunk) }
  /// ```
  ///
  /// - Parameters:
  ///   - count: how many; 1 or more: traps otherwise.
  ///   - offset: of the first; not negative: traps otherwise.
  public func chunks(of count: Int = 65_536, from offset: Int64 = 0) -> FileChunks {
    require(
      count > 0 && offset >= 0, "chunks of \(count) bytes from \(offset) on: give one byte or more, and an offset")
    return FileChunks(file: self, count: count, offset: offset)
  }

  @discardableResult
  private func run<Value: Sendable>(_ operation: String, _ body: @escaping @Sendable (CInt) throws -> Value) throws
    -> Value
  {
    guard let use = number.use() else { throw DescriptorClosed(name) }
    return try blocking(on: FilePool.shared) {
      try withExtendedLifetime(use) { try body(use.value) }
    }
  }
}

/// The bytes of a file, as many at a time.
public struct FileChunks: Sendable {
  let file: File
  let count: Int
  /// Of the next ones.
  public private(set) var offset: Int64

  /// The next bytes; `nil`: the file has ended.
  ///
  /// - Throws: `IOError`, `DescriptorClosed`, `CancellationError`: the same bytes come at the next call.
  @available(*, noasync, message: "in async code use 'try await blocking { … }'")
  public mutating func next() throws -> [UInt8]? {
    let bytes = try file.read(upTo: count, at: offset)
    offset += Int64(bytes.count)
    return bytes.isEmpty ? nil : bytes
  }
}

/// The number of an open file, which is given up when the file is closed, or with the last reference.
final class FileNumber: Sendable {
  private let number: DescriptorNumber

  init(_ value: CInt) { number = DescriptorNumber(value, isPolled: false) }

  /// For an operation; `nil` if it was closed.
  func use() -> FileUse? { FileUse(of: number) }

  /// Closes it now, or at the end of the operations that use it. Again: without effect.
  func close() { number.close() }

  deinit {
    // On some file systems the call takes long. A coroutine that drops a file does not expect that, and would keep its
    // scheduler's thread.
    guard Coroutine.isInside, !number.isClosed else { return number.close() }
    FilePool.shared.runUnawaited { [number] _ in number.close() }
  }
}

/// One operation's use of a file: its number stays the file's until this goes. An operation that is cancelled before it begins lets
/// go of it unused.
final class FileUse: Sendable {
  let value: CInt
  private let number: DescriptorNumber

  fileprivate init?(of number: DescriptorNumber) {
    guard let value = number.beginUse() else { return nil }
    (self.value, self.number) = (value, number)
  }

  deinit { number.endUse() }
}

extension File.Access {
  fileprivate var flags: CInt {
    switch self {
    case .reading: O_RDONLY
    case .writing: O_WRONLY
    case .readingAndWriting: O_RDWR
    case .appending: O_WRONLY | O_APPEND
    }
  }
}

extension File.Creation {
  fileprivate var flags: CInt {
    switch self {
    case .never: 0
    case .ifMissing: O_CREAT
    case .always: O_CREAT | O_EXCL
    }
  }
}
