// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// What a debugger, a test or a report wants to know of a pool.
///
/// The look-ups take no lock and allocate nothing, so they are safe in a signal handler, in a thread that stopped the
/// others, and while other threads allocate and release. They are safe because arenas are linked before their first
/// stack goes live and stay mapped as long as the pool lives: an answer may be out of date as soon as it is given, but
/// reading its memory never faults. They read bit sets that lie apart, never a byte of a stack: untouched pages stay
/// untouched.
extension StackPool {
  /// A view of the pool. The numbers are exact when no other thread uses the pool, else each was true at some moment.
  public struct Statistics: Sendable, Hashable {
    /// Stacks in use.
    public var live: Int

    /// Stacks that were made and are not in use.
    public var idle: Int

    /// The idle stacks that keep their memory for the next use.
    public var residentIdle: Int

    /// The memory of those in bytes, estimated from a sample of up to 64.
    public var residentIdleBytes: Int

    /// Reservations of address space.
    public var arenas: Int
    /// The bytes of those reservations, which take no memory until they are touched.
    public var reservedBytes: Int

    /// How the guards are made; `.automatic` until the first one is.
    public var guards: Guards
  }

  /// Counts and samples: some microseconds per arena and sampled stack. Not for a signal handler.
  public var statistics: Statistics {
    var arenas = 0
    var made = 0
    forEachArena { arena in
      arenas += 1
      made += arena.pointee.guardedSlots.load(ordering: .relaxed)
    }
    let live = liveCount
    let resident = residentIdle()
    return Statistics(
      live: live, idle: max(0, made - live), residentIdle: resident.count, residentIdleBytes: resident.bytes,
      arenas: arenas, reservedBytes: reservedBytes, guards: growth.withLock { grown.pointee.guards })
  }

  /// The live stack whose usable part contains `address`. Linear in the number of arenas.
  public func stack(containing address: UInt) -> Stack? {
    liveStack(around: address).flatMap { $0.contains(address) ? $0 : nil }
  }

  /// The live stack whose guard contains `address`: the one that overflowed, when `address` is what faulted. Linear in
  /// the number of arenas.
  public func stack(guardedAt address: UInt) -> Stack? {
    liveStack(around: address).flatMap { $0.guardRange.contains(address) ? $0 : nil }
  }

  /// Calls `body` with each stack in use, in no order. A stack that is in use all the while is visited once; one that is
  /// taken or given back meanwhile may be visited or not, and may be another's by the time `body` looks at it. `body` may
  /// allocate and release.
  public func forEachLiveStack<Failure: Error>(_ body: (Stack) throws(Failure) -> Void) throws(Failure) {
    var next = newestArena.load(ordering: .acquiring)  // litmus: end-result
    while let arena = next {
      try arena.pointee.forEachLiveStack(at: arena, body)
      next = arena.pointee.older
    }
  }

  /// Gives back the pages of a stack that are not in use yet, so that `StackMemory.peak` measures only its next user.
  /// About a microsecond.
  package func clean(_ stack: Stack) {
    withUnsafePointer(to: stack) { memory.discard(UnsafeBufferPointer(start: $0, count: 1), keeping: 0) }
  }

