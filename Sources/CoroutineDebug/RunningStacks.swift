// SPDX-License-Identifier: Apache-2.0

import CCoroutineUnwind
import Context
import Coroutine
import CoroutineLibc

/// Where the coroutines stand that run: each on a thread, on top of its resumer there.
///
/// The calling thread's stacks lie still. Another thread's are copied while a signal's handler keeps it, some microseconds,
/// and walked when it runs again: a walk takes locks that it might hold.
struct RunningStacks: ~Copyable {
  /// One of a thread's stacks, which are listed innermost first. `addresses` is the range of its frames in the list of
  /// all.
  private struct Part {
    let stack: Stack?
    let stackPointer: UInt
    let isGenerators: Bool
    let addresses: Range<Int>
  }

  /// A coroutine's part of that.
  struct Found {
    let addresses: ArraySlice<UInt>
    /// The bytes of its own stack that it uses.
    let stackUsed: Int
  }

  /// Which other threads are asked.
  enum Asking {
    case none
    /// Where the question would end a system call early, such as a `poll` with a time limit, the thread is not asked; nor where
    /// it is in none, and so not blocked.
    case unnoticed
    case all
  }

  let asking: Asking
  private var threads: [[Part]] = []
  private var addresses: [UInt] = []
  private var ownCount = 0
  private var isAsked = false
  private let frameLimit: Int

  /// A thread that does not get to its handler has its signals blocked, or no processor. All such threads together get
  /// no more time than this.
  private static let patience = Duration.milliseconds(500)
  /// Switches are under way for a few instructions.
  private static let attempts = 3
  /// Coroutines and generators that have resumed each other on one thread; more are not looked at.
  private static let deepest = 64

  init(asking: Asking, frameLimit: Int) {
    (self.asking, self.frameLimit) = (asking, frameLimit)
  }

  /// The calling thread, which stands at `registers` until the last use of this.
  mutating func addOwn(_ registers: ContextRegisters, _ unwinder: borrowing Unwinder) {
    withUnsafeTemporaryAllocation(of: InspectedCoroutine.Segment.self, capacity: Self.deepest) { segments in
      let count = Inspection.followResumers(from: registers, into: segments)
      // On no coroutine's stack it belongs to none.
      guard count > 0, segments[0].stack != nil else { return }
      var parts: [Part] = []
      for segment in segments[..<count] {
        let top = segment.stack.map { UInt(bitPattern: $0.top) } ?? UInt.max & ~15
        parts.append(part(segment) { unwinder.walk(segment.registers, top: top, into: $0) })
      }
      threads.append(parts)
    }
    ownCount = threads.count
  }

  /// From now on nothing is known of other threads: they have gone on.
  mutating func forgetOthers() {
    threads.removeSubrange(ownCount...)
    isAsked = false
  }

  /// The stacks of the coroutine that has this one, and of its resumers. `nil` if it is not found running.
  mutating func find(_ stack: Stack, _ unwinder: borrowing Unwinder) -> Found? {
    if let found = known(stack) { return found }
    guard asking != .none, !isAsked else { return nil }
    isAsked = true
    let end = ContinuousClock.now + Self.patience
    for _ in 0..<Self.attempts {
      threads.removeSubrange(ownCount...)
      askThreads(until: end, unwinder)
      if let found = known(stack) { return found }
    }
    return nil
  }

  private func known(_ stack: Stack) -> Found? {
    for parts in threads {
      guard let own = parts.firstIndex(where: { $0.stack == stack }) else { continue }
      // The generators that it runs come before it.
      let first = parts[..<own].lastIndex { !$0.isGenerators }.map { $0 + 1 } ?? 0
      let range = parts[first].addresses.lowerBound..<parts[parts.count - 1].addresses.upperBound
      return Found(
        addresses: addresses[range].prefix(frameLimit + 1),
        stackUsed: Int(UInt(bitPattern: stack.top) - parts[own].stackPointer))
    }
    return nil
  }

