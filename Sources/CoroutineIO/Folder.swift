// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
public import Coroutine
import CoroutineLibc

/// Folders of the file system.
public enum Folder {
  /// What a folder has an entry for.
  public enum Kind: Sendable, Hashable {
    /// A regular file; a folder; a symbolic link, which is not followed.
    case file, folder, symbolicLink
    /// A socket, a FIFO, a device.
    case other
  }

  /// One entry of a folder.
  public struct Entry: Sendable, Hashable {
    /// Without the folder's path; bytes that are not UTF-8 are repaired.
    public let name: String
    /// What it is an entry for.
    public let kind: Kind
  }

  /// The entries of a folder, in no order, without `.` and `..`, as they are read: a generator, which reads on as the
  /// consumer goes on. Entries that are added or removed meanwhile may be among them or not.
  ///
  /// ```swift
  /// func printFiles(below path: String) throws {
  ///   let entries = Folder.entries(of: path)
  ///   while let entry = try entries.next() {
  ///     if entry.kind == .folder { try printFiles(below: "\(path)/\(entry.name)") } else { print("\(path)/\(entry.name)") }
  ///   }
  /// }
  /// ```
  ///
  /// The folder is open until the generator has ended or is dropped. It is read on a thread of the pool of files, some entries
  /// at a time; on a plain thread by plain calls.
  ///
  /// - Parameter path: absolute, or from the process's current folder.
  /// - Returns: a generator whose `next()` throws `IOError` for a folder that can't be read, and `CancellationError`.
  @available(*, noasync, message: "in async code use 'try await blocking { … }'")
  public static func entries(of path: String) -> ThrowingGenerator<Entry> {
    ThrowingGenerator { yield in
      try FilePool.requireNoZero(in: path, "opendir")
      let reader = try blocking(on: FilePool.shared) { try FolderReader(path) }
      while true {
        let entries = try blocking(on: FilePool.shared) { try reader.next() }
        if entries.isEmpty { return }
        for entry in entries { try yield(entry) }
      }
    }
  }
}

/// An open folder. One call at a time; closed with the last reference.
// Unchecked: the generator that owns it makes one call after the other, whose threads follow each other.
private final class FolderReader: @unchecked Sendable {
  private let folder: UnsafeMutableRawPointer
  private let path: String

  private static var batch: Int { 64 }

  init(_ path: String) throws {
    var error: CInt = 0
    guard let folder = coroutine_io_folder_open(path, &error) else {
      throw IOError(operation: "opendir", code: error, subject: path)
    }
    self.folder = folder
    self.path = path
  }

  deinit {
    coroutine_io_folder_close(folder)
    DescriptorShortage.noteClose()
  }

  /// The next entries; none: the end.
  func next() throws -> [Folder.Entry] {
    try withUnsafeTemporaryAllocation(of: coroutine_io_entry.self, capacity: Self.batch) { entries in
      let count = try FilePool.check(
        coroutine_io_folder_read(folder, entries.baseAddress!, CInt(Self.batch)), "readdir", path)
      return entries[..<Int(count)].map { Folder.Entry($0) }
    }
  }
}

extension Folder.Entry {
  fileprivate init(_ entry: coroutine_io_entry) {
    name = withUnsafeBytes(of: entry.name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    kind =
      switch Int(entry.kind) {
      case Int(DT_REG): .file
      case Int(DT_DIR): .folder
      case Int(DT_LNK): .symbolicLink
      default: .other
      }
  }
}
