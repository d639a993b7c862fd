// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem
import CoroutineLibc
import Synchronization

/// Stacks of one size, ready for use: guarded, pooled, cheap to take and to give back.
///
///     let stack = try StackPool.default.allocate()
///     defer { StackPool.default.release(stack) }
///
/// Address space is reserved in arenas of up to 4,096 stacks and 1 GiB and never returned while the pool lives. Memory
/// comes with the first touch of each page and goes again when many stacks lie idle. Every method may be called from
/// any thread. The owner of a stack must keep the pool alive: a pool that is released while stacks are in use traps.
///
/// Two locks. `lock` guards `idle`, the live bits and clean slots of the arenas, and is held for nanoseconds. `growth`
/// guards `grown` and is held across the system calls that make new stacks, so that stacks can be reused meanwhile.
/// Code that needs both takes `growth` first. No lock is held while pages are given back.
public final class StackPool: Sendable {
  /// How a stack is kept from running into what lies below it.
  public enum Guards: Sendable, Hashable {
    /// By `madvise` where the kernel has it (Linux 6.13), else by `mprotect`.
    case automatic

    /// By marks in the page table. A million guarded stacks need no more memory mappings than one.
    case madvise

    /// By mappings without access rights, two for each stack: some 30,000 stacks in a process with the usual
    /// `vm.max_map_count`.
    case mprotect

    /// Not at all: an overflow writes into the neighbour.
    case none
  }

  /// Usable bytes of each stack, whole pages.
  public var stackSize: Int { geometry.stackSize }

  /// Bytes of the guard below each stack, whole pages; 0 in a pool without guards. It may be some pages more than
  /// requested: how far neighbours lie apart is a number of pages that spreads their tops over the translation buffer.
  public var guardSize: Int { geometry.guardSize }

  private let geometry: StackGeometry
  let memory: StackMemory
  private let requestedGuards: Guards
  /// How long surplus stacks are kept for a program that may need them again: see `decay`.
  let decayPeriod: Duration
  let lock = Lock()
  let growth = Lock()

  // Both in memory of their own, because accesses to a class's stored properties are tracked at run time.
  /// Guarded by `lock`.
  nonisolated(unsafe) let idle: UnsafeMutablePointer<Idle>
  /// Guarded by `growth`.
  nonisolated(unsafe) let grown: UnsafeMutablePointer<Grown>

  /// The arenas, linked from the newest to the oldest. Grows under `growth`, read without a lock, which the arenas are
  /// made for.
  // An atomic; arenas stay where they are, and each field of theirs says what guards it.
  nonisolated(unsafe) let newestArena = Atomic<StackArena.Pointer?>(nil)

  struct Idle: ~Copyable {
    var resident = IdleStacks()
    var watermark: IdleWatermark

    /// The arenas with clean slots, linked by `StackArena.nextClean`.
    var cleanArenas: StackArena.Pointer?

    fileprivate var releasesToInspection = StackPool.inspectionPeriod
    var inspectionsToEpoch = 0
    /// Stacks that are on no list, since their pages are being given back.
    var trimming = 0
    /// Whether an arena may have become recyclable since the last look at all of them.
    var mayRecycle = false
    /// Whether a thread gives back the surplus: see `StackPool.decay`.
    var isDecaying = false
    /// How many stacks have been trimmed since such a thread was last done, and owners that are said to have ended.
    var trimmedToRest = 0

    fileprivate init(watermark: consuming IdleWatermark) {
      self.watermark = watermark
      restartEpoch()
    }

    mutating func endEpoch() {
      watermark.epochEnded(lowest: resident.lowest)
      restartEpoch()
    }

    private mutating func restartEpoch() {
      resident.restartLowest()
      inspectionsToEpoch = max(StackPool.inspectionsPerEpoch, 2 * watermark.mark / StackPool.inspectionPeriod)
    }
  }

  struct Grown: ~Copyable {
    /// How the latest guard was made; before the first, what the caller chose.
    var guards: Guards

    var mappings = MappingAllowance()

    /// The arenas whose slots do not all have guards.
    var unfinished: [StackArena.Pointer] = []

