// SPDX-License-Identifier: Apache-2.0

import CCoroutine
package import Context

/// The coroutines of the process, for debuggers: a snapshot that stays true while it is looked at.
///
/// Nothing is registered anywhere: a coroutine that has begun has a stack, the pools know their stacks, and what describes
/// the coroutine lies at a stack's upper end; one that has not begun lies in its scheduler's queue; one that begins is shown
/// by its worker. To be listed costs a coroutine that store, and one on a scheduler that is not a pool a slot among its
/// creator's until it begins (`UnstartedCoroutines`). Only the few instructions between a queue and that store can hide a
/// coroutine.
///
/// `Freeze` keeps those that are found from going on meanwhile.
package enum Inspection {
  /// Why a snapshot cannot be taken.
  package struct Unavailable: Error, CustomStringConvertible {
    package var description: String {
      "suspended coroutines can't be kept from running while they are looked at: membarrier(2) is missing (Linux 4.14) "
        + "or not allowed here"
    }
  }

  /// Passes the coroutines of the process to `body` one by one, in no order, then the generators that are suspended and
  /// have no consumer.
  ///
  /// `body` must not suspend, nor wait for a coroutine, nor keep its argument. One freeze at a time: a second caller
  /// waits for its end. It does not wait for `between` of the first one, which may wait for the second caller.
  ///
  /// - Parameters:
  ///   - batch: after this many the freeze ends for a moment, in which `between` is called: that may do anything. Facts
  ///     that are passed before and after that need not have been true at the same time.
  ///   - last: called when all have been passed, before the freeze ends. Then those of the last batch may still be
  ///     looked at, and one that was suspended when it was passed has not gone on.
  /// - Throws: `Unavailable`, or what the closures throw.
  package static func visitAll(
    batch: Int = .max, between: () throws -> Void = {}, last: () throws -> Void = {},
    _ body: (InspectedCoroutine) throws -> Void
  ) throws {
    var isFrozen = true
    try begin()
    defer { if isFrozen { end() } }
    latestPass &+= 1
    let pass = Pass(number: latestPass, isOneFreeze: batch == .max)
    var rest = batch
    var wasThawed = false
    func visit(_ inspected: InspectedCoroutine) throws {
      try body(inspected)
      rest -= 1
    }
    func pauseIfDue() throws {
      guard rest <= 0 else { return }
      end()
      isFrozen = false
      wasThawed = true
      try between()
      try begin()
      isFrozen = true
      rest = batch
    }
    for pool in StackPool.allShared {
      try pool.forEachLiveStack { stack in
        if let inspected = InspectedCoroutine(on: stack, pass: pass) { try visit(inspected) }
        try pauseIfDue()
      }
    }
    // Those that were created after this do not matter here, and could keep it from ever ending.
    let newest = CoroutineCore.newestID
    var latestNew: UInt64 = 0
    // There is no stack to read, and each part looks at all of them.
    while try visitUnstarted(after: &latestNew, upTo: newest, limit: max(rest, leastUnstarted), pass, visit) {
      try pauseIfDue()
    }
    if wasThawed {
      // One that began meanwhile may have a stack that was passed before.
      for pool in StackPool.allShared {
        try pool.forEachLiveStack { stack in
          rest -= 1
          if let late = InspectedCoroutine(on: stack, latecomerOf: pass, upTo: newest) { try visit(late) }
          try pauseIfDue()
        }
      }
    }
    try last()
  }

  /// What one coroutine waits for; `nil` if it isn't suspended, or coroutines can't be kept from running.
  package static func suspension(of core: CoroutineCore) -> CoroutineSuspension? {
    guard core.state.load(ordering: .relaxed) == .suspended else { return nil }
    guard (try? begin()) != nil else { return nil }
    defer { end() }
    // Its stack may have become another's since, or be unused and empty: the block that lies there shows whose it is.
    guard let block = unseen({ core.block }), let stack = StackPool.liveStack(containing: UInt(bitPattern: block)),
      let found = InspectedCoroutine(on: stack), found.id == core.id, !found.isGenerator,
      let operation = found.operation
    else { return nil }
    let since = coroutine_times_are_recorded() && found.since != 0 ? found.since : nil
    return CoroutineSuspension(
      SuspensionReason(operation), waitsFor: found.waitsFor, since: since, deadline: found.deadline)
  }

  private static func begin() throws(Unavailable) {
    guard Freeze.begin() else { throw Unavailable() }
  }

  private static func end() { Freeze.end() }

  /// How many coroutines that have not begun a part of a look takes at least: each part goes through all of them.
  private static var leastUnstarted: Int { 1 << 14 }

  /// Guarded by the freeze, which is one at a time.
  nonisolated(unsafe) private static var latestPass: UInt32 = 0

  /// One look at all coroutines, which marks those that it has seen.
  fileprivate struct Pass {
    let number: UInt32
    /// It marks their stacks, which lasts as long as the freeze. A pass of several freezes marks the coroutine instead:
    /// by marks on stacks, it would take what a detector has looked at meanwhile for seen by itself.
    let isOneFreeze: Bool
  }

  /// Visits up to `limit` unstarted coroutines with numbers above `last`, ascending, and sets `last`. Lower numbers only if
  /// no snapshot saw them: they were in no queue yet. (Which snapshot saw one can't be known: others may be taken between
  /// two parts of this one.)
  ///
  /// - Returns: whether there may be more.
  private static func visitUnstarted(
    after last: inout UInt64, upTo newest: UInt64, limit: Int, _ pass: Pass,
    _ visit: (InspectedCoroutine) throws -> Void
  ) throws -> Bool {
    var found = LeastUnstarted(limit: limit)
    let seen = last
    func take(_ core: CoroutineCore, isStarting: Bool = false) {
      let id = core.idOfUnstarted
      guard id <= newest else { return }
      // One that starts may be seen on its stack already. One that a later snapshot saw there has begun since.
      guard core.hasNotBegun ? id > seen || isUnseen(core, by: pass) : isStarting && isUnseen(core, by: pass) else {
        return
      }
      found.insert(core, id)
    }
    // Twice, for those that were moved from where it looked later to where it had looked before.
    for _ in 1...2 {
      for pool in PoolCore.all.all {
        pool.visitReady { take($0) }
        pool.visitStarting { take($0, isStarting: true) }
      }
    }
    // One in a slot has not begun even if it has got its stack meanwhile, where it was looked for too early.
    UnstartedCoroutines.visit { take(unsafeDowncast($0, to: CoroutineCore.self), isStarting: true) }
    let isComplete = found.trim()
    for (id, core) in found.all {
      try core._withUnsafeGuaranteedRef {
        note($0, seenBy: pass)
        try visit(InspectedCoroutine($0))
      }
      last = max(last, id)
    }
    return !isComplete
  }

  /// Whether neither this snapshot nor a later one has seen it. (One freeze looks once for the coroutines without a
  /// stack.)
  fileprivate static func isUnseen(_ core: CoroutineCore, by pass: Pass) -> Bool {
    if pass.isOneFreeze { return unseen { core.block.map { $0.pointee.seenBy != pass.number } ?? false } }
    return Int32(bitPattern: core.record.seenBy &- pass.number) < 0
  }

  fileprivate static func note(_ core: CoroutineCore, seenBy pass: Pass) {
    if !pass.isOneFreeze, isUnseen(core, by: pass) { core.record.seenBy = pass.number }
  }

  /// Of all that are inserted those with the least numbers, each once. It needs room for twice as many.
  private struct LeastUnstarted {
    // Alive as long as the freeze lasts.
    private(set) var all: [(id: UInt64, core: Unmanaged<CoroutineCore>)] = []
    private let limit: Int
    private var isComplete = true
    /// So many are sorted at once at least, however low the limit: sorting after every few would cost more than their room.
    private static var leastToSort: Int { 512 }

    init(limit: Int) { self.limit = limit }

    mutating func insert(_ core: CoroutineCore, _ id: UInt64) {
      all.append((id, Unmanaged.passUnretained(core)))
      if all.count / 2 >= max(limit, Self.leastToSort) { _ = trim() }
    }

    /// Sorts them. Whether nothing was ever left out.
    mutating func trim() -> Bool {
      all.sort { $0.id < $1.id }
      var count = 0
      for index in all.indices where index == 0 || all[index].id != all[index - 1].id {
        guard count < limit else {
          isComplete = false
          break
        }
        all[count] = all[index]
        count += 1
      }
      all.removeSubrange(count...)
      return isComplete
    }
  }

  /// Where a thread stands, then its resumer, that one's resumer, and so on, up to the thread's own stack: that segment
  /// has no stack. Writes them into `segments`, as many as fit, and returns how many. Shorter where a switch is under
  /// way.
  ///
  /// The thread must stand still. Takes no lock and allocates nothing.
  package static func followResumers(
    from start: ContextRegisters, into segments: UnsafeMutableBufferPointer<InspectedCoroutine.Segment>
  ) -> Int {
    unseen {
      var next: ContextRegisters? = start
      var count = 0
      while let registers = next, count < segments.count {
        let stack = StackPool.liveStack(containing: registers.stackPointer)
        segments.initializeElement(at: count, to: InspectedCoroutine.Segment(registers: registers, stack: stack))
        count += 1
        guard let stack else { break }
        let block = ControlBlock.address(on: stack)
        next = SelectedBackend.registers(of: ContextLink.resumer(ControlBlock.link(of: block)))
      }
      return count
    }
  }

  /// Whether a stack is that of a generator whose consumer has `other`, also by way of further generators. Takes no
  /// lock and allocates nothing.
  package static func isGenerator(on stack: Stack, runningFor other: Stack) -> Bool {
    unseen {
      var next = stack
      // Memory that was overwritten may lead round in circles.
      for _ in 0..<InspectedCoroutine.mostSegments {
        let block = ControlBlock.address(on: next)
        // As a plain word: without optimisation an atomic one of this type may ask for metadata, which are allocated.
        let state = UnsafeRawPointer(block).load(fromByteOffset: ControlBlock.stateOffset, as: UInt64.self)
        guard state == UInt64(ControlBlock.State.nested.rawValue),
          let resumer = SelectedBackend.registers(of: ContextLink.resumer(ControlBlock.link(of: block))),
          let outer = StackPool.liveStack(containing: resumer.stackPointer)
        else { return false }
        if outer == other { return true }
        next = outer
      }
      return false
    }
  }

  /// Reads what others may be writing: words, each of which is either the old or the new one.
  fileprivate static func unseen<Result>(_ read: () -> Result) -> Result {
    coroutine_sanitizer_begin_unseen()
    defer { coroutine_sanitizer_end_unseen() }
    return read()
  }
}

