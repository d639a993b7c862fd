import Coroutine

/// The errors that were never handled, for tests that run side by side. The process has one handler, which they
/// share.
public enum LostErrors {
  private static let listeners = Guarded<[Int: @Sendable (any Error, String) -> Bool]>([:])
  private static let numbers = Guarded(0)

  private static let installed: Void = {
    let before = CoroutineErrors.unhandled
    CoroutineErrors.unhandled = { error, origin in
      let all = listeners.withLock { Array($0.values) }
      for listener in all where listener(error, origin) { return }
      before(error, origin)
    }
  }()

  /// Shows `listener` each lost error while `body` runs. The listener returns whether the error was its own.
  public static func observe<Result>(
    isolation: isolated (any Actor)? = #isolation,
    _ listener: @escaping @Sendable (any Error, String) -> Bool, during body: () async throws -> Result
  ) async rethrows -> Result {
    _ = installed
    let number = numbers.withLock { (number: inout Int) -> Int in
      number += 1
      return number
    }
    listeners.withLock { $0[number] = listener }
    defer { listeners.withLock { $0[number] = nil } }
    return try await body()
  }
}
