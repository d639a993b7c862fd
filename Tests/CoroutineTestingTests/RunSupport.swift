struct LostUpdate: Error {}

/// A value that coroutines of one thread share without a lock.
// Unchecked: a run has one thread.
final class Unlocked<Value>: @unchecked Sendable {
  var value: Value

  init(_ value: Value) { self.value = value }
}

/// What was recorded, in order. Of any type, and without the lock of the other modules' `Log`.
// Unchecked: a run has one thread.
final class Log<Element>: @unchecked Sendable {
  private(set) var all: [Element] = []

  func add(_ element: Element) { all.append(element) }
}