/// One coroutine, or generator, as long as the freeze lasts.
package struct InspectedCoroutine {
  package enum State: String, Sendable, Hashable {
    /// It has not begun: it has no stack.
    case new
    /// It could run, and waits for a thread.
    case ready
    case running
    /// A waker has to wake it.
    case suspended
  }

  /// Unique in the process; a generator has a number of its own.
  package let id: UInt64
  package let state: State
  /// `nil` for a generator, whose owner may be gone in the next moment.
  private let core: CoroutineCore?
  /// `nil` without one.
  package let stack: Stack?
  /// Its stacks and where each of them stands, from where it is suspended outwards: the generator that it runs, if any,
  /// then that generator's consumer, and so on, at last its own. An unwinder goes through each until it leaves that
  /// stack. Empty for one that has not begun, or runs.
  package let segments: [Segment]

  package struct Segment {
    package let registers: ContextRegisters
    /// `nil` for a thread's own.
    package let stack: Stack?

    /// Whether it is a generator's, and so a part of its consumer.
    package var isGenerators: Bool {
      guard let stack else { return false }
      return ControlBlock.address(on: stack).pointee.state.load(ordering: .relaxed) == .nested
    }
  }

  package var isGenerator: Bool { core == nil }

  /// One that has not begun.
  fileprivate init(_ core: CoroutineCore) {
    (id, state, self.core, stack, segments) = (core.idOfUnstarted, .new, core, nil, [])
  }

  /// The coroutine on a stack, if neither this pass nor a later one has seen it, and it is not too new.
  fileprivate init?(on stack: Stack, latecomerOf pass: Inspection.Pass, upTo newest: UInt64) {
    self.init(on: stack)
    guard let core, id <= newest, Inspection.isUnseen(core, by: pass) else { return nil }
    Inspection.note(core, seenBy: pass)
  }

  /// What is on a stack; `nil` if nothing is, or a generator that runs, which is a part of its consumer; or a coroutine
  /// that has been seen in this pass.
  fileprivate init?(on stack: Stack, pass: Inspection.Pass) {
    self.init(on: stack)
    guard let core else { return }
    if pass.isOneFreeze {
      ControlBlock.address(on: stack).pointee.seenBy = pass.number
    } else {
      guard core.record.seenBy != pass.number else { return nil }
      Inspection.note(core, seenBy: pass)
    }
  }

  /// What is on a stack. A block that is being made or taken down at this moment has none of the states, nor does it
  /// enter one.
  fileprivate init?(on stack: Stack) {
    let block = ControlBlock.address(on: stack)
    let blockState = block.pointee.state.load(ordering: .acquiring)  // litmus: freeze-ready, switch-state, end-result
    self.stack = stack
    switch blockState {
    case .ready: state = .ready
    case .suspended: state = .suspended
    case .running: state = .running
    case .nested:
      guard let registers = Inspection.unseen({ Self.registers(ofGenerator: block) }) else { return nil }
      id = Inspection.unseen { block.pointee.serial }
      (state, core, segments) = (.suspended, nil, Inspection.unseen { Self.segments(from: registers, to: stack) })
      return
    default: return nil
    }
    let core = CoroutineCore.core(of: block).takeUnretainedValue()
    id = core.id
    self.core = core
    let registers =
      state == .running ? nil : SelectedBackend.registers(of: ContextLink.own(ControlBlock.link(of: block)))
    segments = Self.segments(from: registers, to: stack)
  }

  /// The segments of what is suspended, from where it stands to its own stack. In between are those of generators that
  /// run, each for the resumer that is saved in it.
  private static func segments(from registers: ContextRegisters?, to own: Stack) -> [Segment] {
    var segments: [Segment] = []
    var next = registers
    while let registers = next, let stack = Self.stack(of: registers, expected: own) {
      segments.append(Segment(registers: registers, stack: stack))
      // A generator that changes meanwhile may lead round in circles.
      guard stack != own, segments.count < mostSegments else { break }
      let generator = ControlBlock.address(on: stack)
      next = SelectedBackend.registers(of: ContextLink.resumer(ControlBlock.link(of: generator)))
    }
    return segments
  }

  /// More generators than run inside of each other on any stack's resumers: what goes on after that leads round in circles.
  fileprivate static var mostSegments: Int { 10_000 }

  /// One that ran, as it is now: it may have suspended. `nil` if it has ended.
  package var lookedAtAgain: InspectedCoroutine? { stack.flatMap { InspectedCoroutine(on: $0) } }

  /// The stack on which something stands: mostly the coroutine's own.
  private static func stack(of registers: ContextRegisters, expected: Stack) -> Stack? {
    expected.contains(registers.stackPointer) ? expected : StackPool.liveStack(containing: registers.stackPointer)
  }
}

