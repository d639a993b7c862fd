// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context

#if DEBUG
  extension ControlBlock {
    /// Whether what has left `block`'s stack did so inside the initialiser of a static or global variable: on that stack, or
    /// on those that it has resumed in turn.
    ///
    /// For debug builds: a walk along the frames, for each suspension.
    static func isInsideInitialiser(_ block: UnsafeMutablePointer<ControlBlock>) -> Bool {
      var next = SelectedBackend.registers(of: ContextLink.own(link(of: block)))
      while let registers = next {
        let isOwn = block.pointee.stack.contains(registers.stackPointer)
        guard let current = isOwn ? block : nested(around: registers.stackPointer) else { return false }
        let stack = current.pointee.stack
        let frame = UnsafeRawPointer(bitPattern: registers.framePointer)
        if coroutine_initialises_variable(frame, stack.limit, stack.top) { return true }
        guard !isOwn else { return false }
        next = SelectedBackend.registers(of: ContextLink.resumer(link(of: current)))
      }
      return false
    }
  }
#endif
