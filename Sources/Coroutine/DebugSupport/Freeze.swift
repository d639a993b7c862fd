// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import CCoroutineSystem
import Context

/// How a debugger of coroutines keeps them as they are while it looks at them.
///
/// While it lasts no suspended or ready coroutine goes on, none begins, and no running one ends. So a coroutine that is
/// found is alive until it is over. Those that run go on running, suspend, and wake and launch others. `inspection.h`
/// has the protocol with the resumers.
enum Freeze {
  /// Held while it lasts.
  private static let lock = Lock()

  /// From its return on, a thread that resumes, begins or ends a coroutine sees the request, or has published before
  /// that it does. One at a time: a second caller waits for the first one's end.
  ///
  /// - Returns: whether the kernel offers what it needs: membarrier(2), Linux 4.14.
  static func begin() -> Bool {
    // Registering again changes nothing: a snapshot is rare, and a system call cheap beside it.
    guard coroutine_system_membarrier_register() == 0 else { return false }
    _ = endsInChildren
    lock.lock()
    coroutine_request(COROUTINE_REQUEST_FREEZE, true)  // litmus: freeze-none
    guard coroutine_system_membarrier() == 0 else {
      end()
      return false
    }
    return true
  }

  /// A child of `fork` has no thread that would end the freeze, and what it guards is a count of looks.
  private static let endsInChildren: Void = Fork.handle(child: {
    coroutine_request(COROUTINE_REQUEST_FREEZE, false)
    Freeze.lock.freeInChild()
  })

  static func end() {  // litmus: freeze-thaw
    coroutine_request(COROUTINE_REQUEST_FREEZE, false)
    _ = coroutine_system_futex_wake(coroutine_requests_address(), UInt32(Int32.max))
    lock.unlock()
  }

  /// Sleeps until it is over. For threads that must not go on meanwhile.
  static func waitForEnd() {
    while true {
      let requests = coroutine_requests_now()  // litmus: freeze-thaw
      guard requests & COROUTINE_REQUEST_FREEZE.rawValue != 0 else { return }
      _ = coroutine_system_futex_wait(coroutine_requests_address(), requests, nil, true)
    }
  }
}