extension Inspection {
  private static let lastingLock = Lock()
  /// Guarded by the lock.
  nonisolated(unsafe) private static var lasting: Set<UInt64> = []

  /// Notes a coroutine of this package's own that is there for good: it is no leak.
  package static func noteLasting(_ id: UInt64) { lastingLock.withLock { _ = lasting.insert(id) } }
  package static func isLasting(_ id: UInt64) -> Bool { lastingLock.withLock { lasting.contains(id) } }
}

extension Inspection {
  /// Whether a timer might cancel a task.
  package static var hasTimedTasks: Bool { TaskTimeout.pending.load(ordering: .relaxed) > 0 }
  /// How many timers are armed, as of now.
  package static var timerCount: Int { TimerService.shared.count }
  /// How many coroutines have been created and have not ended.
  package static var liveCount: Int { CoroutineCore.liveCount }
}

// MARK: - What is known of it

extension InspectedCoroutine {
  /// Empty where none was given.
  package var name: String { core?.name ?? "" }

  /// What a suspended one does there where it waits; `nil` for others, and for generators.
  package var operation: WaitReason.Operation? { state == .suspended ? core?.waitReason?.operation : nil }

  /// What it waits at, as a mere name; 0: nothing.
  package var waitsAt: UInt {
    if case .cases(let wait)? = core?.waitReason?.subject { return UInt(bitPattern: wait) }
    return UInt(bitPattern: core?.waitReason?.object?.toOpaque())
  }

