import Coroutine
import Dispatch
import Measurement

/// Where a loop runs whose time is taken inside: the start of the task or coroutine is no part of it.
enum Surroundings {
  /// Inside a `Task`, while the calling thread waits.
  static func task(_ reading: @escaping @Sendable () async -> Reading) -> Reading {
    let finished = DispatchSemaphore(value: 0)
    let result = Result()
    Task {
      result.reading = await reading()
      finished.signal()
    }
    finished.wait()
    return result.reading
  }

  /// Inside a coroutine on the pool, while the calling thread waits.
  static func coroutine(_ reading: @escaping @Sendable () -> Reading) -> Reading {
    do {
      return try Coroutine { reading() }.getBlocking()
    } catch {
      fatalError("a coroutine that only measures ended with \(error)")
    }
  }

  /// Written before the semaphore is signalled, read after it was waited for.
  private final class Result: @unchecked Sendable {
    var reading = Reading(nanoseconds: 0, computed: 0)
  }
}
