// SPDX-License-Identifier: Apache-2.0

import CCoroutine
public import Context

/// The switches of the runtime: the only place where a stack is entered or left.
///
/// Each but `pass` comes in two forms. The plain one is the backend's switch and nothing else; the annotated one, which
/// also informs the sanitizers, is never inlined. `mode` says which: it is `annotated` from a block's creation on, or
/// never.
extension ControlBlock {
  @inlinable @inline(__always)
  static func link(of block: UnsafeMutablePointer<ControlBlock>) -> UnsafeMutablePointer<ContextLink<SelectedBackend>> {
    UnsafeMutableRawPointer(block).assumingMemoryBound(to: ContextLink<SelectedBackend>.self)
  }

  /// Runs what is suspended on `block`'s stack until it suspends or ends. On the resumer's side.
  @inlinable @inline(__always)
  static func resume(_ block: UnsafeMutablePointer<ControlBlock>, passing word: UInt) -> UInt {
    guard !block.pointee.mode.contains(.annotated) else { return resumeAnnotated(block, passing: word) }
    return SelectedBackend.resume(link(of: block), passing: word)
  }

  /// The same for a scheduled coroutine's turn. Another coroutine may come back, by `pass`: returns that one's block.
  @inline(__always)
  static func resumeTurn(_ block: UnsafeMutablePointer<ControlBlock>) -> UnsafeMutablePointer<ControlBlock> {
    let word = UInt(bitPattern: block)
    guard !block.pointee.mode.contains(.annotated) else {
      _ = resumeAnnotated(block, passing: word)
      return block
    }
    let arrival = SelectedBackend.resumeReturningLink(link(of: block), passing: word)
    return UnsafeMutableRawPointer(arrival.link).assumingMemoryBound(to: ControlBlock.self)
  }

  /// Goes back to the resumer of `block`'s stack. On the stack itself, or on one on top of it. With a mark:
  /// only the plain way of an element has none.
  @inlinable @inline(__always)
  static func suspend(_ block: UnsafeMutablePointer<ControlBlock>, passing word: UInt) -> UInt {
    guard !block.pointee.mode.contains(.annotated) else { return suspendAnnotated(block, passing: word) }
    return SelectedBackend.suspend(link(of: block), passing: word, mark: 1)
  }

  /// Goes from `block`'s stack, or one on top of it, right into what is suspended on `next`'s. The resumer
  /// of `block` has resumed `next` then. `block` is ready as soon as its context is saved. Neither is annotated.
  @inline(__always)
  static func pass(from block: UnsafeMutablePointer<ControlBlock>, to next: UnsafeMutablePointer<ControlBlock>) {
    let state = UnsafeMutableRawPointer(block) + stateOffset
    SelectedBackend.pass(  // litmus: switch-state
      from: link(of: block), to: link(of: next),
      storing: UInt(State.ready.rawValue), at: state.assumingMemoryBound(to: UInt.self))
  }

  @inline(never) @usableFromInline
  static func resumeAnnotated(_ block: UnsafeMutablePointer<ControlBlock>, passing word: UInt) -> UInt {
    coroutine_sanitizer_will_resume(&block.pointee.sanitizer)
    let answer = SelectedBackend.resume(link(of: block), passing: word)
    coroutine_sanitizer_did_resume(&block.pointee.sanitizer)
    return answer
  }

  @inline(never) @usableFromInline
  static func suspendAnnotated(_ block: UnsafeMutablePointer<ControlBlock>, passing word: UInt) -> UInt {
    coroutine_sanitizer_will_suspend(&block.pointee.sanitizer)
    let answer = SelectedBackend.suspend(link(of: block), passing: word, mark: 1)
    coroutine_sanitizer_did_suspend(&block.pointee.sanitizer)
    return answer
  }

  /// The first thing an entry function does: `word` is what the first resume passed, the block's address.
  @inline(__always)
  static func entered(_ word: UInt) -> UnsafeMutablePointer<ControlBlock> {
    let block = UnsafeMutablePointer<ControlBlock>(bitPattern: word)!
    if block.pointee.mode.contains(.annotated) { coroutine_sanitizer_did_start(&block.pointee.sanitizer) }
    return block
  }

  /// The last thing an entry function does: goes back to the resumer for good. Nothing that needs a release may be alive.
  @inline(__always)
  static func leave(_ block: UnsafeMutablePointer<ControlBlock>) -> Never {
    block.pointee.mode.insert(.finished)
    if block.pointee.mode.contains(.annotated) { coroutine_sanitizer_will_finish(&block.pointee.sanitizer) }
    _ = SelectedBackend.suspend(link(of: block), passing: 0, mark: 1)
    fatalError("a finished coroutine was resumed")
  }
}
