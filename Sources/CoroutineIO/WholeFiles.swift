// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import Coroutine
import CoroutineLibc

extension File {
  /// All bytes of a file.
  ///
  /// ```swift
  /// let text = String(decoding: try File.contents(of: "/etc/hostname"), as: UTF8.self)
  /// ```
  ///
  /// - Parameters:
  ///   - path: absolute, or from the process's current folder.
  ///   - limit: how many bytes it may have. A file of strangers needs one: a file with holes has as many as its maker likes. Not
  ///     negative: traps otherwise.
  /// - Throws: `StreamTooLong`; `IOError`, as `init(opening:)`; `CancellationError`.
  @available(*, noasync, message: "in async code use 'try await blocking { … }'")
  public static func contents(of path: String, limit: Int = .max) throws -> [UInt8] {
    require(limit >= 0, "a file can't have \(limit) bytes at most: give zero or more")
    try FilePool.requireNoZero(in: path, "open")
    return try blocking(on: FilePool.shared) {
      let number = try FilePool.check(coroutine_io_file_open(path, O_RDONLY, 0), "open", path)
      defer { DescriptorShortage.close(number) }
      let bytes = try readAll(number, path, from: 0, upTo: limit < .max ? limit + 1 : limit)
      guard bytes.count <= limit else { throw StreamTooLong(limit: limit, subject: path) }
      return bytes
    }
  }

  /// Not by the size alone: the files of /proc say that they have none, and others grow.
  static func readAll(_ number: CInt, _ path: String, from offset: Int64, upTo limit: Int) throws -> [UInt8] {
    var bytes: [UInt8] = []
    let size = try FilePool.check(coroutine_io_file_size(number), "fstat", path)
    // One more than there should be: so the end is seen by the same read.
    let rest = size - min(size, Int(offset))
    // A file may claim more than there is memory for: beyond this it is believed as it is read.
    var next = min(limit, max(4096, rest < .max ? rest + 1 : rest), 64 << 20)
    while true {
      let part = try [UInt8](unsafeUninitializedCapacity: next) { buffer, count in
        count = try FilePool.check(
          coroutine_io_file_read(number, buffer.baseAddress!, next, offset + Int64(bytes.count)), "read", path)
      }
      if bytes.isEmpty { bytes = part } else { bytes += part }
      guard part.count == next, bytes.count < limit else { return bytes }
      next = min(limit - bytes.count, max(bytes.count, 65_536))
    }
  }

  /// Puts a file with these bytes in the place of the one at a path: a reader finds all of the old bytes or all of the
  /// new ones, also after a crash of the program.
  ///
  /// The bytes are written to a new file in the same folder, which then gets the name. It has the rights of the old file, and its
  /// owner and group, where the process may give it away: another group does not get the rights of the old one. If the path is
  /// a symbolic link, the file that it leads to is replaced.
  ///
  /// - Parameters:
  ///   - path: absolute, or from the process's current folder.
  ///   - bytes: what the file has afterwards.
  ///   - synchronizes: whether this returns only when all is on the disk, so that it outlives a crash of the system.
  ///   - permissions: where there was no file, less the process's `umask`.
  /// - Throws: `IOError`: then the old file is untouched, unless that is of `fsync` at the folder, after the new one has taken
  ///   its place; with `ESPIPE` if what is there is a device, a FIFO or a socket, which
  ///   a file would take the place of. `CancellationError`: then it may have been replaced or not.
  @available(*, noasync, message: "in async code use 'try await blocking { … }'")
  public static func replace(
    _ path: String, with bytes: [UInt8], synchronizing synchronizes: Bool = false, permissions: UInt32 = 0o666
  ) throws {
    try FilePool.requireNoZero(in: path, "open")
    try blocking(on: FilePool.shared) {
      // Bytes, as they are not always text.
      let target = try resolved(path)
      let text = Self.text(of: target)
      // The rename would put a file in the place of a device, such as /dev/null, or of a FIFO.
      try FilePool.check(coroutine_io_file_may_be_replaced(target), "open", text)
      let name = folder(of: target) + ".coroutine-\(String(UInt64.random(in: .min ... .max), radix: 16))".utf8CString
      let flags = O_WRONLY | O_CREAT | O_EXCL
      // Until it has the rights of the old one it is its owner's alone: a process that opened it before that could read it ever
      // after.
      let first = coroutine_io_file_exists(target) ? 0o600 : permissions
      let number = try FilePool.check(coroutine_io_file_open(name, flags, first), "open", text)
      do {
        try fill(number, with: bytes, rightsOf: target, text, synchronizing: synchronizes)
        try FilePool.check(coroutine_io_file_replace(name, target, synchronizes), "rename", text)
      } catch {
        unlink(name)
        // What was written of it has gone with the file.
        throw (error as? PartialWrite)?.cause ?? error
      }
    }
  }

  /// Gives a new file its rights and its bytes, and closes it.
  private static func fill(
    _ number: CInt, with bytes: [UInt8], rightsOf target: [CChar], _ text: String, synchronizing synchronizes: Bool
  ) throws {
    do {
      try FilePool.check(coroutine_io_file_copy_rights(number, target), "fchmod", text)
      try bytes.withUnsafeBytes { try FilePool.writeAll($0, to: number, at: 0, text) }
      if synchronizes { try FilePool.check(coroutine_io_file_synchronize(number), "fsync", text) }
    } catch {
      DescriptorShortage.close(number)
      throw error
    }
    // Before it gets the name: a file system that has kept bytes back, such as NFS, reports here that it could not write them.
    try FilePool.check(DescriptorShortage.close(number), "close", text)
  }

  /// Where a path leads to; a link may lead to a file that is not there yet. Ends with a zero byte.
  private static func resolved(_ path: String) throws -> [CChar] {
    var path = Array(path.utf8CString)
    // As many as the kernel follows.
    for _ in 0..<40 {
      if let real = realpath(path, nil) {
        defer { free(real) }
        return Array(UnsafeBufferPointer(start: real, count: strlen(real) + 1))
      }
      var target = [CChar](repeating: 0, count: Int(PATH_MAX))
      let length = readlink(path, &target, target.count - 1)
      guard length > 0 else { return path }
      path = (target[0] == slash ? [] : folder(of: path)) + target[...length]
    }
    throw IOError(operation: "open", code: ELOOP, subject: text(of: path))
  }

  /// With the slash at its end, and without a zero byte; nothing for a name alone.
  private static func folder(of path: [CChar]) -> [CChar] {
    path.lastIndex(of: slash).map { Array(path[...$0]) } ?? []
  }

  /// For messages.
  private static func text(of path: [CChar]) -> String {
    String(decoding: path.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  private static var slash: CChar { 0x2F }
}
