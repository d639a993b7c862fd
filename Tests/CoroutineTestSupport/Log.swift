/// Events in the order in which they happened, from any thread.
public final class Log: Sendable {
  private let entries = Guarded<[String]>([])
  public init() {}
  public func add(_ entry: String) { entries.withLock { $0.append(entry) } }
  public var all: [String] { entries.withLock { $0 } }
}
