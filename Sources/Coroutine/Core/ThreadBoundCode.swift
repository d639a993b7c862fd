// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context

#if DEBUG
  /// Code whose caller keeps something that belongs to the thread until that code returns. So it must not suspend or yield.
  enum ThreadBoundCode {
    /// The Swift runtime keeps its lock of the variable.
    case initialiser
    /// Dispatch keeps the queue, and the thread's note of it, which lies on the stack.
    case dispatchBlock

    /// The thread-bound code that `block` is inside of, on its own stack or on a nested one that it has resumed; `nil`: none.
    ///
    /// For debug builds: a walk along the frames, for each suspension.
    static func around(_ block: UnsafeMutablePointer<ControlBlock>) -> ThreadBoundCode? {
      var next = SelectedBackend.registers(of: ContextLink.own(ControlBlock.link(of: block)))
      while let registers = next {
        let isOwn = block.pointee.stack.contains(registers.stackPointer)
        guard let current = isOwn ? block : ControlBlock.nested(around: registers.stackPointer) else { return nil }
        let stack = current.pointee.stack
        let frame = UnsafeRawPointer(bitPattern: registers.framePointer)
        if coroutine_initialises_variable(frame, stack.limit, stack.top) { return .initialiser }
        if coroutine_is_inside_dispatch_block(stack.limit, stack.top) { return .dispatchBlock }
        guard !isOwn else { return nil }
        next = SelectedBackend.registers(of: ContextLink.resumer(ControlBlock.link(of: current)))
      }
      return nil
    }

    var text: String {
      switch self {
      case .initialiser: "the initialiser of a static or global variable"
      case .dispatchBlock: "a block of queue.sync or concurrentPerform"
      }
    }

    /// What comes of it.
    var consequence: String {
      switch self {
      case .initialiser: "Other code that uses that meanwhile blocks its thread for ever."
      case .dispatchBlock: "The queue belongs to the thread, which runs other code meanwhile."
      }
    }
  }
#endif
