// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context

/// The bodies, of nested and of scheduled coroutines, that went without having begun, while they are released.
///
/// Such a body may own another nested coroutine, whose body owns the next. Swift releases each inside of the one before it, so
/// that ten thousand of them overflow a stack. So the first owner that goes releases in a loop, and those that go deep inside of
/// that, on the same stack, leave their bodies to the loop.
///
/// The list belongs to the stack and not to the thread: what a body captured may suspend in its `deinit`, and the loop goes on
/// elsewhere then, while other coroutines release theirs.
enum UnbegunBodies {
  private struct List {
    /// How many are being released inside of each other.
    var depth = 1
    /// What is left to the loop.
    var waiting: [Any] = []
  }

  /// So many are released inside of each other, as by Swift: a `deinit` may wait for what goes with another body.
  private static var deepest: Int { 8 }

  /// Releases a body that will not begin, or leaves it to the caller further up that does so already.
  ///
  /// - Parameter body: the only copy. A caller passes what `take()` has returned, not a variable, which would be a second one.
  @inline(never)
  static func release(_ body: consuming Any?) {
    guard let body = consume body else { return }
    let slot = listSlot
    if let list = slot.pointee?.assumingMemoryBound(to: List.self) {
      guard list.pointee.depth < deepest else { return list.pointee.waiting.append(consume body) }
      list.pointee.depth += 1
      _ = consume body
      list.pointee.depth -= 1
      return
    }
    var list = List()
    var next: Any? = consume body
    withUnsafeMutablePointer(to: &list) { list in
      slot.pointee = UnsafeMutableRawPointer(list)
      while next != nil {
        // By itself: what goes with it may add to the list.
        next = nil
        next = list.pointee.waiting.popLast()
      }
      slot.pointee = nil
    }
  }

  /// Where the running stack has its list, while there is one.
  private static var listSlot: UnsafeMutablePointer<UnsafeMutableRawPointer?> {
    // A thread's own stack stays on its thread, and so does the address.
    guard let block = ControlBlock.ofRunningStack else { return coroutine_thread_unbegun_bodies() }
    // A block is raw memory: its field has an address for as long as the stack is in use.
    return withUnsafeMutablePointer(to: &block.pointee.unbegunBodies) { $0 }
  }
}

extension ControlBlock {
  /// The block of the stack that the caller runs on; `nil` on a thread's own.
  fileprivate static var ofRunningStack: UnsafeMutablePointer<ControlBlock>? {
    let frameAddress = UInt(bitPattern: coroutine_frame_address())
    let own = CoroutineCore.currentUncounted?._withUnsafeGuaranteedRef { $0.block }
    if let own, own.pointee.stack.contains(frameAddress) { return own }
    return nested(around: frameAddress)
  }

  /// The block of the nested coroutine's stack in which `stackAddress` lies; `nil` if it lies in no such.
  static func nested(around stackAddress: UInt) -> UnsafeMutablePointer<ControlBlock>? {
    guard let stack = StackPool.liveStack(containing: stackAddress) else { return nil }
    let block = address(on: stack)
    return block.pointee.state.load(ordering: .relaxed) == .nested ? block : nil
  }
}
