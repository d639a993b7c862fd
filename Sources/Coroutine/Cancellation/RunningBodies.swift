// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context

/// The generators' bodies that run at this moment, one on top of the other: first the body that calls, then its
/// consumer, and so on up to the code that is no generator's. Their blocks.
///
/// Ends at the first stack that is not a generator's. A look-up takes some 10 ns, unless `guess` is right.
struct RunningBodies: Sequence, IteratorProtocol {
  /// On the next one's stack; `nil` after the last.
  private var stackAddress: UInt?
  /// The next one, if that is where `stackAddress` lies.
  private var guess: UnsafeMutablePointer<ControlBlock>?
  /// The running coroutine's own stack, where they end; `nil` without one.
  private let end = CoroutineCore.currentUncounted?._withUnsafeGuaranteedRef { $0.block?.pointee.stack }

  /// - Parameter block: the block of the body that calls, most likely.
  init(on block: UnsafeMutablePointer<ControlBlock>? = nil) {
    stackAddress = UInt(bitPattern: coroutine_frame_address())
    guess = block
  }

  /// Those that were left when the body on `block`'s stack was suspended: those on top of it, and itself.
  init(leftBy block: UnsafeMutablePointer<ControlBlock>) {
    stackAddress = SelectedBackend.registers(of: ContextLink.own(ControlBlock.link(of: block)))?.stackPointer
    guess = block
  }

  mutating func next() -> UnsafeMutablePointer<ControlBlock>? {
    guard let stackAddress, let block = block(at: stackAddress) else { return nil }
    guess = nil
    self.stackAddress = SelectedBackend.registers(of: ContextLink.resumer(ControlBlock.link(of: block)))?.stackPointer
    return block
  }

  private func block(at address: UInt) -> UnsafeMutablePointer<ControlBlock>? {
    if let guess, guess.pointee.stack.contains(address) { return guess }
    if let end, end.contains(address) { return nil }
    return ControlBlock.nested(around: address)
  }

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
