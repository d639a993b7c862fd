// SPDX-License-Identifier: Apache-2.0

/// What a generator's block says of it, beside what `CancellationRegion` needs.
extension ControlBlock.Mode {
  /// It was cancelled or dropped: its `yield` throws.
  @inlinable static var cancelled: ControlBlock.Mode { ControlBlock.Mode(rawValue: 2) }
  /// It is suspended while its body has something open: see `OpenScopes`.
  @inlinable static var scopeOpen: ControlBlock.Mode { ControlBlock.Mode(rawValue: 4) }
  /// Its body is suspended until another generator has ended, whose elements it yields.
  @inlinable static var delegating: ControlBlock.Mode { ControlBlock.Mode(rawValue: 16) }
}
