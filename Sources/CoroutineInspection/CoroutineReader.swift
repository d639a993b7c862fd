// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import CCoroutineInspection
import Context
import Coroutine
import CoroutineDebug
import CoroutineLibc

/// Finds the coroutines in a process's memory, and what they wait for, by `coroutine_debug_layout`: in the same way as
/// `Inspection` in its own process. The process stands still meanwhile.
///
/// What can't be read is left out: the process may have been stopped in the middle of anything. Nor is the memory
/// trusted: a process that crashed may have overwritten it before. Addresses wrap, and no list is followed in a circle.
struct CoroutineReader {
  typealias Unreadable = TargetMemory.Unreadable

  let memory: TargetMemory
  let layout: coroutine_debug_layout
  private(set) var stacks = StackTable()
  private let frameLimit: Int
  private let readsPeaks: Bool
  /// In nanoseconds of the timers' clock; `nil` where that time is not known.
  private let now: UInt64?
  private var arenas: [Arena] = []
  /// Where the threads stand that run coroutines, and their resumers.
  private var threads: [[Segment]] = []
  /// By the limit of a stack: the thread that stands on it, or on what it resumed, and where among that thread's segments.
  private var threadsOnStacks: [UInt64: (thread: Int, segment: Int)] = [:]
  private var seen: Set<UInt64> = []
  /// What was said of the things that coroutines wait at.
  private var descriptions: [Waited: String] = [:]
  private var schedulers: [UInt64: String] = [:]
  private let waitables: WaitableReader

  private struct Waited: Hashable {
    let object: UInt64
    let operation: UInt8
  }

  /// A reservation of stacks: see `StackArena`.
  private struct Arena {
    let base: UInt64
    let stackSize: UInt64
    let gap: UInt64
    let slots: Int
    let live: UInt64

    var stride: UInt64 { stackSize + gap }
    var end: UInt64 { base + UInt64(slots) * stride }

    /// Whether it can be one: only then its numbers can be reckoned with.
    var isPossible: Bool {
      (base | stackSize | gap) & 4095 == 0 && base < 1 << 62 && 4096..<1 << 37 ~= stackSize && gap < 1 << 37
        && 0..<1 << 24 ~= slots
    }

    func stack(_ slot: Int) -> Stack {
      let limit = base + UInt64(slot) * stride + gap
      return Stack(limit: limit, top: limit + stackSize, color: UInt64(slot & 15))
    }
  }

  private struct Stack: Equatable {
    let limit: UInt64
    let top: UInt64
    let color: UInt64
  }

  private struct Segment {
    let registers: ContextRegisters
    /// `nil` for a thread's own.
    let stack: Stack?
    /// Whether a thread stands there, and has not switched away.
    var isInterrupted = false
  }

  /// So many generators that wait for each other would fill the memory.
  private static let deepest = 10_000
  /// How many cases of a select are read at most: in a dump that is damaged the count may be any number.
  private static let mostCases = 10_000
  /// How many bytes of text the cases of a select make before the rest is only counted.
  private static let longestCases = 16_384

