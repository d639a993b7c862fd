// SPDX-License-Identifier: Apache-2.0

import CoroutineLibc

/// Opens the files that debuggers and traces write. They show a program's data, often in a folder where others may write as
/// well. Only its owner may read a new file; one that is there already keeps its mode. What another user has put in its place
/// neither gets the data, nor leads them to another file, nor blocks the writer.
package enum OutputFile {
  /// Why a file was not opened.
  package struct Refusal: Error {
    /// What was done, and the obstacle.
    package let operation: String
    package let code: CInt
  }

  /// Opens a regular file, `/dev/null` or `/dev/full`, for writing.
  ///
  /// - Parameter appends: to what it has; else that is thrown away.
  package static func open(_ path: String, appends: Bool) throws(Refusal) -> CInt {
    // Without O_NONBLOCK the open of a FIFO would wait for a reader, and without O_NOCTTY a terminal may become the
    // process's own. A file's old content is thrown away when it is known to be a regular file.
    let flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (appends ? O_APPEND : 0)
    let descriptor = CoroutineLibc.open(path, flags, 0o600)
    guard descriptor >= 0 else {
      let code = errno
      throw Refusal(operation: "open \(path)\(obstacle(at: path, code))", code: code)
    }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw refuse(descriptor, "look at \(path)", errno) }
    if status.st_mode & S_IFMT == S_IFREG {
      // Others could read what is written, or choose which file of the caller's is overwritten.
      guard status.st_uid == geteuid() else {
        throw refuse(descriptor, "open \(path), which is another user's file", EPERM)
      }
      guard status.st_nlink == 1 else {
        throw refuse(descriptor, "open \(path), a file that has other names, or none any more", EMLINK)
      }
      guard appends || ftruncate(descriptor, 0) == 0 else { throw refuse(descriptor, "truncate \(path)", errno) }
    } else if status.st_mode & S_IFMT != S_IFCHR || !sinks.contains(status.st_rdev) {
      throw refuse(descriptor, "open \(path), which is no regular file", EINVAL)
    }
    return descriptor
  }

  /// `/dev/null` and, to try a full disk, `/dev/full`, by the kernel's list of devices.
  private static var sinks: [dev_t] { [1 << 8 | 3, 1 << 8 | 7] }

  private static func refuse(_ descriptor: CInt, _ operation: String, _ code: CInt) -> Refusal {
    close(descriptor)
    return Refusal(operation: operation, code: code)
  }

  /// In words, where the errno alone would mislead.
  private static func obstacle(at path: String, _ code: CInt) -> String {
    var status = stat()
    guard code == ELOOP || code == ENXIO, lstat(path, &status) == 0 else { return "" }
    return switch status.st_mode & S_IFMT {
    case S_IFLNK: ", a symbolic link, which is not followed"
    case S_IFREG: ""
    default: ", which is no regular file"
    }
  }
}
