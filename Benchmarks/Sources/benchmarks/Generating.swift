import ContextUcontext
import Coroutine
import Measurement

extension Workload {
  /// One element of a generator, whose body and consumer are in another module than the generator, beside what one would
  /// use instead.
  static func generating() -> [Workload] {
    // On the ucontext backend each switch calls the C library and the kernel.
    let counted: Promises = SelectedBackend.self == UcontextContext.self ? .noAllocation : [.noAllocation, .noCallOut]
    let bare = counted.union(.noLock)
    return [
      elements("generator, Int", Numbers(), bare, others: alternatives(Numbers())),
      elements("generator, class reference, shared", SharedBox(), counted),
      elements("generator, class reference, fresh", FreshBoxes(), []),
      elements("generator, struct of 40 bytes", Records40(), bare),
      elements("generator, String of 40 bytes", SharedText(), counted),
    ]
  }

  /// - Parameter promises: what the generators keep with these elements.
  private static func elements<From: Source>(
    _ name: String, _ source: From, _ promises: Promises, others: [Subject] = []
  ) -> Workload {
    let generator = { (system: String, promises: Promises, reading: @escaping (Int) -> Reading) in
      Subject(
        system, backend: Coroutine.backendName, comparedWith: Yardstick.name, promises: promises,
        expecting: source.sum, reading: reading)
    }
    let subjects = [
      generator("for … in", promises) { count in .timed { sumByForIn(source, count) } },
      generator("next()", promises) { count in .timed { sumByNext(source, count) } },
      generator("for … in, inside a Task", promises) { count in
        Surroundings.task { .timed { sumByForIn(source, count) } }
      },
      generator("for … in, inside a coroutine", promises) { count in
        Surroundings.coroutine { .timed { sumByForIn(source, count) } }
      },
      // The look at the accesses in progress goes through the C library's pthread_once.
      generator("for … in, while the consumer modifies a property", promises.subtracting(.noCallOut)) { count in
        .timed { Consumer().sum(source, count) }
      },
      Subject("hand-written iterator, not inlined", comparedWith: Yardstick.name, expecting: source.sum) {
        sumByHandWritten(source, $0)
      },
    ]
    return Workload(name, missing: Yardstick.missing, subjects: Yardstick.subjects + subjects + others)
  }

  /// What the library has for the same.
  private static func alternatives(_ source: Numbers) -> [Subject] {
    let stream = { (system: String, loop: @escaping @Sendable (Int) async -> Int) in
      Subject(system, comparedWith: Yardstick.name, expecting: source.sum) { count in
        Surroundings.task { await .timedAsync { await loop(count) } }
      }
    }
    let other = { (system: String, loop: @escaping (Int) -> Int) in
      Subject(
        system, backend: Coroutine.backendName, comparedWith: Yardstick.name, expecting: source.sum, loop: loop)
    }
    return [
      other("ThrowingGenerator, next()", sumByThrowing),
      other("TwoWayGenerator, next(Int)", sumByTwoWay),
      other("for … in, through ten that yield from one another", sumByDelegates),
      other("AsyncGenerator, in a coroutine of the same thread", sumByAsyncGenerator),
      Subject("AnyIterator", comparedWith: Yardstick.name, expecting: source.sum, loop: sumByAnyIterator),
      stream("AsyncStream, unfolding") { await sumByUnfolding(source, $0) },
      stream("AsyncStream, filled by a Task") { await sumByStream(source, $0) },
    ]
  }
}

/// An object that consumes a generator in a `mutating` call on one of its properties: an access is in progress then, which
/// every `yield` has to look at.
private final class Consumer {
  private var total = Total()

  private struct Total {
    var sum = 0

    @inline(never)
    mutating func take<From: Source>(_ source: From, _ count: Int) {
      sum = sumByForIn(source, count)
    }
  }

  @inline(never)
  func sum<From: Source>(_ source: From, _ count: Int) -> Int {
    total.take(source, count)
    return total.sum
  }
}
