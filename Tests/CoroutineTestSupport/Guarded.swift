import Context

/// Events in the order in which they happened, from any thread.
public final class Log: Sendable {
  private let entries = Guarded<[String]>([])
  public init() {}
  public func add(_ entry: String) { entries.withLock { $0.append(entry) } }
  public var all: [String] { entries.withLock { $0 } }
}

/// A value and its lock. Not `Synchronization.Mutex`, in which ThreadSanitizer sees races that are none.
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

/// Shares an atomic value among closures.
public final class Holder<Value: ~Copyable & Sendable>: Sendable {
  public let value: Value
  public init(_ value: consuming Value) { self.value = value }
}
