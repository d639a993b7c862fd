import CUnwind
import Context
import Coroutine

/// The stacks of all suspended coroutines, as addresses: what has to be read while nothing may resume them.
///
/// All addresses lie in one array, one stack after the other, so that a coroutine costs no allocation for them.
struct StackCapture {
  private(set) var coroutines: [Coroutine] = []
  private var addresses: [UInt] = []

  struct Coroutine {
    let id: UInt64
    let name: String
    let isReady: Bool
    let waitsFor: String
    /// Whether there is more of its stack than was asked for.
    let isTruncated: Bool
    fileprivate let frames: Range<Int>
  }

  /// Reads all stacks. Blocks whoever wants to resume a coroutine meanwhile.
  ///
  /// - Parameter frameLimit: frames of a coroutine at most, innermost first.
  init(frameLimit: Int) throws {
    // One more, to see whether there are more.
    let buffer = UnsafeMutableBufferPointer<UInt>.allocate(capacity: frameLimit + 1)
    defer { buffer.deallocate() }
    let unwinder = try Unwinder()
    try Inspection.forEachSuspended { suspended in
      var count = 0
      for segment in suspended.segments where count < buffer.count {
        let rest = UnsafeMutableBufferPointer(rebasing: buffer[count...])
        count += unwinder.walk(segment.registers, top: UInt(bitPattern: segment.stack.top), into: rest)
      }
      let start = addresses.count
      addresses.append(contentsOf: buffer[..<min(count, frameLimit)])
      coroutines.append(
        Coroutine(
          id: suspended.id, name: suspended.name, isReady: suspended.isReady, waitsFor: suspended.waitsFor,
          isTruncated: count > frameLimit, frames: start..<addresses.count))
    }
  }

  /// The return addresses of a coroutine, innermost first.
  func stack(of coroutine: Coroutine) -> ArraySlice<UInt> { addresses[coroutine.frames] }
}

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
  func walk(_ registers: ContextRegisters, top: UInt, into buffer: UnsafeMutableBufferPointer<UInt>) -> Int {
    withUnsafeTemporaryAllocation(of: UInt.self, capacity: 4) { words in
      words[0] = registers.programCounter
      words[1] = registers.stackPointer
      words[2] = registers.framePointer
      words[3] = registers.baseRegister
      return unwinder_walk(unwinder, words.baseAddress!, top, buffer.baseAddress!, buffer.count)
    }
  }
}
