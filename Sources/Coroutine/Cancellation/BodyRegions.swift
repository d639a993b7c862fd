// SPDX-License-Identifier: Apache-2.0

/// The regions of cancellation that generators' bodies have open.
extension RunningBodies {
  /// A region was opened in the body that runs, or was put back: each of the bodies has it open at its next `yield`, if it
  /// is not closed before.
  ///
  /// - Parameter block: the block of the body that calls, if that is known.
  static func noteRegions(on block: UnsafeMutablePointer<ControlBlock>? = nil) {
    for block in RunningBodies(on: block) { block.pointee.mode.insert(.regionOpen) }
  }

  /// How many of the running coroutine's regions were opened in the body on `block`'s stack, or in those on top of it.
  func regionCount(_ core: CoroutineCore, downTo block: UnsafeMutablePointer<ControlBlock>) -> Int {
    var count = 0
    var next = core.regions
    for body in self {
      let stack = body.pointee.stack
      while let region = next, stack.contains(region.frameAddress) {
        count += 1
        next = region.outer
      }
      if body == block { break }
    }
    return count
  }
}

extension ControlBlock.Mode {
  /// A generator's body runs, and may have a cancellation region open.
  @inlinable static var regionOpen: ControlBlock.Mode { ControlBlock.Mode(rawValue: 32) }
}
