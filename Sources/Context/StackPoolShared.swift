// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// The pools of the process: one for each size, made at the first request and kept for ever.
extension StackPool {
  /// Usable bytes of a stack by default: 256 KiB. Only what is touched costs memory.
  public static let defaultStackSize = 256 << 10

  /// The least that a coroutine gets: 64 KiB. The Swift runtime makes the metadata of generic types on the stack of the
  /// code that uses them first: 16 KiB for nested ones, 25 KiB for printing such a value, 40 KiB for a type's
  /// description.
  package static let leastCoroutineStackSize = 64 << 10

  /// The shared pool of stacks of `defaultStackSize` bytes.
  public static let `default` = StackPool(
    geometry: StackGeometry(
      allowedStackSize: defaultStackSize, allowedGuardSize: StackGeometry.defaultGuardSize, isGuarded: true),
    guards: .automatic)

  /// The shared pool of stacks of `stackSize` bytes, rounded up to whole pages, with the default guard: 64 KiB, or what the
  /// environment variable `COROUTINE_STACK_GUARD` says (`256K`, `1M`). The same pool for sizes that round to the same. Takes a
  /// lock where that pool is not among those that `known(stackSize:)` finds.
  ///
  /// - Throws: `StackError.impossibleSize`.
  public static func shared(stackSize: Int) throws(StackError) -> StackPool {
    if let known = known(stackSize: stackSize) { return known.takeUnretainedValue() }
    let geometry = try StackGeometry(stackSize: stackSize, guardSize: nil, isGuarded: true)
    return sharedPools.pool(geometry)
  }

  /// The shared pool of stacks of exactly that size, if it is one of the newest few. Takes no lock: this is on the way
  /// of each coroutine with a size of its own, and the dictionary's hash alone takes a hundred instructions. Not
  /// counted: pools live for ever.
  package static func known(stackSize: Int) -> Unmanaged<StackPool>? { sharedPools.known(stackSize) }

  /// All of them, the default one included, for debuggers. Takes a lock.
  package static var allShared: [StackPool] { sharedPools.all }

  /// The live stack of a shared pool whose guard contains `address`. Takes no lock and allocates nothing, once
  /// `allShared` was read: for signal handlers.
  package static func liveStack(guardedAt address: UInt) -> Stack? {
    sharedPools.liveStack(guardedAt: address)
  }

  /// The live stack of a shared pool whose usable part contains `address`. As `liveStack(guardedAt:)`.
  package static func liveStack(containing address: UInt) -> Stack? {
    sharedPools.liveStack(containing: address)
  }

  /// Where the shared pools are listed in memory, for readers of another process: a word that leads to the first entry of a
  /// list. An entry is two words, the pool's address and that of the next entry.
  package static var sharedList: UInt { sharedPools.address }

  private static let sharedPools = SharedPools()

  // Around a fork: the child can take and release stacks. (The child loses what the parent's other threads had. Its
  // pools decay by releases alone: they may record a thread for that which the child does not have.)
  fileprivate static func lockAllShared() { sharedPools.lockAll() }
  fileprivate static func unlockAllShared() { sharedPools.unlockAll() }
}

private final class SharedPools: Sendable {
  private let lock = Lock()
  /// Guarded by the lock.
  nonisolated(unsafe) private var pools: [Int: StackPool] = [:]
  /// The same for code that may take no lock: a list that only grows.
  private struct Entry {
    let pool: Unmanaged<StackPool>
    let older: UnsafeMutablePointer<Entry>?
  }
  // An atomic, and what it leads to never changes.
  nonisolated(unsafe) private let newest = Atomic<UnsafeMutablePointer<Entry>?>(nil)

  init() {
    add(.default)
    Fork.handle(
      prepare: { StackPool.lockAllShared() }, parent: { StackPool.unlockAllShared() },
      child: { StackPool.unlockAllShared() })
  }

  /// Takes the locks of all pools too: first those that are held for long. Until `unlockAll` no pool is added.
  func lockAll() {
    lock.lock()
    for pool in pools.values { pool.growth.lock() }
    for pool in pools.values { pool.lock.lock() }
  }

  func unlockAll() {
    for pool in pools.values {
      pool.lock.unlock()
      pool.growth.unlock()
    }
    lock.unlock()
  }

  var all: [StackPool] { lock.withLock { Array(pools.values) } }

  func pool(_ geometry: StackGeometry) -> StackPool {
    lock.withLock {
      if let pool = pools[geometry.stackSize] { return pool }
      let pool = StackPool(geometry: geometry, guards: .automatic)
      add(pool)
      return pool
    }
  }

  /// Most programs have two or three sizes; one that has hundreds does not look through all of them.
  private static let knownPools = 8

  func known(_ stackSize: Int) -> Unmanaged<StackPool>? {
    var next = newest.load(ordering: .acquiring)
    for _ in 0..<Self.knownPools {
      guard let entry = next else { break }
      let pool = entry.pointee.pool
      if pool._withUnsafeGuaranteedRef({ $0.stackSize }) == stackSize { return pool }
      next = entry.pointee.older
    }
    return nil
  }

  /// The caller holds `lock`, but for the first one.
  private func add(_ pool: StackPool) {
    pools[pool.stackSize] = pool
    let entry = UnsafeMutablePointer<Entry>.allocate(capacity: 1)
    // Complete before it can be found. Never taken out: pools live for ever.
    entry.initialize(to: Entry(pool: .passUnretained(pool), older: newest.load(ordering: .relaxed)))
    newest.store(entry, ordering: .releasing)
  }

  /// The list lives for ever, and so does its beginning: an atomic's address is that of its value.
  var address: UInt { withUnsafePointer(to: newest) { UInt(bitPattern: $0) } }

  func liveStack(guardedAt address: UInt) -> Stack? { first { $0.stack(guardedAt: address) } }

  func liveStack(containing address: UInt) -> Stack? { first { $0.stack(containing: address) } }

  /// What a pool answers, of the first that does.
  private func first(_ ask: (StackPool) -> Stack?) -> Stack? {
    var next = newest.load(ordering: .acquiring)
    while let entry = next {
      if let stack = entry.pointee.pool._withUnsafeGuaranteedRef(ask) { return stack }
      next = entry.pointee.older
    }
    return nil
  }
}
