/// The pools of the process: one for each size, made when it is first asked for and kept for ever.
extension StackPool {
  /// Usable bytes of a stack unless said otherwise: 256 KiB. Memory is only what is touched.
  public static let defaultStackSize = 256 << 10

  /// The shared pool of stacks of `defaultStackSize` bytes.
  public static let `default` = StackPool(
    geometry: StackGeometry(
      allowedStackSize: defaultStackSize, allowedGuardSize: StackGeometry.defaultGuardSize, isGuarded: true),
    guards: .automatic, residentIdle: nil, memory: .kernel)

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

  private static let sharedPools = SharedPools()
}

private final class SharedPools: Sendable {
  private let lock = Lock()
  nonisolated(unsafe) private var pools = [StackPool.default.stackSize: StackPool.default]  // guarded by `lock`

  var all: [StackPool] { lock.withLock { Array(pools.values) } }

  func pool(_ geometry: StackGeometry) -> StackPool {
    lock.withLock {
      if let pool = pools[geometry.stackSize] { return pool }
      let pool = StackPool(geometry: geometry, guards: .automatic, residentIdle: nil, memory: .kernel)
      pools[geometry.stackSize] = pool
      return pool
    }
  }
}
