// SPDX-License-Identifier: Apache-2.0

import CCoroutineUnwind
import Context
import CoroutineLibc

/// libunwind, and what it found out about the program's frames: makes the walk of a thousand similar stacks cheap.
///
/// Not for two threads at a time, and not for longer than one dump: a library might be unloaded.
struct Unwinder: ~Copyable {
  let pointer: OpaquePointer
  /// For the copy of one stack; made when it is needed.
  private var room: UnsafeMutableRawPointer?
  private static let roomSize = Int(stack_copy_most) + 2 * Int(stack_copy_margin)

  /// There was no memory.
  struct OutOfMemory: Error, CustomStringConvertible {
    var description: String { "there is no memory to unwind stacks with" }
  }

  init() throws(OutOfMemory) {
    guard let pointer = coroutine_unwinder_create() else { throw OutOfMemory() }
    self.pointer = pointer
  }

  deinit {
    free(room)
    coroutine_unwinder_destroy(pointer)
  }

  /// Walks one stack, which ends at `top`, from a suspended context outwards. Returns how many addresses it wrote. The
  /// context must not go on meanwhile.
  func walk(_ registers: ContextRegisters, top: UInt, into buffer: UnsafeMutableBufferPointer<UInt>) -> Int {
    registers.withWords { coroutine_unwinder_walk(pointer, $0, top, buffer.baseAddress!, buffer.count) }
  }

  /// The same where the context may go on. The caller has to look whether that has happened: the result is nonsense
  /// then.
  mutating func walkCopy(
    _ registers: ContextRegisters, top: UInt, into buffer: UnsafeMutableBufferPointer<UInt>
  ) -> Int {
    if room == nil { room = calloc(1, Self.roomSize) }
    guard let room else { return 0 }
    var copy = stack_copy()
    let size = registers.withWords {
      coroutine_stack_copy_make(&copy, $0, top, room.assumingMemoryBound(to: CChar.self), Self.roomSize)
    }
    return size == 0 ? 0 : coroutine_unwinder_walk_copy(pointer, &copy, false, buffer.baseAddress!, buffer.count)
  }
}

extension ContextRegisters {
  /// As C wants them.
  func withWords<Result>(_ body: (UnsafePointer<UInt>) -> Result) -> Result {
    withUnsafeTemporaryAllocation(of: UInt.self, capacity: 4) { words in
      words[0] = programCounter
      words[1] = stackPointer
      words[2] = framePointer
      words[3] = baseRegister
      return body(words.baseAddress!)
    }
  }
}

extension ContextRegisters {
  init(_ registers: unwinder_registers) {
    self.init(
      programCounter: registers.pc, stackPointer: registers.sp, framePointer: registers.fp,
      baseRegister: registers.base)
  }
}