    var nextSlotCount = StackGeometry.fewestSlots
  }

  /// Once in this many releases, the released stack gives back all but its top 16 KiB: one that was used to its depths
  /// once would otherwise keep all of it, for ever if it stays at the hot end. A prime, so that no rhythm of the
  /// program can hide a stack from it; large enough to add less than a nanosecond to a release.
  fileprivate static let inspectionPeriod = 1021
  fileprivate static let inspectionsPerEpoch = 16
  private static let keptBytes = StackGeometry.roundedToPages(16 << 10)

  /// Stacks that are trimmed, or get their guards, by one system call.
  static let batch = 64

  /// An arena of at least this size is taken back to its first state when all of its stacks have been clean for a while: the
  /// page tables of a stack cost 160 bytes at 64 KiB and 540 at 256 KiB, a guard by `mprotect` a mapping that others may need.
  /// What smaller arenas keep does not add up to a MiB.
  private static let recycledBytes = 64 << 20

  /// A pool of stacks of `stackSize` bytes. Sizes are rounded up to whole pages. Reserves nothing yet.
  ///
  /// - Parameters:
  ///   - stackSize: usable bytes, up to 1 TiB; less than 16 KiB is 16 KiB. Address space only: it costs memory only
  ///     where it is touched.
  ///   - guardSize: bytes of the guard, up to 1 GiB; by default 64 KiB, or what `COROUTINE_STACK_GUARD` says. A frame larger
  ///     than the guard can step over it. Ignored if `guards` is `.none`.
  ///   - guards: how overflows are caught.
  ///   - residentIdle: how many idle stacks keep their memory; the pool moves between the bounds (not negative) as the
  ///     program needs. By default 256...131,072 for stacks of up to 256 KiB, fewer if they are larger; no more than an
  ///     eighth of that for longer than a minute.
  /// - Throws: `StackError.impossibleSize`, `StackError.impossibleGuardSize`.
  public convenience init(
    stackSize: Int = StackPool.defaultStackSize, guardSize: Int? = nil, guards: Guards = .automatic,
    residentIdle: ClosedRange<Int>? = nil
  ) throws(StackError) {
    if let residentIdle, residentIdle.lowerBound < 0 { fatalError("StackPool: a negative number of idle stacks") }
    try self.init(
      stackSize: stackSize, guardSize: guardSize, guards: guards, idle: residentIdle.map { IdleWatermark(bounds: $0) },
      memory: .kernel)
  }

  package convenience init(
    stackSize: Int, guardSize: Int?, guards: Guards, idle: IdleWatermark?, memory: StackMemory,
    decayPeriod: Duration = .seconds(10)
  ) throws(StackError) {
    let geometry = try StackGeometry(stackSize: stackSize, guardSize: guardSize, isGuarded: guards != .none)
    self.init(geometry: geometry, guards: guards, idle: idle, memory: memory, decayPeriod: decayPeriod)
  }

  init(
    geometry: StackGeometry, guards: Guards, idle watermark: IdleWatermark? = nil, memory: StackMemory = .kernel,
    decayPeriod: Duration = .seconds(10)
  ) {
    self.geometry = geometry
    self.decayPeriod = decayPeriod
    self.memory = memory
    requestedGuards = guards
    idle = .allocate(capacity: 1)
    idle.initialize(to: Idle(watermark: watermark ?? IdleWatermark(stackSize: geometry.stackSize)))
    grown = .allocate(capacity: 1)
    grown.initialize(to: Grown(guards: guards))
  }

  deinit {
    let live = liveCount
    guard live == 0 else { fatalError("StackPool: released while \(live) of its stacks are in use") }
    var arena = newestArena.load(ordering: .acquiring)
    while let current = arena {
      arena = current.pointee.older
      memory.unreserve(current.pointee.range)
      current.deinitialize(count: 1).deallocate()
    }
    idle.deinitialize(count: 1).deallocate()
    grown.deinitialize(count: 1).deallocate()
  }

  // MARK: Taking and giving back

