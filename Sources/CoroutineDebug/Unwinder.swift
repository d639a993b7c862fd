import CUnwind
import Context

/// libunwind, and what it found out about the program's frames: makes the walk of a thousand similar stacks cheap.
///
/// Not for two threads at a time, and not for longer than one dump: a library might be unloaded.
struct Unwinder: ~Copyable {
  private let unwinder: OpaquePointer

  /// There was no memory.
  struct OutOfMemory: Error, CustomStringConvertible {
    var description: String { "there is no memory to unwind stacks with" }
  }

  init() throws(OutOfMemory) {
    guard let unwinder = unwinder_create() else { throw OutOfMemory() }
    self.unwinder = unwinder
  }

  deinit {
    unwinder_destroy(unwinder)
  }

  /// Walks one stack, which ends at `top`, from a suspended context outwards. Returns how many addresses it wrote.
  ///
  /// - Parameter isStable: whether nobody can make it go on meanwhile. Otherwise the caller has to look whether somebody
  ///   has: the result is nonsense then.
  func walk(
    _ registers: ContextRegisters, top: UInt, isStable: Bool = true, into buffer: UnsafeMutableBufferPointer<UInt>
  ) -> Int {
    withUnsafeTemporaryAllocation(of: UInt.self, capacity: 4) { words in
      words[0] = registers.programCounter
      words[1] = registers.stackPointer
      words[2] = registers.framePointer
      words[3] = registers.baseRegister
      return isStable
        ? unwinder_walk(unwinder, words.baseAddress!, top, buffer.baseAddress!, buffer.count)
        : unwinder_walk_copy(unwinder, words.baseAddress!, top, buffer.baseAddress!, buffer.count)
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
