import Synchronization

/// Counts, from any thread. It orders nothing else, so that it hides no race from ThreadSanitizer.
public final class Counter: Sendable {
  private let count = Atomic<Int>(0)
  public init() {}
  public var value: Int { count.load(ordering: .relaxed) }
  public func add() { count.add(1, ordering: .relaxed) }
}