  private mutating func part(
    _ segment: InspectedCoroutine.Segment, _ walk: (UnsafeMutableBufferPointer<UInt>) -> Int
  ) -> Part {
    let start = addresses.count
    withUnsafeTemporaryAllocation(of: UInt.self, capacity: frameLimit + 1) { buffer in
      let count = walk(buffer)
      addresses.append(contentsOf: buffer[..<count])
    }
    return Part(
      stack: segment.stack, stackPointer: segment.registers.stackPointer, isGenerators: segment.isGenerators,
      addresses: start..<addresses.count)
  }
}

// MARK: - Other threads

extension RunningStacks {
  /// Held while a thread is asked. A dump asks while it keeps coroutines from running; what asks without that waits for its end,
  /// and it for that one's. Free in children of `fork`.
  private static let question = Lock()
  private static let questionIsFreeInChildren: Void = question.keepFreeInChildren()

  /// What is copied of one thread's stacks, innermost first; the rest is not shown.
  private static let roomSize = 1 << 20

  private mutating func askThreads(until end: ContinuousClock.Instant, _ unwinder: borrowing Unwinder) {
    var ids = [running_thread](repeating: running_thread(), count: 64)
    var count = coroutine_running_threads(&ids, ids.count)
    while count > ids.count {
      ids = [running_thread](repeating: running_thread(), count: count * 2)
      count = coroutine_running_threads(&ids, ids.count)
    }
    // Fresh pages: what is not needed takes no memory.
    guard count > 0, let room = calloc(1, Self.roomSize) else { return }
    defer { free(room) }
    _ = Self.questionIsFreeInChildren
    for thread in ids[..<count] {
      let left = CInt((end - .now) / .milliseconds(1))
      // One that does not answer is no reason not to ask the others.
      ask(thread, milliseconds: max(10, left), room.assumingMemoryBound(to: CChar.self), unwinder)
    }
  }

  private mutating func ask(
    _ thread: running_thread, milliseconds: CInt, _ room: UnsafeMutablePointer<CChar>, _ unwinder: borrowing Unwinder
  ) {
    withUnsafeTemporaryAllocation(of: InspectedCoroutine.Segment.self, capacity: Self.deepest) { segments in
      withUnsafeTemporaryAllocation(of: stack_copy.self, capacity: Self.deepest) { copies in
        withUnsafeTemporaryAllocation(of: UInt.self, capacity: 4) { words in
          Self.question.lock()
          let isHeld = coroutine_running_hold(thread.id, milliseconds, asking == .unnoticed, words.baseAddress!)
          let count = isHeld ? Self.copy(thread, words, segments, copies, room) : 0
          if isHeld { coroutine_running_release() }
          Self.question.unlock()
          guard count > 0 else { return }
          var parts: [Part] = []
          for index in 0..<count {
            parts.append(
              part(segments[index]) {
                coroutine_unwinder_walk_copy(
                  unwinder.pointer, copies.baseAddress! + index, index == 0, $0.baseAddress!, $0.count)
              })
          }
          threads.append(parts)
        }
      }
    }
  }

  /// Copies the stacks of a thread that stands still, and returns how many they are. Takes no lock and allocates nothing.
  private static func copy(
    _ thread: running_thread, _ words: UnsafeMutableBufferPointer<UInt>,
    _ segments: UnsafeMutableBufferPointer<InspectedCoroutine.Segment>,
    _ copies: UnsafeMutableBufferPointer<stack_copy>, _ room: UnsafeMutablePointer<CChar>
  ) -> Int {
    let start = ContextRegisters(
      programCounter: words[0], stackPointer: words[1], framePointer: words[2], baseRegister: words[3])
    let count = Inspection.followResumers(from: start, into: segments)
    // On no stack of a coroutine's: such as a signal's, above which there may be a guard.
    guard count > 0, segments[0].stack != nil else { return 0 }
    var used = 0
    for index in 0..<count {
      let top = segments[index].stack.map { UInt(bitPattern: $0.top) } ?? thread.top
      let size = segments[index].registers.withWords {
        coroutine_stack_copy_make(copies.baseAddress! + index, $0, top, room + used, roomSize - used)
      }
      guard size > 0 else { return index }
      used += (size + 15) & ~15
    }
    return count
  }
}