  /// A stack that has no other owner. Its bytes are unspecified: zero if it is new or was trimmed.
  ///
  /// Constant time, some 10 ns, when an idle stack with memory is left; else one or more system calls.
  ///
  /// - Throws: `StackError.outOfMemory`, `.mapLimit`, `.guardRefused`. The pool stays usable, and so do its stacks.
  public func allocate() throws(StackError) -> Stack {
    lock.lock()
    guard let stack = idle.pointee.resident.popYoungest() else { return try allocateClean() }
    stack.arena.pointee.setLive(stack.slot)
    lock.unlock()
    return stack
  }

  /// Gives `stack` back. Nothing may run on it, or read or write it, from now on: the next `allocate()`, on any thread,
  /// may return it: memory safety is the caller's affair. Constant time; now and then one system call for the pages of 64 idle
  /// stacks.
  ///
  /// Traps if the stack is not in use (released twice) or belongs to another pool.
  @unsafe public func release(_ stack: Stack) {
    let arena = stack.arena
    guard arena.pointee.owner == ObjectIdentifier(self) else {
      fatalError("StackPool.release: \(stack) belongs to another pool")
    }
    lock.lock()
    guard arena.pointee.clearLive(stack.slot) else {
      fatalError("StackPool.release: \(stack) was released twice")
    }
    idle.pointee.releasesToInspection -= 1
    if idle.pointee.releasesToInspection == 0 {
      inspect(stack)
    }
    idle.pointee.resident.push(stack)
    let isTooMany = idle.pointee.resident.count - StackPool.batch >= idle.pointee.watermark.mark
    lock.unlock()
    if isTooMany {
      trimBatch()
      startDecayIfNeeded()
    }
  }

  /// Called and returns with `lock` held, which it gives up in between; `stack` is neither live nor idle for that while.
  @inline(never)
  private func inspect(_ stack: Stack) {
    idle.pointee.releasesToInspection = StackPool.inspectionPeriod
    idle.pointee.inspectionsToEpoch -= 1
    if idle.pointee.inspectionsToEpoch == 0 { idle.pointee.endEpoch() }
    lock.unlock()
    startDecayIfNeeded()
    withUnsafePointer(to: stack) { only in
      memory.discard(UnsafeBufferPointer(start: only, count: 1), keeping: StackPool.keptBytes)
    }
    lock.lock()
  }

  /// The caller holds `lock`, which is given up here.
  @inline(never)
  private func allocateClean() throws(StackError) -> Stack {
    let stack = takeClean()
    lock.unlock()
    if let stack { return stack }
    return try grow()
  }

  /// The caller holds `lock`.
  private func takeIdle() -> Stack? {
    guard let stack = idle.pointee.resident.popYoungest() else { return takeClean() }
    stack.arena.pointee.setLive(stack.slot)
    return stack
  }

  /// The caller holds `lock`.
  private func takeClean() -> Stack? {  // litmus: stack-live
    guard let arena = idle.pointee.cleanArenas, let taken = arena.pointee.takeClean() else { return nil }
    if arena.pointee.cleanCount == 0 {
      idle.pointee.cleanArenas = arena.pointee.nextClean
    }
    if taken.wasUsed {
      idle.pointee.watermark.trimmedStackWasWanted()
    }
    arena.pointee.setLive(taken.slot)
    return arena.pointee.stack(taken.slot, at: arena)
  }

  /// The caller holds `lock`. The slot is guarded, idle and has no pages.
  private func insertClean(_ slot: Int, of arena: StackArena.Pointer) {
    if arena.pointee.cleanCount == 0 {
      arena.pointee.nextClean = idle.pointee.cleanArenas
      idle.pointee.cleanArenas = arena
    }
    arena.pointee.insertClean(slot)
  }

  // MARK: Trimming

  /// Gives the memory of all idle stacks back, and the page tables of arenas that have no other. For a program, or a
  /// scheduler, that knows that it will be quiet for a while. Costs half a microsecond for each stack that has memory.
  public func trim() {
    let batches = lock.withLock {
      idle.pointee.watermark.reset()
      return (idle.pointee.resident.count + StackPool.batch - 1) / StackPool.batch
    }
    // No more than there were: other threads may release stacks as fast as this one trims them.
    for _ in 0..<batches {
      trimBatch(keeping: 0)
    }
    recycleArenas()
  }

