// SPDX-License-Identifier: Apache-2.0

/// Whether two errors are one that was passed on. Two that say the same may be two failures: neither must be lost.
func isSame(_ left: any Error, _ right: any Error) -> Bool { box(of: left) == box(of: right) }

/// What distinguishes an error from all others, as long as it is kept.
func box(of error: any Error) -> UInt {
  // An `any Error` is a pointer to a box, which goes from throw to throw as it is. (Without the `as` it would be opened.)
  unsafeBitCast(error as any Error, to: UInt.self)
}
