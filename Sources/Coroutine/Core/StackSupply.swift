// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context

/// Which pool the runtime's stacks come from: one a size, for the life of the process.
enum StackSupply {
  /// The pool of stacks with at least `size` usable bytes, or of the default size. Not counted: pools live for ever.
  static func pool(_ size: Int?) throws(StackError) -> Unmanaged<StackPool> {
    guard sanitizersActive else {
      guard var size else { return standard }
      // A size of 0 or less is passed on unchanged, so that it is refused.
      if size > 0 { size = max(size, StackPool.leastCoroutineStackSize) }
      if let known = StackPool.known(stackSize: size) { return known }
      return .passUnretained(try .shared(stackSize: size))
    }
    // Instrumented frames are several times as large, and 256 KiB were seen to overflow.
    let size = size ?? instrumentedSize
    return .passUnretained(try .shared(stackSize: size > 0 ? max(size, instrumentedSize) : size))
  }

  private static let standard = Unmanaged.passUnretained(StackPool.default)

  private static var instrumentedSize: Int { 4 << 20 }

  /// Looked up once, for the first stack: a sanitizer does not come or go.
  static let sanitizersActive = {
    coroutine_publish_debug_layout()
    return coroutine_sanitizers_active()
  }()
}
