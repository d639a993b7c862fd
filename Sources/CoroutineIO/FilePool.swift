// SPDX-License-Identifier: Apache-2.0

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
}
