import Synchronization

/// The pools of the process: one for each size, made when it is first asked for and kept for ever.
extension StackPool {
  /// Usable bytes of a stack unless said otherwise: 256 KiB. Memory is only what is touched.
  public static let defaultStackSize = 256 << 10

  /// The shared pool of stacks of `defaultStackSize` bytes.
  public static let `default` = StackPool(
    geometry: StackGeometry(
      allowedStackSize: defaultStackSize, allowedGuardSize: StackGeometry.defaultGuardSize, isGuarded: true),
    guards: .automatic)

  /// The shared pool of stacks of `stackSize` bytes, rounded up to whole pages, with the default guard. The same pool for
  /// sizes that round to the same. Takes a lock: keep the result where it is needed often.
  ///
  /// - Throws: `StackError.impossibleSize`.
  public static func shared(stackSize: Int) throws(StackError) -> StackPool {
    let geometry = try StackGeometry(stackSize: stackSize, guardSize: nil, isGuarded: true)
    return sharedPools.pool(geometry)
  }

  /// All of them, the default one included, for debuggers. Takes a lock.
  package static var allShared: [StackPool] { sharedPools.all }

  /// The live stack of a shared pool whose guard contains `address`. Takes no lock and allocates nothing, once `allShared`
  /// has been asked for: for signal handlers.
  package static func liveStack(guardedAt address: UInt) -> Stack? {
    sharedPools.liveStack(guardedAt: address)
  }

  /// Where the shared pools are listed in memory, for readers of another process: an array of references, and the word
  /// that says how many it has.
  package static var sharedList: (first: UInt, count: UInt) { sharedPools.addresses }

  private static let sharedPools = SharedPools()
}

private final class SharedPools: Sendable {
  private let lock = Lock()
  nonisolated(unsafe) private var pools: [Int: StackPool] = [:]  // guarded by `lock`
  /// The same for those who may take no lock: the first `listedCount` are there and stay. So many sizes suffice.
  private static let listLimit = 256
  // Immutable address; each place is written once, before `listedCount` says so.
  nonisolated(unsafe) private let listed = UnsafeMutablePointer<Unmanaged<StackPool>>.allocate(capacity: listLimit)
  private let listedCount = Atomic<Int>(0)

  init() {
    add(.default)
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

  /// Needs the lock, but for the first one.
  private func add(_ pool: StackPool) {
    pools[pool.stackSize] = pool
    let count = listedCount.load(ordering: .relaxed)
    guard count < Self.listLimit else { return }
    (listed + count).initialize(to: .passUnretained(pool))
    listedCount.store(count + 1, ordering: .releasing)
  }

  var addresses: (first: UInt, count: UInt) {
    // The list lives for ever, and so does the count: an atomic's address is that of its value.
    (UInt(bitPattern: listed), withUnsafePointer(to: listedCount) { UInt(bitPattern: $0) })
  }

  func liveStack(guardedAt address: UInt) -> Stack? {
    for index in 0..<listedCount.load(ordering: .acquiring) {
      if let stack = listed[index]._withUnsafeGuaranteedRef({ $0.stack(guardedAt: address) }) { return stack }
    }
    return nil
  }
}