  /// Trims a batch of the oldest idle stacks, but leaves this many, or as many as the watermark says.
  @inline(never)
  func trimBatch(keeping: Int? = nil) {
    withUnsafeTemporaryAllocation(of: Stack.self, capacity: StackPool.batch) { buffer in
      let count = lock.withLock {
        let mark = keeping ?? idle.pointee.watermark.mark
        let count = idle.pointee.resident.takeOldest(into: buffer, keeping: mark)
        idle.pointee.trimming += count
        return count
      }
      // Until they are listed as clean these stacks are on no list: no other thread can get at them.
      let batch = UnsafeBufferPointer(rebasing: buffer[..<count])
      memory.discard(batch, keeping: 0)
      lock.withLock {
        for stack in batch {
          insertClean(stack.slot, of: stack.arena)
          if isRecyclable(stack.arena) { idle.pointee.mayRecycle = true }
        }
        idle.pointee.trimming -= count
        idle.pointee.trimmedToRest += count
      }
    }
  }

  /// The caller holds `lock`. Whether all stacks of the arena that have guards are clean.
  private func isRecyclable(_ arena: StackArena.Pointer) -> Bool {
    let guarded = arena.pointee.guardedSlots.load(ordering: .relaxed)
    return guarded > 0 && arena.pointee.cleanCount == guarded
      && arena.pointee.range.count >= StackPool.recycledBytes
  }

  /// Takes arenas without a live or resident stack back to their first state, without guards and page tables. The range
  /// stays mapped, so that a reader of a stale stack cannot fault.
  func recycleArenas() {
    growth.lock()
    defer { growth.unlock() }
    let isWorthALook = lock.withLock {
      defer { idle.pointee.mayRecycle = false }
      return idle.pointee.mayRecycle
    }
    guard isWorthALook else { return }
    var next = newestArena.load(ordering: .acquiring)
    while let arena = next {
      next = arena.pointee.older
      let isUnused = lock.withLock {
        guard isRecyclable(arena) else { return false }
        removeFromCleanArenas(arena)
        arena.pointee.removeAllClean()
        return true
      }
      if isUnused { recycle(arena) }
    }
  }

  /// The caller holds `growth`, and no slot of the arena is on any list. Should the kernel refuse a step, nothing is lost: a
  /// slot gets its guard, again if need be, before it is used.
  private func recycle(_ arena: StackArena.Pointer) {
    if arena.pointee.guardedSlots.load(ordering: .relaxed) == arena.pointee.slotCount {
      grown.pointee.unfinished.append(arena)
    }
    arena.pointee.guardedSlots.store(0, ordering: .relaxed)
    memory.reset(arena.pointee.range)
  }

  /// The caller holds `lock`.
  private func removeFromCleanArenas(_ arena: StackArena.Pointer) {
    if idle.pointee.cleanArenas == arena {
      idle.pointee.cleanArenas = arena.pointee.nextClean
      return
    }
    var previous = idle.pointee.cleanArenas
    while let current = previous {
      if current.pointee.nextClean == arena {
        current.pointee.nextClean = arena.pointee.nextClean
        return
      }
      previous = current.pointee.nextClean
    }
  }

  // MARK: Growing

  /// Called without a lock. Other threads take and release stacks meanwhile.
  private func grow() throws(StackError) -> Stack {
    growth.lock()
    defer { growth.unlock() }
    while true {
      // At first: a stack that other threads made or released while this one waited. Then: one that it has made, if
      // they left any.
      if let stack = lock.withLock({ takeIdle() }) { return stack }
      try makeStacks()
    }
  }

