// SPDX-License-Identifier: Apache-2.0

// A closure of the user's starts the operation that the coroutine will wait for. If a generator's body yields in it and another
// consumer resumes that generator, the closure returns on the other coroutine, and the first must not wait.

extension CoroutineCore {
  /// Behind such a closure: it has returned on the coroutine that has called it.
  @inlinable @inline(__always)
  static func requireIsCurrent(_ core: Unmanaged<CoroutineCore>, behindClosureOf function: StaticString) {
    // By its address: it may have ended, and be gone.
    if currentUncounted?.toOpaque() != core.toOpaque() { reportMovedClosure(of: function) }
  }
}

@usableFromInline @inline(never)
func reportMovedClosure(of function: StaticString) -> Never {
  fatalError(
    "a closure that was given to \(function) returns on another coroutine, or on none, than it was called on: it yields an "
      + "element of a Generator, whose consumer was another one by then. Yield outside of it.")
}
