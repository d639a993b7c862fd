// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context

/// The nested bodies that run at this moment, each on a stack of its own, one on top of the other: first the body that calls,
/// then its resumer, and so on up to the code that is no nested body. Their blocks.
///
/// A look-up takes some 10 ns, unless `guess` is right.
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

  /// The body that calls, if there is one.
  static var innermost: UnsafeMutablePointer<ControlBlock>? {
    var bodies = RunningBodies()
    return bodies.next()
  }

  /// The resumer of the body on `block`'s stack, which is one of these, if it is a body itself.
  consuming func first(after block: UnsafeMutablePointer<ControlBlock>) -> UnsafeMutablePointer<ControlBlock>? {
    while let body = next() {
      if body == block { return next() }
    }
    return nil
  }

  private func block(at address: UInt) -> UnsafeMutablePointer<ControlBlock>? {
    if let guess, guess.pointee.stack.contains(address) { return guess }
    if let end, end.contains(address) { return nil }
    return ControlBlock.nested(around: address)
  }
}

extension ControlBlock {
  /// Whether code on `block`'s stack, or in the nested bodies on top of it, is inside of `withObservationTracking`. On the
  /// thread on which it runs, or did until now.
  ///
  /// - Parameter bodies: the bodies that run, or that were left, down to `block`'s stack.
  static func isInsideTracking(_ block: UnsafeMutablePointer<ControlBlock>, _ bodies: RunningBodies) -> Bool {
    func isInside(_ stack: Stack) -> Bool { coroutine_tracks_properties(stack.limit, stack.top) }
    if isInside(block.pointee.stack) { return true }
    for body in bodies {
      // What is below is its resumer's.
      if body == block { break }
      if isInside(body.pointee.stack) { return true }
    }
    return false
  }
}
