// SPDX-License-Identifier: Apache-2.0

import CoroutineLibc

/// The environment variable that sets the guard of all shared pools, for programs with functions whose frames are larger
/// than the usual guard.
enum StackGuardSize {
  static let variable = "COROUTINE_STACK_GUARD"

  /// `nil` where it is not set. Ends the program where it is no size that a guard can have.
  static func fromEnvironment() -> Int? {
    guard let value = getenv(variable) else { return nil }
    let text = String(cString: value)
    guard let size = parse(text) else {
      fatalError(
        "the environment variable \(variable) must be the size of a stack's guard, up to 1 GiB, in bytes or as 256K or "
          + "1M, not \"\(text)\"")
    }
    return size
  }

  /// Bytes, or as many KiB (`K`) or MiB (`M`). `nil` if it is no size that a guard can have.
  static func parse(_ text: String) -> Int? {
    ByteCount.parse(text).flatMap { StackGeometry.allowedGuardSizes.contains($0) ? $0 : nil }
  }
}