  init(
    _ memory: TargetMemory, _ layout: coroutine_debug_layout, frameLimit: Int, stackPeaks: Bool, knowsTime: Bool
  ) {
    readsPeaks = stackPeaks
    self.memory = memory
    self.layout = layout
    self.frameLimit = frameLimit
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    now = knowsTime ? UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec) : nil
    waitables = WaitableReader(memory, layout)
  }

  /// Passes each coroutine to `body`, in no order, then the suspended generators.
  mutating func readAll(_ body: (CoroutineBacktrace) -> Void) throws(Unreadable) {
    arenas = try findArenas()
    threads = findThreads()
    for (index, segments) in threads.enumerated() {
      for (position, segment) in segments.enumerated() {
        if let stack = segment.stack, threadsOnStacks[stack.limit] == nil {
          threadsOnStacks[stack.limit] = (index, position)
        }
      }
    }
    for arena in arenas {
      // gdb's gcore leaves out the rest of a mapping behind the first guard in it, and says so only in passing.
      if now == nil, try isBlank(arena) { throw Unreadable() }
      var live = LiveSlots(arena)
      while let stack = try live.next(in: memory) {
        if let found = try? onStack(stack) { body(found) }
      }
    }
    // By their numbers, as in dumps of the own process: the slots of several threads are in no order.
    let waiting = unstarted().map { (id: (try? memory.word($0 &+ layout.core_id)) ?? 0, core: $0) }
    for (_, core) in waiting.sorted(by: { $0.id < $1.id }) {
      if let found = try? unstartedCoroutine(core) { body(found) }
    }
  }

  // MARK: Stacks

  private func findArenas() throws(Unreadable) -> [Arena] {
    var arenas: [Arena] = []
    var visited: Set<UInt64> = []
    var entry = try memory.word(layout.stack_pools)
    while entry != 0 {
      var next = try memory.word(memory.word(entry) &+ layout.pool_newest_arena)
      guard visited.insert(entry).inserted else { throw Unreadable() }
      entry = try memory.word(entry &+ 8)
      while next != 0 {
        let arena = Arena(
          base: try memory.word(next &+ layout.arena_base), stackSize: try memory.word(next &+ layout.arena_stack_size),
          gap: try memory.word(next &+ layout.arena_gap), slots: try memory.int(next &+ layout.arena_slots),
          live: try memory.word(next &+ layout.arena_live))
        guard arena.isPossible, visited.insert(next).inserted else { throw Unreadable() }
        arenas.append(arena)
        next = try memory.word(next &+ layout.arena_older)
      }
    }
    arenas.sort { $0.base < $1.base }
    for (arena, next) in zip(arenas, arenas.dropFirst()) where arena.end > next.base { throw Unreadable() }
    return arenas
  }

  /// The stacks of an arena that are in use, one after the other: overwritten memory may claim more of them than there
  /// is room for.
  private struct LiveSlots {
    private let arena: Arena
    private var word = 0
    private var bits: UInt64 = 0

    init(_ arena: Arena) { self.arena = arena }

    mutating func next(in memory: TargetMemory) throws(Unreadable) -> Stack? {
      while bits == 0 {
        guard word < (arena.slots + 63) / 64 else { return nil }
        bits = try memory.word(arena.live &+ UInt64(word) * 8)
        word += 1
      }
      defer { bits &= bits - 1 }
      let slot = (word - 1) * 64 + bits.trailingZeroBitCount
      return slot < arena.slots ? arena.stack(slot) : nil
    }
  }

  /// Whether stacks of an arena are in use, and none of them has anything on it.
  private func isBlank(_ arena: Arena) throws(Unreadable) -> Bool {
    var live = LiveSlots(arena)
    var isUsed = false
    while let stack = try live.next(in: memory) {
      guard (try? isBlank(stack)) ?? true else { return false }
      isUsed = true
    }
    return isUsed
  }

  /// The live stack that contains an address.
  private func stack(containing address: UInt64) throws(Unreadable) -> Stack? {
    // They are in the order of their addresses: the last one that begins there or before.
    var (low, high) = (0, arenas.count)
    while low < high {
      let middle = low + (high - low) / 2
      if arenas[middle].base <= address { low = middle + 1 } else { high = middle }
    }
    guard low > 0, case let arena = arenas[low - 1], address < arena.end else { return nil }
    let slot = Int((address - arena.base) / arena.stride)
    let bits = try memory.word(arena.live &+ UInt64(slot / 64) * 8)
    let stack = arena.stack(slot)
    return bits & 1 << (slot % 64) != 0 && stack.limit <= address && address < stack.top ? stack : nil
  }

  /// Whether its uppermost part, where the block is, was never written to.
  private func isBlank(_ stack: Stack) throws(Unreadable) -> Bool {
    for address in stride(from: stack.top - 2048, to: stack.top, by: 8) {
      guard try memory.word(address) == 0 else { return false }
    }
    return true
  }

  private func block(on stack: Stack) -> UInt64 {
    (stack.top &- stack.color &* layout.block_color &- layout.block_size) & ~63
  }

  /// The registers that a context holds; `nil` if it holds none.
  private func registers(ofContext context: UInt64) throws(Unreadable) -> ContextRegisters? {
    guard layout.context_is_known != 0, try memory.word(context &+ layout.context_live) != 0 else { return nil }
    let isIndirect = layout.context_indirect != 0
    let base = isIndirect ? try memory.word(context) : context
    return ContextRegisters(
      programCounter: UInt(try memory.word(base &+ layout.context_pc)),
      stackPointer: UInt(isIndirect ? base &+ layout.context_sp : try memory.word(base &+ layout.context_sp)),
      framePointer: UInt(try memory.word(base &+ layout.context_fp)),
      baseRegister: layout.context_base == .max ? 0 : UInt(try memory.word(base &+ layout.context_base)))
  }

  // MARK: What is on a stack

  /// The coroutine that has a stack, or the suspended generator; `nil` if there is neither, or it was seen.
  private mutating func onStack(_ stack: Stack) throws(Unreadable) -> CoroutineBacktrace? {
    let block = block(on: stack)
    let state: CoroutineBacktrace.State
    switch try memory.word(block &+ layout.block_state) {
    case layout.state_ready: state = .ready
    case layout.state_suspended: state = .suspended
    case layout.state_running: state = .running
    case layout.state_generator: return try generator(block, on: stack)
    default: return nil
    }
    let core = try memory.word(block &+ layout.block_owner)
    guard seen.insert(core).inserted else { return nil }
    var backtrace = try describe(core, state)
    var segments = try state == .running ? running(on: stack) : []
    if state != .running { segments = try suspended(at: registers(ofContext: block), on: stack) }
    walk(segments, own: stack, into: &backtrace)
    try addCreators(of: core, to: &backtrace)
    return backtrace
  }

  /// The segments of what is suspended, from where it stands to its own stack. In between are those of generators that
  /// run, each for the resumer that is saved in it.
  private func suspended(at registers: ContextRegisters?, on own: Stack) throws(Unreadable) -> [Segment] {
    var segments: [Segment] = []
    var next = registers
    while let saved = next, let stack = try stack(containing: UInt64(saved.stackPointer)) {
      segments.append(Segment(registers: saved, stack: stack))
      guard stack != own, segments.count < Self.deepest else { break }
      next = try self.registers(ofContext: block(on: stack) &+ layout.context_size)
    }
    return segments
  }

  /// The threads that stand on a stack of the pools', each followed by its resumer, that one's resumer, and so on, up
  /// to its own stack: as `Inspection.followResumers`.
  private func findThreads() -> [[Segment]] {
    (0..<coroutine_target_thread_count(memory.target)).compactMap { index in
      var words = [UInt](repeating: 0, count: 4)
      guard coroutine_target_thread_registers(memory.target, index, &words) else { return nil }
      var next: ContextRegisters? = ContextRegisters(
        programCounter: words[0], stackPointer: words[1], framePointer: words[2], baseRegister: words[3])
      var segments: [Segment] = []
      while let registers = next, segments.count < Self.deepest {
        let stack = try? self.stack(containing: UInt64(registers.stackPointer))
        segments.append(Segment(registers: registers, stack: stack, isInterrupted: segments.isEmpty))
        next = stack.flatMap { try? self.registers(ofContext: block(on: $0) &+ layout.context_size) }
      }
      return segments.first?.stack == nil ? nil : segments
    }
  }

  /// The coroutine that has this stack, with the generators that it runs, and its resumers. Empty if no thread stands
  /// there.
  private func running(on stack: Stack) throws(Unreadable) -> [Segment] {
    guard let (thread, own) = threadsOnStacks[stack.limit] else { return [] }
    let segments = threads[thread]
    var first = own
    while first > 0, let below = segments[first - 1].stack,
      try memory.word(block(on: below) &+ layout.block_state) == layout.state_generator
    {
      first -= 1
    }
    return Array(segments[first...])
  }

  private mutating func generator(_ block: UInt64, on stack: Stack) throws(Unreadable) -> CoroutineBacktrace? {
    // One that runs is a part of its consumer.
    guard try registers(ofContext: block &+ layout.context_size) == nil, let own = try registers(ofContext: block)
    else { return nil }
    let id = try memory.word(block &+ layout.block_serial)
    var backtrace = CoroutineBacktrace(id: id, name: "", state: .suspended)
    backtrace.isGenerator = true
    backtrace.waitsFor = WaitText.nextElement
    walk(try suspended(at: own, on: stack), own: stack, into: &backtrace)
    return backtrace
  }

  private mutating func walk(_ segments: [Segment], own stack: Stack, into backtrace: inout CoroutineBacktrace) {
    let number = withUnsafeTemporaryAllocation(of: UInt.self, capacity: frameLimit + 1) { buffer in
      var count = 0
      var isCut = false
      for segment in segments where count < buffer.count {
        let registers = segment.registers
        let words = [
          registers.programCounter, registers.stackPointer, registers.framePointer, registers.baseRegister,
        ]
        let top = segment.stack.map { UInt($0.top) } ?? UInt.max & ~15
        count += coroutine_target_walk(
          memory.target, words, top, segment.isInterrupted, buffer.baseAddress! + count, buffer.count - count,
          &isCut)
      }
      backtrace.isTruncated = count > frameLimit || isCut
      return stacks.number(of: UnsafeBufferPointer(rebasing: buffer[..<min(count, frameLimit)]))
    }
    backtrace.stackNumber = number
    backtrace.stackSize = Int(stack.top - stack.limit)
    if readsPeaks { backtrace.stackPeak = Int(coroutine_target_stack_peak(memory.target, stack.limit, stack.top)) }
    if let segment = segments.first(where: { $0.stack == stack }) {
      backtrace.stackUsed = Int(stack.top - UInt64(segment.registers.stackPointer))
    }
  }

  // MARK: Those that have not begun

  /// Objects of coroutines in the queues of pools, and in the rows of those on other schedulers.
  private func unstarted() -> [UInt64] {
    var found: [UInt64] = []
    /// A list may be in the middle of a change.
    func follow(_ first: UInt64, _ link: UInt64) {
      var next = first
      var visited: Set<UInt64> = []
      while next != 0, visited.insert(next).inserted {
        found.append(next)
        guard let following = try? memory.word(next &+ link) else { return }
        next = following
      }
    }
    var pool = (try? memory.word(layout.thread_pools)) ?? 0
    var pools: Set<UInt64> = []
    while pool != 0, pools.insert(pool).inserted, let core = try? memory.word(pool &+ 8) {
      follow((try? memory.word(core &+ layout.threads_global_first)) ?? 0, layout.core_next_ready)
      for worker in (try? memory.words(ofArray: core &+ layout.threads_workers)) ?? [] {
        for offset in [layout.worker_slot, layout.worker_starting] {
          if let core = try? memory.word(worker &+ offset), core != 0 { found.append(core) }
        }
        found += (try? ring(of: worker)) ?? []
        follow((try? memory.word(worker &+ layout.worker_line_first)) ?? 0, layout.core_next_ready)
      }
      pool = (try? memory.word(pool)) ?? 0
    }
    var row = (try? memory.word(layout.unstarted_rows)) ?? 0
    var rows: Set<UInt64> = []
    while row != 0, rows.insert(row).inserted, let count = try? memory.word(row &+ layout.row_count) {
      for index in 0..<count {
        guard let core = try? memory.word(row &+ layout.row_slots &+ index &* 8) else { break }
        if core != 0 { found.append(core) }
      }
      row = (try? memory.word(row &+ layout.row_next)) ?? 0
    }
    return found
  }

  private func ring(of worker: UInt64) throws(Unreadable) -> [UInt64] {
    let slots = try memory.word(worker &+ layout.worker_ring_slots)
    let head = try memory.load(worker &+ layout.worker_ring_head, as: UInt32.self)
    let tail = try memory.load(worker &+ layout.worker_ring_tail, as: UInt32.self)
    let capacity = UInt32(clamping: layout.worker_ring_capacity)
    var found: [UInt64] = []
    for index in 0..<min(tail &- head, capacity) {
      let core = try memory.word(slots &+ UInt64((head &+ index) % capacity) * 8)
      if core != 0 { found.append(core) }
    }
    return found
  }

  private mutating func unstartedCoroutine(_ core: UInt64) throws(Unreadable) -> CoroutineBacktrace? {
    // One that begins gets its block before that has a state, by which it would be found on its stack.
    let block = try memory.word(core &+ layout.core_block)
    let blockState = block == 0 ? 0 : try memory.word(block &+ layout.block_state)
    guard blockState == 0,
      UInt64(try memory.byte(core &+ layout.core_state)) == layout.core_state_ready, seen.insert(core).inserted
    else { return nil }
    var backtrace = try describe(core, .new)
    backtrace.stackNumber = stacks.number(of: UnsafeBufferPointer(start: nil, count: 0))
    try addCreators(of: core, to: &backtrace)
    return backtrace
  }

  // MARK: What is known of a coroutine

  private mutating func describe(
    _ core: UInt64, _ state: CoroutineBacktrace.State
  ) throws(Unreadable) -> CoroutineBacktrace {
    var backtrace = CoroutineBacktrace(
      id: try memory.word(core &+ layout.core_id), name: try memory.string(core &+ layout.core_name), state: state)
    if state == .suspended { try describeWait(of: core, in: &backtrace) }
    let since = try memory.word(core &+ layout.core_since)
    if let now, since != 0 { backtrace.duration = .nanoseconds(now > since ? Int64(now - since) : 0) }
    backtrace.scheduler = (try? scheduler(of: core, state)) ?? ""
    let extras = try memory.word(core &+ layout.core_extras)
    backtrace.isCancelled = extras == 0 ? false : try memory.word(extras &+ layout.extras_cancelled) != 0
    let parent = try memory.word(core &+ layout.core_creator)
    backtrace.parentID = parent == 0 ? nil : parent
    let scope = try memory.word(core &+ layout.core_scope)
    if scope != 0 {
      let owner = try memory.word(scope &+ layout.scope_owner)
      backtrace.scope = CoroutineBacktrace.Scope(
        id: UInt(scope), name: try memory.string(scope &+ layout.scope_name), ownerID: owner == 0 ? nil : owner)
    }
    return backtrace
  }

  private mutating func addCreators(of core: UInt64, to backtrace: inout CoroutineBacktrace) throws(Unreadable) {
    let extras = try memory.word(core &+ layout.core_extras)
    guard extras != 0 else { return }
    let creation = try memory.word(extras &+ layout.extras_creation)
    guard creation != 0 else { return }
    var creators: [UInt] = []
    for index in 0..<min(try memory.word(creation), 1000) {
      creators.append(UInt(try memory.word(creation &+ 8 &+ index * 8)))
    }
    guard !creators.isEmpty else { return }
    backtrace.creatorsNumber = creators.withUnsafeBufferPointer { stacks.number(of: $0) }
  }

  private mutating func describeWait(
    of core: UInt64, in backtrace: inout CoroutineBacktrace
  ) throws(Unreadable) {
    let tag = UInt64(try memory.byte(core &+ layout.core_subject_tag))
    let subject = try memory.word(core &+ layout.core_subject)
    backtrace.waitsFor = WaitText.turn
    guard tag == layout.subject_object || tag == layout.subject_cases,
      let operation = WaitReason.Operation(rawValue: try memory.byte(core &+ layout.core_operation))
    else { return }
    backtrace.operation = "\(operation)"
    let deadline = try memory.word(core &+ layout.core_deadline)
    if let now, deadline != WaitDeadline.never {
      backtrace.timeLeft = .nanoseconds(deadline > now ? Int64(clamping: deadline - now) : 0)
    }
    if tag == layout.subject_object {
      backtrace.waitsFor = description(of: subject, operation)
    } else {
      backtrace.waitsFor = (try? cases(of: subject)) ?? "select"
    }
  }

  /// A select's cases, in words.
  private mutating func cases(of wait: UInt64) throws(Unreadable) -> String {
    let (first, count) = (try memory.word(wait &+ layout.select_targets), try memory.int(wait &+ layout.select_count))
    var texts: [String] = []
    var length = 0
    for index in 0..<max(0, min(count, Self.mostCases)) {
      // A stranger's dump may have the same long name ten thousand times, which costs it no memory.
      if let last = texts.last { length += last.utf8.count }
      guard length < Self.longestCases else {
        texts.append("\(count - index) more")
        break
      }
      let target = first &+ UInt64(index) &* layout.target_stride
      let tag = UInt64(try memory.byte(target &+ layout.target_tag))
      if tag == layout.target_waitable,
        let operation = WaitReason.Operation(rawValue: try memory.byte(target &+ layout.target_operation))
      {
        texts.append(description(of: try memory.word(target), operation))
      } else if tag == layout.target_timeout {
        let timeout = try memory.load(target, as: Duration.self)
        // Others have no components, nor a description.
        guard Duration.seconds(Int64.min)...Duration.seconds(Int64.max) ~= timeout else { throw Unreadable() }
        texts.append(WaitText.timeout(timeout))
      } else if tag == layout.target_deadline {
        texts.append(WaitText.deadline)
      } else {
        texts.append(WaitText.noCase)
      }
    }
    return WaitText.firstOf(texts)
  }

  private mutating func description(of object: UInt64, _ operation: WaitReason.Operation) -> String {
    let waited = Waited(object: object, operation: operation.rawValue)
    if let known = descriptions[waited] { return known }
    let description = (try? waitables.text(operation, at: object)) ?? "\(operation)"
    descriptions[waited] = description
    return description
  }

  /// What schedules it, in words.
  private mutating func scheduler(of core: UInt64, _ state: CoroutineBacktrace.State) throws(Unreadable) -> String {
    let extras = state == .running ? 0 : try memory.word(core &+ layout.core_extras)
    let visiting = extras == 0 ? layout.scheduler_none : try memory.word(extras &+ layout.extras_visiting)
    let reference = visiting == layout.scheduler_none ? try memory.word(core &+ layout.core_home) : visiting
    if let known = schedulers[reference] { return known }
    let text = try describeScheduler(reference)
    schedulers[reference] = text
    return text
  }

  private func describeScheduler(_ reference: UInt64) throws(Unreadable) -> String {
    guard reference != layout.scheduler_shared_pool else { return SchedulerText.sharedPool }
    let object = reference & ~layout.scheduler_mask
    switch reference & layout.scheduler_mask {
    case layout.scheduler_pool:
      let pool = try memory.word(object &+ layout.thread_pool_core)
      guard try memory.word(pool &+ layout.threads_host) == layout.threads_host_own else {
        return SchedulerText.callingThread
      }
      return SchedulerText.pool(try memory.int(pool &+ layout.threads_count))
    case layout.scheduler_queue: return SchedulerText.queue(try memory.string(object &+ layout.queue_label))
    case layout.scheduler_other: return try memory.className(of: memory.word(object &+ layout.other_object))
    default: return ""
    }
  }
}
