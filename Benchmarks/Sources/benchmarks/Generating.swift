// SPDX-License-Identifier: Apache-2.0

import Coroutine
import Measurement

extension Workload {
  /// One element of a generator, beside the alternatives. The body and the consumer are in another module than the
  /// generator.
  static func generating() -> [Workload] {
    let bare: Promises = [.noAllocation, .noCallOut, .noLock]
    let counted = bare.subtracting(.noLock)
    return [
      elements("generator, Int", Numbers(), bare, others: alternatives(Numbers(), bare)),
      elements("generator, class reference, shared", SharedBox(), counted, others: streams(SharedBox())),
      elements("generator, class reference, fresh", FreshBoxes(), []),
      elements("generator, struct of 40 bytes", Records40(), bare),
      elements("generator, String of 40 bytes", SharedText(), counted),
    ]
  }

  /// - Parameter promises: what the generators promise with these elements.
  private static func elements<From: Source>(
    _ name: String, _ source: From, _ promises: Promises, others: [Subject] = []
  ) -> Workload {
    let generator = { (system: String, promises: Promises, reading: @escaping (Int) -> Reading) in
      Subject(
        system, backend: Coroutine.backendName, role: .runtime, promises: promises, expecting: source.sum,
        reading: reading)
    }
    let subjects = [
      generator("for … in", promises) { count in .timed { sumByForIn(source, count) } },
      generator("for … in, inside a Task", promises.intersection(.noAllocation)) { count in
        Surroundings.task { .timed { sumByForIn(source, count) } }
      },
    ]
    let plain = [
      Subject("hand-written iterator, not inlined", role: .plain, expecting: source.sum) {
        sumByHandWritten(source, $0)
      },
      Yardstick.subject(.plain),
    ]
    return Workload(name, subjects: subjects + others + plain)
  }

  /// A stream that computes each element, and one that another task fills.
  private static func streams<From: Source>(_ source: From) -> [Subject] {
    let stream = { (system: String, loop: @escaping @Sendable (Int) async -> Int) in
      Subject(system, role: .peer, expecting: source.sum) { count in
        Surroundings.task { await .timedAsync { await loop(count) } }
      }
    }
    return [
      stream("AsyncStream, unfolding") { await sumByUnfolding(source, $0) },
      stream("AsyncStream, filled by a Task") { await sumByStream(source, $0) },
      stream("AsyncChannel, filled by a Task") { await sumByAsyncChannel(source, $0) },
    ]
  }

  /// The runtime's other forms, the bare backends, and what other systems have for the same.
  ///
  /// - Parameter bare: what a form promises that only switches.
  private static func alternatives(_ source: Numbers, _ bare: Promises) -> [Subject] {
    let other = { (system: String, promises: Promises, loop: @escaping (Int) -> Int) in
      Subject(
        system, backend: Coroutine.backendName, role: .runtime, promises: promises, expecting: source.sum, loop: loop)
    }
    return [
      other("next()", bare) { count in sumByNext(source, count) },
      // Each yield has to look at the access that is open.
      other("for … in, while the consumer modifies a property", .noAllocation) { Consumer().sum(source, $0) },
      Subject(
        "for … in, inside a coroutine", backend: Coroutine.backendName, role: .runtime, promises: .noAllocation,
        expecting: source.sum
      ) { count in
        Surroundings.coroutine { .timed { sumByForIn(source, count) } }
      },
      other("ThrowingGenerator, next()", bare, sumByThrowing),
      other("TwoWayGenerator, next(Int)", .noAllocation, sumByTwoWay),
      other("for … in, through ten that yield from one another", .noAllocation, sumByDelegates),
      other(
        "AsyncGenerator, in a coroutine of the same thread", .hardlyAnyAllocation, sumByAsyncGenerator),
    ] + Backends.subjects(Counts()) + [
      .peer("boost::coroutines2", .boostContext, expecting: source.sum),
      .peer("boost::context::fiber", .boostContext, expecting: source.sum),
      .peer("C++20 generator", .cxx, expecting: source.sum),
      .peer("Go, goroutine and channel", .go, expecting: source.sum),
      Subject("AnyIterator", role: .plain, expecting: source.sum, loop: sumByAnyIterator),
    ] + streams(source)
  }
}

/// The numbers from a bare context.
private struct Counts: SubjectsOfBackend {
  func subjects<Backend: MeasuredBackend>(_ backend: Backend.Type, _ promises: Promises) -> [Subject] {
    [
      Subject(
        "bare context", backend: Backend.name, role: .backend, promises: promises, expecting: Numbers().sum
      ) { count in sumOfNumbers(backend, count) }
    ]
  }
}

/// An object that consumes a generator in a `mutating` call on one of its properties. An access is open then, which
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
