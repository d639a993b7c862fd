// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import Coroutine
import CoroutineLibc

/// The threads of files and folders: what strangers block can't take them.
enum FilePool {
  static let shared = BlockingPool(threadLimit: 64, name: "the pool of files")

  /// A path with a zero byte in it would be taken for its part before that: another file.
  static func requireNoZero(in text: String, _ operation: String) throws(IOError) {
    if text.utf8.contains(0) {
      let shown = text.replacing("\0", with: "\\0")
      throw IOError(operation: operation, code: EINVAL, subject: "\"\(shown)\", which has a zero byte")
    }
  }

  /// A result of a system call, which is a negated `errno` if it has failed.
  @discardableResult
  static func check(_ result: CInt, _ operation: String, _ path: String) throws(IOError) -> CInt {
    guard result >= 0 else { throw IOError(operation: operation, code: -result, subject: path) }
    return result
  }

  static func check(_ result: Int64, _ operation: String, _ path: String) throws(IOError) -> Int {
    guard result >= 0 else { throw IOError(operation: operation, code: CInt(-result), subject: path) }
    return Int(result)
  }

  /// Writes all of the bytes; behind what the file has where `offset` is negative, and the file is one for appending.
  ///
  /// - Throws: `PartialWrite` where the error comes behind some of them; else `IOError`.
  static func writeAll(_ bytes: UnsafeRawBufferPointer, to file: CInt, at offset: Int64, _ path: String) throws {
    guard let base = bytes.baseAddress, bytes.count > 0 else { return }
    var done = 0
    while done < bytes.count {
      let result = coroutine_io_file_write(
        file, base + done, bytes.count - done, offset < 0 ? offset : offset + Int64(done))
      if result < 0, done > 0 {
        let cause = IOError(operation: "write", code: CInt(-result), subject: path)
        throw PartialWrite(bytesWritten: done, bytesAsked: bytes.count, cause: cause)
      }
      done += try check(result, "write", path)
    }
  }
}