  /// What is wrong with the pool, or nil: every slot that has a guard is live, resident or clean, and only one of these;
  /// the list of clean arenas has those that have clean slots. For tests, while no other thread uses the pool.
  package func brokenInvariant() -> String? {
    growth.withLock {
      lock.withLock {
        let resident = Set(idle.pointee.resident.all)
        guard resident.count == idle.pointee.resident.count else { return "a stack is resident twice" }
        var listed: Set<StackArena.Pointer> = []
        var next = idle.pointee.cleanArenas
        while let arena = next {
          guard listed.insert(arena).inserted else { return "an arena is listed twice" }
          next = arena.pointee.nextClean
        }
        var broken: String?
        var (residentFound, missing) = (0, 0)
        forEachArena { arena in
          let guarded = arena.pointee.guardedSlots.load(ordering: .relaxed)
          var cleanFound = 0
          for slot in 0..<arena.pointee.slotCount {
            let isLive = arena.pointee.isLive(slot)
            let isClean = arena.pointee.isClean(slot)
            let isResident = resident.contains(arena.pointee.stack(slot, at: arena))
            cleanFound += isClean ? 1 : 0
            residentFound += isResident ? 1 : 0
            let roles = [isLive, isClean, isResident].count { $0 }
            if roles > (slot < guarded ? 1 : 0) { broken = "slot \(slot) of \(guarded) has \(roles) roles" }
            if roles == 0, slot < guarded { missing += 1 }
          }
          if cleanFound != arena.pointee.cleanCount { broken = "the clean slots are miscounted" }
          if (cleanFound > 0) != listed.contains(arena) { broken = "the list of clean arenas is wrong" }
        }
        if residentFound != resident.count { broken = "a resident stack is of no arena" }
        let trimming = idle.pointee.trimming
        if missing != trimming { broken = "\(missing) stacks are on no list, of which \(trimming) are being trimmed" }
        return broken
      }
    }
  }

  /// How many stacks' pages are being given back at this moment. For tests.
  package var trimmingCount: Int { lock.withLock { idle.pointee.trimming } }

  /// How many stacks are in use.
  package var liveCount: Int {
    var count = 0
    forEachArena { count += $0.pointee.liveCount }
    return count
  }

  var reservedBytes: Int {
    var bytes = 0
    forEachArena { bytes += $0.pointee.range.count }
    return bytes
  }

  func forEachArena(_ body: (StackArena.Pointer) -> Void) {
    var next = newestArena.load(ordering: .acquiring)
    while let arena = next {
      body(arena)
      next = arena.pointee.older
    }
  }

  private func liveStack(around address: UInt) -> Stack? {
    var next = newestArena.load(ordering: .acquiring)
    while let arena = next {
      if let stack = arena.pointee.liveStack(around: address, at: arena) { return stack }
      next = arena.pointee.older
    }
    return nil
  }

  /// The sample is looked at after the unlock: its stacks may be in use again by then, their memory is mapped anyway.
  private func residentIdle() -> (count: Int, bytes: Int) {
    withUnsafeTemporaryAllocation(of: Stack.self, capacity: 64) { buffer in
      let (count, sampled) = lock.withLock {
        (idle.pointee.resident.count, idle.pointee.resident.sample(into: buffer))
      }
      guard sampled > 0 else { return (count, 0) }
      let bytes = buffer[..<sampled].reduce(0) { $0 + StackMemory.residentBytes(of: $1) }
      return (count, bytes * count / sampled)
    }
  }
}

extension StackPool {
  /// Where pools and arenas keep the words that lead to their live stacks, for readers of another process; `nil`
  /// without reflection metadata.
  package struct DebugLayout {
    package let newestArena: UInt
    package let stackSize: UInt
    package let gap: UInt
    package let base: UInt
    package let slotCount: UInt
    package let older: UInt
    package let live: UInt

    package init?() {
      guard let newestArena = fieldOffset("newestArena", in: StackPool.self),
        let geometry = fieldOffset("geometry", in: StackArena.self),
        let stackSize = fieldOffset("stackSize", in: StackGeometry.self),
        let gap = fieldOffset("gap", in: StackGeometry.self), let base = fieldOffset("base", in: StackArena.self),
        let slotCount = fieldOffset("slotCount", in: StackArena.self),
        let older = fieldOffset("older", in: StackArena.self), let live = fieldOffset("live", in: StackArena.self)
      else { return nil }
      self.newestArena = newestArena
      self.stackSize = geometry + stackSize
      self.gap = geometry + gap
      (self.base, self.slotCount, self.older, self.live) = (base, slotCount, older, live)
    }
  }
}