  /// The caller holds `growth`. Makes at least one more clean slot.
  private func makeStacks() throws(StackError) {  // litmus: stack-live
    let arena = try unfinishedArena()
    let first = arena.pointee.guardedSlots.load(ordering: .relaxed)
    // No more than a quarter, so that the first coroutine does not pay for the guards of many.
    let wanted = min(StackPool.batch, max(1, arena.pointee.slotCount / 4), arena.pointee.slotCount - first)
    let made = geometry.isGuarded ? try makeGuards(first..<first + wanted, in: arena) : wanted
    if first + made == arena.pointee.slotCount {
      grown.pointee.unfinished.removeLast()
    }
    lock.withLock {
      arena.pointee.guardedSlots.store(first + made, ordering: .relaxed)
      for slot in first..<first + made {
        insertClean(slot, of: arena)
      }
    }
  }

  /// The caller holds `growth`. The last of `grown.unfinished`, if need be a new one.
  private func unfinishedArena() throws(StackError) -> StackArena.Pointer {
    if let arena = grown.pointee.unfinished.last { return arena }
    let (base, slotCount) = try reserve(slotCount: min(grown.pointee.nextSlotCount, geometry.slotsPerArena))
    grown.pointee.nextSlotCount = min(4 * slotCount, geometry.slotsPerArena)
    let arena = StackArena.Pointer.allocate(capacity: 1)
    arena.initialize(
      to: StackArena(
        owner: ObjectIdentifier(self), geometry: geometry, base: base, slotCount: slotCount,
        older: newestArena.load(ordering: .relaxed)))
    newestArena.store(arena, ordering: .releasing)  // litmus: end-result
    grown.pointee.unfinished.append(arena)
    return arena
  }

  /// Address space for as many slots, or for fewer, at least one: RLIMIT_AS and strict overcommit count reservations,
  /// and half of it may fit.
  private func reserve(slotCount: Int) throws(StackError) -> (base: UnsafeMutableRawPointer, slotCount: Int) {
    do throws(StackMemory.Failure) {
      return (try memory.reserve(slotCount * geometry.stride), slotCount)
    } catch {
      guard slotCount > 1 else { throw outOfMemory(requested: geometry.stride, code: error.code) }
    }
    return try reserve(slotCount: slotCount / 2)
  }

  /// The caller holds `growth`. Returns how many slots from the first on got their guards, at least one.
  private func makeGuards(_ slots: Range<Int>, in arena: StackArena.Pointer) throws(StackError) -> Int {
    if grown.pointee.guards != .mprotect {
      let (made, code): (Int, CInt) = arena.pointee.withGuards(of: slots) { ranges in
        memory.advise(ranges, CInt(COROUTINE_SYSTEM_MADV_GUARD_INSTALL))
      }
      if made > 0 {
        grown.pointee.guards = .madvise
        return made
      }
      guard code != ENOMEM else { throw outOfMemory(requested: geometry.gap, code: code) }
      // Not known to this kernel or sandbox; or not for locked memory, before Linux 6.15.
      guard requestedGuards == .automatic else { throw .guardRefused(code: code, guards: .madvise) }
    }
    return try makeGuardsByMapping(slots, in: arena)
  }

  private func makeGuardsByMapping(_ slots: Range<Int>, in arena: StackArena.Pointer) throws(StackError) -> Int {
    grown.pointee.guards = .mprotect
    let allowed = grown.pointee.mappings.take(slots.count, in: memory)
    guard allowed > 0 else {
      throw .mapLimit(limit: StackMemory.mapLimit(), requested: geometry.stackSize, live: liveCount)
    }
    for (made, slot) in slots.prefix(allowed).enumerated() {
      do throws(StackMemory.Failure) {
        try memory.protect(arena.pointee.guardRange(slot), PROT_NONE)
      } catch {
        // The slots before this one are good; it will be the first of the next attempt.
        if made > 0 { return made }
        // Taking rights away needs no memory but for the mappings themselves.
        throw error.code == ENOMEM
          ? .mapLimit(limit: StackMemory.mapLimit(), requested: geometry.stackSize, live: liveCount)
          : .guardRefused(code: error.code, guards: .mprotect)
      }
    }
    return allowed
  }

  private func outOfMemory(requested: Int, code: CInt) -> StackError {
    .outOfMemory(requested: requested, code: code, live: liveCount, reserved: reservedBytes)
  }
}
