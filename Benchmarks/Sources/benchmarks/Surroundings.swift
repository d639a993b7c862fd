// SPDX-License-Identifier: Apache-2.0

import Coroutine
import Dispatch
import Measurement

/// The surroundings of a loop that is timed from inside, so that the start of the task or coroutine does not count.
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

extension Subject {
  /// A loop of the runtime that runs inside a coroutine.
  static func coroutine(
    _ system: String, promises: Promises = [], granularity: Int = 1, expecting: @escaping (Int) -> Int = { $0 },
    _ loop: @escaping @Sendable (Int) -> Int
  ) -> Subject {
    Subject(
      system, backend: Coroutine.backendName, role: .runtime, promises: promises, granularity: granularity,
      expecting: expecting
    ) { count in
      Surroundings.coroutine { .timed { loop(count) } }
    }
  }

  /// A loop of Swift's own concurrency that runs inside a `Task`: a peer.
  static func task(
    _ system: String, granularity: Int = 1, expecting: @escaping (Int) -> Int = { $0 },
    _ loop: @escaping @Sendable (Int) async -> Int
  ) -> Subject {
    Subject(system, role: .peer, granularity: granularity, expecting: expecting) { count in
      Surroundings.task { await .timedAsync { await loop(count) } }
    }
  }
}

extension Optional where Wrapped == Int {
  /// A number that makes the check of the loop's result fail, instead of an error that the loop can't use.
  var unwrapped: Int { self ?? .min / 2 }
}