  /// The wakers that can end its wait. Looked at anew each time.
  package var wakers: Wakers { state == .suspended ? core?.waitReason?.wakers ?? .unknown : .unknown }

  /// Whether it is suspended, and no waker has ended its wait yet.
  package var isParked: Bool {
    guard state == .suspended, let core else { return false }
    return core.parking.isParked
  }

  /// Whether it waits for a tick, which has no deadline and comes all the same.
  package var waitsForTick: Bool { state == .suspended && core?.waitReason?.isTimed == true }

  /// Whether its wait ends by itself in time.
  package var hasTimeout: Bool { deadline != nil }

  /// Whether a timer is going to cancel what it does, or some part of that.
  package var isTimed: Bool { core?.isTimed ?? false }

  /// Whether a timer may end its wait; `nil`: none of its own, perhaps one of those around its scope.
  package var waitIsTimed: Bool? { core.flatMap { $0.waitIsTimed } }

  /// Whether it was cancelled as a whole.
  package var isCancelled: Bool { core?.isCancelled ?? false }

  /// What a suspended one waits for, in words.
  package var waitsFor: String {
    guard let core else { return WaitText.nextElement }
    return core.waitReason?.description ?? WaitText.turn
  }

  /// When it gives up waiting, in nanoseconds of the timers' clock.
  package var deadline: UInt64? {
    guard state == .suspended, let deadline = core?.waitReason?.deadline, deadline != WaitDeadline.never else {
      return nil
    }
    return deadline
  }

