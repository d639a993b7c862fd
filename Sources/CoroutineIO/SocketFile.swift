// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import CoroutineLibc

/// The socket in the file system that a listener has made, and that it removes: only if it still is this one.
struct SocketFile: Sendable {
  private let path: String
  private let device: dev_t
  private let inode: ino_t
  /// When it was made: a file system may give the number of a file that has gone to the next one at once.
  private let made: timespec

  private init?(_ path: String) {
    var status = stat()
    guard lstat(path, &status) == 0 else { return nil }
    self.path = path
    device = status.st_dev
    inode = status.st_ino
    made = status.st_mtim
  }

  /// Not for two at a time; a path that others have taken over meanwhile stays.
  func remove() {
    var status = stat()
    guard lstat(path, &status) == 0, status.st_dev == device, status.st_ino == inode,
      status.st_mtim.tv_sec == made.tv_sec, status.st_mtim.tv_nsec == made.tv_nsec
    else { return }
    unlink(path)
  }

  /// Binds a socket and lets it listen, in place of one that was left behind.
  ///
  /// Between `bind` and `listen` a living socket looks like one that was left behind. So two listeners of this module
  /// that begin in the same folder do so one after the other: a lock on the folder leaves no file.
  ///
  /// - Returns: `nil` for an abstract address.
  static func bind(_ number: Int32, to address: SocketAddress, name: String, backlog: Int32) throws -> SocketFile? {
    let path = address.path.map { absolute($0) }
    let folder = path.map { lockFolder(of: $0) } ?? -1
    defer { if folder >= 0 { CoroutineLibc.close(folder) } }
    do {
      try SocketSetup.bind(number, to: address, name: name)
    } catch let error as IOError where error.code == EADDRINUSE {
      guard let path, isLeftBehind(path, address) else { throw error }
      unlink(path)
      try SocketSetup.bind(number, to: address, name: name)
    }
    let file = path.flatMap { SocketFile($0) }
    guard listen(number, backlog) == 0 else {
      let code = coroutine_io_errno()
      file?.remove()
      throw IOError(operation: "listen", code: code, subject: name)
    }
    return file
  }

  /// Whether a socket is there without a listener.
  private static func isLeftBehind(_ path: String, _ address: SocketAddress) -> Bool {
    var status = stat()
    guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK else { return false }
    guard let probe = try? SocketSetup.make(AF_UNIX, coroutine_io_stream, name: path) else { return false }
    defer { CoroutineLibc.close(probe) }
    return address.withSockaddr { CoroutineLibc.connect(probe, $0, $1) } != 0 && coroutine_io_errno() == ECONNREFUSED
  }

  /// The program may go to another folder before it closes the listener.
  private static func absolute(_ path: String) -> String {
    guard !path.hasPrefix("/"), let folder = getcwd(nil, 0) else { return path }
    defer { free(folder) }
    // A name that is no text would be repaired: then the path is as good as the program's folder.
    return String(validatingCString: folder).map { $0 + "/" + path } ?? path
  }

  /// The folder, locked until it is closed; -1 where that is not possible: then it works without.
  private static func lockFolder(of path: String) -> Int32 {
    let end = path.lastIndex(of: "/") ?? path.startIndex
    let folder = open(end == path.startIndex ? "/" : String(path[..<end]), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard folder >= 0 else { return -1 }
    // Others hold it for some microseconds.
    for _ in 0..<100 {
      if flock(folder, LOCK_EX | LOCK_NB) == 0 { return folder }
      usleep(1000)
    }
    CoroutineLibc.close(folder)
    return -1
  }
}
