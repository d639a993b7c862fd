import Context

/// A value and its lock. Not `Synchronization.Mutex`, in which ThreadSanitizer sees races that are none.
// Unchecked: the value is used under the lock alone, and was sent here.
public final class Guarded<Value: ~Copyable>: @unchecked Sendable {
  private let lock = Lock()
  private var value: Value  // guarded by the lock
  public init(_ value: consuming sending Value) { self.value = value }
  public func withLock<Result: ~Copyable>(_ body: (inout Value) throws -> Result) rethrows -> Result {
    lock.lock()
    defer { lock.unlock() }
    return try body(&value)
  }
}
