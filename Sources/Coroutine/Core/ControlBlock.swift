// SPDX-License-Identifier: Apache-2.0

public import CCoroutine
public import Context
package import Synchronization

/// What the runtime knows of a stack in use, at the upper end of that stack.
///
/// It lies in raw memory and not in an object: a switch must not happen inside an access to a stored property, the
/// memory stays mapped after the coroutine's end (so that a debugger may look at it at any time), and an unwinder that
/// has a stack has its block too.
///
///     upper end of the stack, a page boundary
///        |  0 ... 15 lines of 64 bytes, by the stack's color: else all blocks would compete for the same cache sets
///        |  ControlBlock, at a multiple of 64: what a switch needs is its first line
///        |  the slot of what the owner passes, when that does not fit into the word of a switch
///        |  the frames
///        v
///
/// The running side of the stack and its resumer may touch the fields: never two threads at once. Other threads read
/// the state alone.
@usableFromInline
package struct ControlBlock: ~Copyable {
  /// Both sides' registers. First, so that the block's address is also the link's.
  @usableFromInline var link: ContextLink<SelectedBackend>
  /// Its own address plus 64 times its serial number, with the mode in the six bits below: a word that no other block at this
  /// address ever has. 0 after its end. In the link's cache line, and compared by one instruction.
  @usableFromInline var tag: UInt
  /// What the scheduled coroutine that runs here is doing; read by debuggers.
  package let state: Atomic<State>
  /// What the resumer has to do when the coroutine is off its stack.
  @usableFromInline var afterSwitch: AfterSwitch
  /// The number of the latest pass of a freeze (`Inspection.Pass`) that has seen which coroutine runs here. It fills what
  /// would be padding. Only the freezing thread touches it, during its freeze.
  var seenBy: UInt32 = 0
  /// The object whose body runs here. Its resumer keeps it alive.
  package let owner: Unmanaged<AnyObject>
  /// The thread's words that belong to the scheduled coroutine, while it does not run. Of a nested body (`State.nested`)
  /// nothing but the task that has resumed it, if any.
  @usableFromInline var threadState: swift_thread_state
  // Here ends what a turn needs, in two cache lines.

  /// A serial number, which does not come again; 0 after its end.
  var serial: UInt64
  /// The stack, and the pool to which it goes back; pools live for ever.
  package let stack: Stack
  let pool: Unmanaged<StackPool>
  /// What the sanitizers know; zero without them.
  @usableFromInline var sanitizer: coroutine_sanitizer
  /// The list of `UnbegunBodies`, while a loop on this stack releases them.
  var unbegunBodies: UnsafeMutableRawPointer?

  /// Why the fast paths must not be taken: empty in the usual case.
  @inlinable
  var mode: Mode {
    @inline(__always) get { Mode(rawValue: tag & Mode.all) }
    @inline(__always) set { tag = tag & ~Mode.all | newValue.rawValue }
  }

  /// Reasons to leave the fast path.
  @usableFromInline
  struct Mode: OptionSet, BitwiseCopyable, Sendable {
    @usableFromInline let rawValue: UInt
    @inlinable init(rawValue: UInt) { self.rawValue = rawValue }
    /// As many bits as an address has that is a multiple of 64.
    @inlinable static var all: UInt { 63 }
    /// The body has ended: the next switch out of it is the last.
    @inlinable static var finished: Mode { Mode(rawValue: 1) }
    /// A sanitizer must learn of each switch.
    @inlinable static var annotated: Mode { Mode(rawValue: 8) }
    /// A scheduled coroutine has its turn on top of other code, which goes on after it, and not in its scheduler's
    /// loop.
    @inlinable static var onTop: Mode { Mode(rawValue: 4) }
    // There are six bits. What runs nested has 2, 16 and 32 for itself, and 4 in another meaning, since it has no turns.
  }

  /// What a scheduled coroutine is doing.
  ///
  /// The values are unlikely ones: a debugger looks for blocks on all stacks of the pools, and a stack that the program
  /// took for another purpose may contain anything there.
  ///
  /// Not an enumeration for the same reason: any bits are a value, if not one of these.
  package struct State: RawRepresentable, AtomicRepresentable, Equatable, Sendable {
    package let rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }
    /// Nothing is here: the memory is fresh, or a block is being made or was taken down.
    static var none: State { State(rawValue: 0) }
    /// What runs here is part of its resumer, and has no state of its own.
    static var nested: State { State(rawValue: 0x636f_726f_7574_0001) }
    static var ready: State { State(rawValue: 0x636f_726f_7574_0002) }
    static var running: State { State(rawValue: 0x636f_726f_7574_0003) }
    static var suspended: State { State(rawValue: 0x636f_726f_7574_0004) }
  }

  /// What is to be done once the context is saved. Not before: a waiter that is visible while it still runs would be
  /// resumed twice.
  @usableFromInline
  enum AfterSwitch {
    /// Nothing: what runs here is nested, or never suspended.
    case none
    /// Unlock what it waits for: from then on others may wake it.
    case unlock(Unmanaged<Waitable>)
    /// The same for all the things of a joint wait. The list lies on the stack that was left.
    case unlockAll(UnsafeMutablePointer<JointWait>)
    /// Put it at the end of its scheduler's queue.
    case enqueue
    /// Take the stack back.
    case finish
  }
}

extension ControlBlock {
  /// Where `state` lies: behind the link and the tag.
  @inline(__always)
  static var stateOffset: Int { MemoryLayout<ContextLink<SelectedBackend>>.size + MemoryLayout<UInt>.size }

  /// The distance between two colors, in bytes.
  static var colorStep: Int { 64 }

