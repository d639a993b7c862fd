// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context

/// Code whose caller keeps something that belongs to the thread until that code returns. So it must not suspend or yield.
enum ThreadBoundCode {
  /// The Swift runtime keeps its lock of the variable.
  case initialiser
  /// Dispatch keeps the queue, and the thread's note of it, which lies on the stack.
  case dispatchBlock
  /// The thread runs the code of that isolation, by a note that lies on the stack.
  case isolatedDeinit

  /// The thread-bound code that `block`, which is suspended, is inside of, on its own stack or on a nested one that it has
  /// resumed; `nil`: none. A walk along the frames: release builds don't do it for each suspension.
  static func around(_ block: UnsafeMutablePointer<ControlBlock>) -> ThreadBoundCode? {
    guard let registers = SelectedBackend.registers(of: ContextLink.own(ControlBlock.link(of: block)))
    else { return nil }
    return around(block, UnsafeRawPointer(bitPattern: registers.framePointer), registers.stackPointer)
  }

  /// The same of the calling code, which runs on `block`'s stack, or on a nested one.
  static func aroundCaller(on block: UnsafeMutablePointer<ControlBlock>) -> ThreadBoundCode? {
    around(block, nil, UInt(bitPattern: coroutine_frame_address()))
  }

  /// - Parameter frame: the innermost one; `nil`: that of the calling code.
  private static func around(
    _ block: UnsafeMutablePointer<ControlBlock>, _ frame: UnsafeRawPointer?, _ stackPointer: UInt
  ) -> ThreadBoundCode? {
    var (frame, stackPointer) = (frame, stackPointer)
    while true {
      let isOwn = block.pointee.stack.contains(stackPointer)
      guard let current = isOwn ? block : ControlBlock.nested(around: stackPointer) else { return nil }
      let stack = current.pointee.stack
      if coroutine_initialises_variable(frame, stack.limit, stack.top) { return .initialiser }
      if coroutine_is_inside_dispatch_block(stack.limit, stack.top) { return .dispatchBlock }
      if coroutine_is_inside_isolated_deinit(stack.limit, stack.top) { return .isolatedDeinit }
      guard !isOwn, let outer = SelectedBackend.registers(of: ContextLink.resumer(ControlBlock.link(of: current)))
      else { return nil }
      (frame, stackPointer) = (UnsafeRawPointer(bitPattern: outer.framePointer), outer.stackPointer)
    }
  }

  var text: String {
    switch self {
    case .initialiser: "the initialiser of a static or global variable"
    case .dispatchBlock: "a block of queue.sync or concurrentPerform"
    case .isolatedDeinit: "an isolated deinit"
    }
  }

  /// What comes of it.
  var consequence: String {
    switch self {
    case .initialiser: "Other code that uses that meanwhile blocks its thread for ever."
    case .dispatchBlock: "The queue belongs to the thread, which runs other code meanwhile."
    case .isolatedDeinit: "The thread takes the code that it runs meanwhile for code of that isolation."
    }
  }
}
