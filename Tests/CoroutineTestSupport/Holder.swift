/// Shares an atomic value among closures.
public final class Holder<Value: ~Copyable & Sendable>: Sendable {
  public let value: Value
  public init(_ value: consuming Value) { self.value = value }
}
