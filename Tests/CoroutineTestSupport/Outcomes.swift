import Coroutine
import Dispatch

/// Runs `body` in a coroutine on a serial queue of its own, so that the order of all events is certain. A coroutine
/// that is launched inside runs at the next suspension, in the order of the launches.
public func serially<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
  try await Coroutine(on: DispatchQueue(label: "serial"), body).get()
}

/// How an operation ended, in a word. (Instead of `#expect(throws:)`, which inside closures crashes the compiler of
/// Swift 6.3.)
public func outcome(_ body: () throws -> Void) -> String {
  do {
    try body()
    return "done"
  } catch is CancellationError {
    return "cancelled"
  } catch is TimeoutError {
    return "timed out"
  } catch {
    return "\(error)"
  }
}

/// A description of what `body` threw. (`#expect(throws:)` inside closures crashes the compiler of Swift 6.3.)
public func failure(_ body: () throws -> Void) -> String {
  do {
    try body()
    return "no error"
  } catch {
    return "\(error)"
  }
}