  /// When it became suspended or ready, in nanoseconds of the timers' clock; 0: unknown.
  package var since: UInt64 { core.map { core in Inspection.unseen { core.record.since } } ?? 0 }

  /// What schedules it, in words.
  package var scheduler: String {
    // Where one runs that is just moving elsewhere takes several words.
    core.map { state == .running ? $0.home.description : $0.scheduler.description } ?? ""
  }

  /// The coroutine that created it; 0: none did.
  package var parentID: UInt64 { core?.creatorID ?? 0 }

  /// The scope that waits for its end.
  package var scope: (name: String, id: UInt, ownerID: UInt64)? {
    guard let link = core.flatMap({ core in Inspection.unseen { core.family } }) else { return nil }
    // There is no other family.
    let scope = unsafeDowncast(link.takeUnretainedValue(), to: ScopeStorage.self)
    return (scope.name, UInt(bitPattern: link.toOpaque()), scope.ownerID)
  }

  /// Return addresses of the calls that created it, innermost first; empty if they were not recorded.
  package var creators: UnsafeBufferPointer<UInt> {
    core?.extras?._withUnsafeGuaranteedRef { $0.creators } ?? UnsafeBufferPointer(start: nil, count: 0)
  }

  /// Whether it has suspended inside of the initialiser of a static or global variable, whose lock its thread still has. (A debug build
  /// traps before it comes to that.) A look at each frame; functions without a frame pointer may hide it.
  package var isInsideInitialiser: Bool {
    segments.contains { segment in
      guard let stack = segment.stack else { return false }
      let frame = UnsafeRawPointer(bitPattern: segment.registers.framePointer)
      return coroutine_initialises_variable(frame, stack.limit, stack.top)
    }
  }

  /// The bytes of its stack above where it stands.
  package var stackUsed: Int? {
    guard let stack, let last = segments.last, last.stack == stack, stack.contains(last.registers.stackPointer) else {
      return nil
    }
    return Int(UInt(bitPattern: stack.top) - last.registers.stackPointer)
  }

  /// The bytes of its stack that it, or another one that had the stack before, has ever used. Some microseconds.
  package var stackPeak: Int? { stack.map { StackMemory.peak(of: $0) } }

  /// Whether a generator still stands where it stood: its consumer need not be a coroutine that is kept from running.
  package var isStillThere: Bool {
    guard isGenerator, let stack, let registers = segments.first?.registers else { return true }
    return Inspection.unseen {
      let block = ControlBlock.address(on: stack)
      return block.pointee.serial == id && block.pointee.state.load(ordering: .acquiring) == .nested
        && Self.registers(ofGenerator: block) == registers
    }
  }

  /// Where a generator is suspended; `nil` if it runs.
  private static func registers(ofGenerator block: UnsafeMutablePointer<ControlBlock>) -> ContextRegisters? {
    guard !SelectedBackend.isRunning(ControlBlock.link(of: block)) else { return nil }
    return SelectedBackend.registers(of: ContextLink.own(ControlBlock.link(of: block)))
  }
}

extension CoroutineCore {
  /// For one in a queue, that may have been put there just now, with no lock in between. All of it but its number was
  /// there before `newestID` reached its number.
  fileprivate final var idOfUnstarted: UInt64 { Inspection.unseen { id } }

  /// Whether it has neither a stack nor an end. During a freeze: one that is about to begin may get its block at this moment,
  /// and waits then; it is found, as new or on its stack.
  fileprivate final var hasNotBegun: Bool {
    Inspection.unseen { block == nil } && state.load(ordering: .relaxed) == .ready
  }
}

extension WaitReason {
  /// Whether a timer ends the wait, though it has no deadline. While the coroutine can't run.
  fileprivate var isTimed: Bool {
    switch subject {
    case .object(let object):
      return object._withUnsafeGuaranteedRef { $0.isTimed(operation) }
    case .cases(let wait):
      return wait.pointee.targets.contains { target in
        guard case .waitable(let waitable, let operation) = target else { return false }
        return waitable._withUnsafeGuaranteedRef { $0.isTimed(operation) }
      }
    }
  }
}