  /// Where the block of `stack` lies.
  static func address(on stack: Stack) -> UnsafeMutablePointer<ControlBlock> {
    let lowest = UInt(bitPattern: stack.top) - UInt(stack.color * colorStep + MemoryLayout<ControlBlock>.size)
    return UnsafeMutablePointer(bitPattern: lowest & ~63)!
  }

  /// Takes a stack and makes a block on it, with a context that will call `entry` with the block's address.
  ///
  /// - Parameters:
  ///   - stackSize: usable bytes at least; `nil` for the default.
  ///   - slot: the size of an area below the block that the owner uses, in bytes.
  ///   - entry: must begin with `entered(_:)` and end with `leave(_:)`.
  static func create(
    stackSize: Int?, owner: AnyObject, slot: Int = 0, entry: @convention(c) (UInt) -> Void
  ) throws(StackError) -> UnsafeMutablePointer<ControlBlock> {
    if stackSize == nil, slot <= largeSlot, let (stack, pool) = PoolWorker.takeSpareStack() {
      return make(on: stack, of: pool, owner: owner, slot: slot, annotated: false, entry: entry)
    }
    // A large element must not take the place of the frames. A size of 0 or less is passed on unchanged, so that it is refused.
    let size = stackSize ?? StackPool.defaultStackSize
    let (enlarged, isTooLarge) = size.addingReportingOverflow(slot)
    let pool = try StackSupply.pool(slot > largeSlot && size > 0 ? (isTooLarge ? .max : enlarged) : stackSize)
    let stack = try pool._withUnsafeGuaranteedRef { pool in
      Result { () throws(StackError) in try pool.allocate() }
    }.get()
    return make(on: stack, of: pool, owner: owner, slot: slot, annotated: StackSupply.sanitizersActive, entry: entry)
  }

  @inline(__always)
  private static func make(
    on stack: Stack, of pool: Unmanaged<StackPool>, owner: AnyObject, slot: Int, annotated: Bool,
    entry: @convention(c) (UInt) -> Void
  ) -> UnsafeMutablePointer<ControlBlock> {
    if coroutine_stacks_are_measured() { pool._withUnsafeGuaranteedRef { $0.clean(stack) } }
    let block = address(on: stack)
    block.initialize(
      to: ControlBlock(
        link: ContextLink(own: .init(), resumer: .init()),
        tag: 0, state: Atomic(.none), afterSwitch: .none, owner: .passUnretained(owner),
        threadState: swift_thread_state(), serial: nextSerial(), stack: stack, pool: pool,
        sanitizer: coroutine_sanitizer()))
    block.pointee.tag = UInt(bitPattern: block) &+ UInt(block.pointee.serial) &* (Mode.all + 1)
    if annotated { block.pointee.mode = .annotated }
    let limit = stack.limit
    let frames = (UnsafeMutableRawPointer(block) - slot).alignedDown(toMultipleOf: 64)
    SelectedBackend.initialize(
      link(of: block), stack: UnsafeMutableRawBufferPointer(start: limit, count: frames - limit), entry: entry)
    if annotated { coroutine_sanitizer_create(&block.pointee.sanitizer, limit, stack.size) }
    return block
  }

  @inline(__always)
  private static func nextSerial() -> UInt64 {
    let number = PoolWorker.numberOfBlock { count in
      let end = numbers.wrappingAdd(count, ordering: .relaxed).newValue
      return end - count..<end
    }
    // Odd: none is 0.
    return 2 * number + 1
  }

  private static let numbers = Atomic<UInt64>(0)

  /// Whether the caller's frame is so near to `block` that it lies on its stack, however small that is. False does not mean
  /// that it lies elsewhere: it may lie further down.
  @inlinable @inline(__always)
  static func standsNear(_ block: UnsafeMutablePointer<ControlBlock>) -> Bool {
    UInt(bitPattern: block) &- coroutine_stack_pointer() < leastFrames
  }

  /// The smallest stack has 16 KiB, of which the color, the block and its alignment take less than 4.
  @inlinable static var leastFrames: UInt { 12 << 10 }

  /// Below this, what a slot takes of a stack does not matter.
  private static var largeSlot: Int { 1024 }

  /// What looks like the block of a stack whose body runs, for ever. Never resumed, never written.
  static var alwaysRunning: UnsafeMutablePointer<ControlBlock> {
    coroutine_always_running().assumingMemoryBound(to: ControlBlock.self)
  }

  /// Gives back the stack of a context that will not be resumed again, its block with it. Its frames must be unwound.
  static func destroy(_ block: UnsafeMutablePointer<ControlBlock>) {
    let stack = block.pointee.stack
    SelectedBackend.destroy(ContextLink.own(link(of: block)))
    // Trivial memory, left as it is: a debugger may look at it at any time.
    let annotated = block.pointee.mode.contains(.annotated)
    if annotated { coroutine_sanitizer_destroy(&block.pointee.sanitizer, stack.limit, stack.size) }
    let pool = block.pointee.pool
    block.pointee.tag = 0
    block.pointee.serial = 0
    block.pointee.state.store(.none, ordering: .releasing)
    if annotated || !PoolWorker.keepSpareStack(stack, of: pool) { pool._withUnsafeGuaranteedRef { $0.release(stack) } }
  }
}

extension UnsafeMutableRawPointer {
  @inlinable
  func alignedDown(toMultipleOf alignment: UInt) -> UnsafeMutableRawPointer {
    UnsafeMutableRawPointer(bitPattern: UInt(bitPattern: self) & ~(alignment - 1))!
  }
}
