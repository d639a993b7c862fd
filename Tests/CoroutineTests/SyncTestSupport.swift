import CCoroutine
import Coroutine
import Dispatch

/// Runs `body` in a coroutine on a serial queue of its own, where the order of all that happens is certain: what is
/// launched inside runs at the next suspension, in the order of the launches.
func serially<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
  try await Coroutine(on: DispatchQueue(label: "serial"), body).get()
}

/// How an operation ended, in a word. (Instead of `#expect(throws:)`, on whose closures inside another the compiler of
/// Swift 6.3 crashes.)
func outcome(_ body: () throws -> Void) -> String {
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

/// How much of something tests do that is the same again and again: a sanitizer, ten times slower, sees it sooner. So
/// that the whole suite does not wait for one test, a build without optimization may do less of it, too.
func amount(_ full: Int, debug: Int? = nil, sanitized: Int) -> Int {
  if coroutine_sanitizers_active() { return sanitized }
  #if DEBUG
    return debug ?? full
  #else
    return full
  #endif
}
