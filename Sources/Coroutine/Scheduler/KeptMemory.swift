// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem
import Context
import CoroutineLibc

/// How much freed memory the C library keeps for what comes next: the program's choice, by an environment variable.
///
/// glibc gives freed memory back to the kernel from 128 KiB on. Where ten thousand coroutines begin and end together again
/// and again, they and what their bodies capture are some megabytes, and the page faults would take as long as all the rest
/// (`docs/performance/spawning-and-joining.md`). But `malloc` is the whole program's: so the program may say no.
enum KeptMemory {
  static let variable = "COROUTINE_KEPT_MEMORY"

  /// Once in the process, when its first pool is made. Ends the program where the variable is no size.
  static let choose: Void = {
    let bytes = fromEnvironment() ?? 4 << 20
    if bytes > 0 { coroutine_system_keep_freed_memory(bytes) }
  }()

  /// 0: what the C library does by itself.
  static func fromEnvironment() -> Int? {
    guard let value = getenv(variable) else { return nil }
    let text = String(cString: value)
    guard let bytes = ByteCount.parse(text), bytes <= 32 << 20 else {
      fatalError(
        "the environment variable \(variable) must be how many bytes of freed memory the C library keeps, up to 32M, as a "
          + "number or as 256K or 4M; 0 leaves that to the library. It is \"\(text)\"")
    }
    return bytes
  }
}
