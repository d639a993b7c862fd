// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import CCoroutineUnwind
import Context
import Coroutine
import CoroutineLibc
import Synchronization

// Overflows of coroutine stacks are reported by name. A program gets that by linking CoroutineDebug: `overflow.c` asks for it,
// and the first thread that is about to run a coroutine brings it about.
//
// The handler recognises the fault, hands the registers to a thread that waits for nothing else, and waits for its report:
// that thread may allocate, read symbol tables and take locks, none of which a handler may. Then the handler that was there
// before gets the fault: the process ends as it would have ended, with Swift's own crash report or a core file.

/// Called by each thread that is about to run a coroutine; the first one brings about what a program gets by linking
/// CoroutineDebug.
@_cdecl("coroutine_debug_prepare_thread")
func prepareThread() {
  if !isLinkedIn.exchange(true, ordering: .relaxed) {
    reportOverflows()
    BlockedStacks.addToReports()
  }
  coroutine_overflow_prepare_thread()
}

private let isLinkedIn = Atomic<Bool>(false)

private func reportOverflows() {
  // What the handler calls must not be the first to ask for it.
  _ = StackPool.allShared
  var nothing = overflow()
  _ = isOverflow(&nothing)
  guard coroutine_overflow_install(isOverflow, report) else {
    let message = "CoroutineDebug: stack overflows will not be told by name: \(String(cString: strerror(errno)))\n"
    _ = write(2, message, message.utf8.count)
    return
  }
}

/// In the signal handler, here and in what it calls: the fault may have come in the middle of `malloc`. Without optimisation
/// generic functions, such as an optional's `map`, may ask for metadata, which are allocated.
private func isOverflow(_ overflow: UnsafePointer<overflow>?) -> Bool {
  guard let overflow else { return false }
  return overflownStack(overflow.pointee) != nil
}

/// The stack that was too small, if that is what the fault comes of. Takes no lock and allocates nothing.
private func overflownStack(_ overflow: overflow) -> Stack? {
  let (address, stackPointer) = (UInt(overflow.address), UInt(overflow.sp))
  let guarded = StackPool.liveStack(guardedAt: address)
  guard let own = ownStack(of: overflow.coroutine) else {
    // Not the stray pointer of code that runs on another stack. The stack pointer may be below the guard's end, in a
    // large frame.
    guard let guarded, guarded.contains(stackPointer) || guarded.guardRange.contains(stackPointer) else { return nil }
    return guarded
  }
  /// Whether it is the coroutine's own, or that of a generator which runs for it.
  func isIts(_ stack: Stack) -> Bool { stack == own || Inspection.isGenerator(on: stack, runningFor: own) }
  let current = StackPool.liveStack(containing: stackPointer)
  if let current, isIts(current) {
    if current.guardRange.contains(address) { return current }
    // Where a generator's frame begins, its consumer's stack may lie: the guard in between is the generator's.
    guard let guarded, guarded != current, Inspection.isGenerator(on: guarded, runningFor: current) else { return nil }
    return stackPointer < UInt(bitPattern: guarded.limit) ? guarded : nil
  }
  // Not on a stack of its own: it has stepped out of its stack, with a frame that is larger than the guard, if the
  // fault lies between there and that stack.
  if let left = stack(above: stackPointer, where: isIts), address < UInt(bitPattern: left.limit),
    address >= stackPointer &- reach
  {
    return left
  }
  guard let current, current.guardRange.contains(address) else { return nil }
  return current
}

/// How far a function may write below its stack pointer: a call's return address, the red zone.
private let reach: UInt = 4096

/// Frames are not larger than that, and stacks mostly not either.
private let largestFrame: UInt = 4 << 20

private func stack(above stackPointer: UInt, where isWanted: (Stack) -> Bool) -> Stack? {
  var address = stackPointer
  let end = stackPointer &+ largestFrame
  while stackPointer <= address, address < end {
    guard let stack = StackPool.liveStack(containing: address) else {
      address = (address | 4095) &+ 1
      continue
    }
    if UInt(bitPattern: stack.limit) > stackPointer, isWanted(stack) { return stack }
    address = UInt(bitPattern: stack.top)
  }
  return nil
}

/// Not what its block says, over which the overflow may have written.
private func ownStack(of coroutine: UnsafeMutableRawPointer?) -> Stack? {
  guard let coroutine else { return nil }
  // It runs, in the signal handler, and so lives.
  guard let block = Unmanaged<CoroutineCore>.fromOpaque(coroutine).takeUnretainedValue().block else { return nil }
  return StackPool.liveStack(containing: UInt(bitPattern: block))
}

/// On the reporter's thread, while the one that faulted waits.
private func report(_ overflow: UnsafePointer<overflow>?) {
  guard let overflow = overflow?.pointee, let stack = overflownStack(overflow) else { return }
  var text = OverflowReport(overflow, stack).text
  text.withUTF8 { try? writeAll(UnsafeRawBufferPointer($0), to: 2) }
}

/// What is said of an overflow.
private struct OverflowReport {
  private let overflow: overflow
  private let stack: Stack

  /// Of a recursion's thousands of frames, so many are shown of either end.
  private static let shownInnermost = 24
  private static let shownOutermost = 12
  /// More frames than a stack of some MiB has room for.
  private static let frameLimit = 1 << 17

  init(_ overflow: overflow, _ stack: Stack) {
    self.overflow = overflow
    self.stack = stack
  }

  var text: String {
    var text =
      "\nstack overflow in \(whose) (\(stack.size >> 10) KiB stack). Give it a larger one (stackSize:), or recurse less.\n"
    let (addresses, isTruncated) = addresses()
    var symbolicator = Symbolicator(namesFunctions: isMemoryAvailable(64 << 20))
    let style = DumpStyle()
    let frames = symbolicator.frames(of: addresses).filter { !$0.isRuntime }
    let innermost = frames.prefix(Self.shownInnermost)
    let outermost = frames.dropFirst(Self.shownInnermost).suffix(Self.shownOutermost)
    style.write(Array(innermost), to: &text)
    let left = frames.count - innermost.count - outermost.count
    if left > 0 { text += "     … \(DumpStyle.number(left)) more\n" }
    style.write(Array(outermost), from: frames.count - outermost.count, to: &text)
    if isTruncated { text += "     … and further frames\n" }
    return text + "\n"
  }

  /// The coroutine, by name; and whether the stack is that of a generator of its.
  private var whose: String {
    guard let current = overflow.coroutine else { return "a generator" }
    // It runs, in the signal handler, and so lives.
    let core = Unmanaged<CoroutineCore>.fromOpaque(current).takeUnretainedValue()
    let name = core.description.onOneLine
    return ownStack(of: current) == stack ? name : "a generator of \(name)"
  }

  private func addresses() -> (ArraySlice<UInt>, isTruncated: Bool) {
    guard let unwinder = try? Unwinder() else { return ([], false) }
    let registers = ContextRegisters(
      programCounter: overflow.pc, stackPointer: overflow.sp, framePointer: overflow.fp, baseRegister: overflow.base)
    let buffer = UnsafeMutableBufferPointer<UInt>.allocate(capacity: Self.frameLimit)
    defer { buffer.deallocate() }
    let count = unwinder.walk(registers, top: UInt(bitPattern: stack.top), into: buffer)
    return (Array(buffer[..<count])[...], count == buffer.count)
  }
}
