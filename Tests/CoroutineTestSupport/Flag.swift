import Synchronization

/// Is set once, and seen from any thread. Who sees it sees what was done before it was set.
public final class Flag: Sendable {
  private let value = Atomic<Bool>(false)
  public init() {}
  public var isSet: Bool { value.load(ordering: .acquiring) }
  public func set() { value.store(true, ordering: .releasing) }
}
