// SPDX-License-Identifier: Apache-2.0

// Waiting for several promises and coroutines at once. They go on side by side in any case: these functions only wait.
//
// A caller that is cancelled stops waiting, and throws a `CancellationError` if nothing is lost by that; the promises and
// coroutines go on, as they do when a single `get()` is cancelled. Each call takes linear time and allocates an object for each
// that has not ended yet.

// MARK: - All values, or the first error

/// The values of several promises and coroutines, in the order in which they are named. Suspends the calling coroutine
/// until all have ended.
///
/// ```swift
/// let (user, posts) = try values(of: fetchUser(), Coroutine { try loadPosts() })
/// ```
///
/// - Throws: the error of the first one that fails, at once: the others are cancelled, since their values would be lost
///   (`results(of:)` waits for each); `CancellationError` if the caller is cancelled: the others go on.
/// - Precondition: called inside a coroutine: traps elsewhere.
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func values<each Source: Awaitable>(of source: repeat each Source) throws -> (repeat (each Source).Value) {
  let ending = (repeat (each source).ending)
  let batch = BatchStorage(erasing(repeat each ending), until: .allSucceeded)
  try batch.throwFailure(of: batch.run(for: "values(of:)"))
  return (repeat try (each ending).outcome.get())
}

/// The values of several promises and coroutines, in the order in which they are named. In `async` code.
///
/// - Throws: the error of the first one that fails, at once: the others are cancelled, since their values would be lost
///   (`results(of:)` waits for each); `CancellationError` if the caller is cancelled: the others go on.
nonisolated(nonsending) public func values<each Source: Awaitable>(
  of source: repeat each Source
) async throws -> (repeat (each Source).Value) {
  let ending = (repeat (each source).ending)
  let batch = BatchStorage(erasing(repeat each ending), until: .allSucceeded)
  try await batch.throwFailure(of: batch.run())
  return (repeat try (each ending).outcome.get())
}

/// The values of any number of promises or coroutines, in their order. Suspends the calling coroutine until all have ended.
///
/// ```swift
/// let pages = try values(of: urls.map { fetch($0) })
/// ```
///
/// - Throws: the error of the first one that fails, at once: the others are cancelled, since their values would be lost
///   (`results(of:)` waits for each); `CancellationError` if the caller is cancelled: the others go on.
/// - Precondition: called inside a coroutine: traps elsewhere.
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func values<Source: Awaitable>(of sources: [Source]) throws -> [Source.Value] {
  let endings = sources.map(\.ending)
  let batch = BatchStorage(endings.map(\.source), until: .allSucceeded)
  try batch.throwFailure(of: batch.run(for: "values(of:)"))
  return try endings.map { try $0.outcome.get() }
}

/// The values of any number of promises or coroutines, in their order. In `async` code.
///
/// - Throws: the error of the first one that fails, at once: the others are cancelled, since their values would be lost
///   (`results(of:)` waits for each); `CancellationError` if the caller is cancelled: the others go on.
nonisolated(nonsending) public func values<Source: Awaitable>(of sources: [Source]) async throws -> [Source.Value] {
  let endings = sources.map(\.ending)
  let batch = BatchStorage(endings.map(\.source), until: .allSucceeded)
  try await batch.throwFailure(of: batch.run())
  return try endings.map { try $0.outcome.get() }
}

// MARK: - Each outcome

/// The outcomes of several promises and coroutines, values and errors, in the order in which they are named. Suspends the
/// calling coroutine until all have ended; an error cancels none.
///
/// If the caller is cancelled meanwhile, the outcomes that have come are not lost: the others are a
/// `CancellationError`.
///
/// - Throws: `CancellationError` if the caller is cancelled before any has ended.
/// - Precondition: called inside a coroutine: traps elsewhere.
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func results<each Source: Awaitable>(
  of source: repeat each Source
) throws(CancellationError) -> (repeat Result<(each Source).Value, any Error>) {
  let ending = (repeat (each source).ending)
  let batch = BatchStorage(erasing(repeat each ending), until: .allEnded)
  _ = try batch.run(for: "results(of:)")
  return batch.outcomes(repeat each ending)
}

/// The outcomes of several promises and coroutines, values and errors, in the order in which they are named. An error
/// cancels none. In `async` code.
///
/// If the caller is cancelled meanwhile, the outcomes that have come are not lost: the others are a
/// `CancellationError`.
///
/// - Throws: `CancellationError` if the caller is cancelled before any has ended.
nonisolated(nonsending) public func results<each Source: Awaitable>(
  of source: repeat each Source
) async throws(CancellationError) -> (repeat Result<(each Source).Value, any Error>) {
  let ending = (repeat (each source).ending)
  let batch = BatchStorage(erasing(repeat each ending), until: .allEnded)
  _ = try await batch.run()
  return batch.outcomes(repeat each ending)
}

/// The outcomes of any number of promises or coroutines, values and errors, in their order. Suspends the calling coroutine
/// until all have ended; an error cancels none.
///
/// If the caller is cancelled meanwhile, the outcomes that have come are not lost: the others are a
/// `CancellationError`.
///
/// - Throws: `CancellationError` if the caller is cancelled before any has ended.
/// - Precondition: called inside a coroutine: traps elsewhere.
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func results<Source: Awaitable>(
  of sources: [Source]
) throws(CancellationError) -> [Result<Source.Value, any Error>] {
  let endings = sources.map(\.ending)
  let batch = BatchStorage(endings.map(\.source), until: .allEnded)
  _ = try batch.run(for: "results(of:)")
  return endings.enumerated().map { index, ending in batch.outcome(ending, of: index) }
}

/// The outcomes of any number of promises or coroutines, values and errors, in their order. An error cancels none. In
/// `async` code.
///
/// If the caller is cancelled meanwhile, the outcomes that have come are not lost: the others are a
/// `CancellationError`.
///
/// - Throws: `CancellationError` if the caller is cancelled before any has ended.
nonisolated(nonsending) public func results<Source: Awaitable>(
  of sources: [Source]
) async throws(CancellationError) -> [Result<Source.Value, any Error>] {
  let endings = sources.map(\.ending)
  let batch = BatchStorage(endings.map(\.source), until: .allEnded)
  _ = try await batch.run()
  return endings.enumerated().map { index, ending in batch.outcome(ending, of: index) }
}

// MARK: - The first one

/// The value of whichever ends first; the others are cancelled then. Suspends the calling coroutine.
///
/// ```swift
/// let answer = try firstValue(of: mirrors.map { fetch($0) })
/// ```
///
/// - Throws: the error of the first one that ends, if it failed; `CancellationError` if the caller is cancelled: they all
///   go on.
/// - Precondition: called inside a coroutine, with one source at least: traps otherwise.
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func firstValue<Source: Awaitable>(of sources: [Source]) throws -> Source.Value {
  let endings = sources.map(\.ending)
  let batch = BatchStorage(endings.map(\.source), until: .firstEnded)
  return try endings[batch.stopOthers(than: batch.run(for: "firstValue(of:)"))].outcome.get()
}

/// The value of whichever ends first; the others are cancelled then. In `async` code.
///
/// - Throws: the error of the first one that ends, if it failed; `CancellationError` if the caller is cancelled: they all
///   go on.
/// - Precondition: there is one source at least: traps otherwise.
nonisolated(nonsending) public func firstValue<Source: Awaitable>(of sources: [Source]) async throws -> Source.Value {
  let endings = sources.map(\.ending)
  let batch = BatchStorage(endings.map(\.source), until: .firstEnded)
  return try await endings[batch.stopOthers(than: batch.run())].outcome.get()
}

/// The value of whichever succeeds first: an error is passed over as long as another one may still succeed. The others are
/// cancelled then. Suspends the calling coroutine.
///
/// ```swift
/// let page = try firstSuccess(of: mirrors.map { fetch($0) })      // those that are down don't matter
/// ```
///
/// - Throws: `AllFailed` if there is none, and none is left; `CancellationError` if the caller is cancelled: they all go on.
/// - Precondition: called inside a coroutine: traps elsewhere.
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func firstSuccess<Source: Awaitable>(of sources: [Source]) throws -> Source.Value {
  let endings = sources.map(\.ending)
  let batch = BatchStorage(endings.map(\.source), until: .firstSucceeded)
  return try endings[batch.winner(batch.run(for: "firstSuccess(of:)"))].outcome.get()
}

/// The value of whichever succeeds first: an error is passed over as long as another one may still succeed. The others are
/// cancelled then. In `async` code.
///
/// - Throws: `AllFailed` if there is none, and none is left; `CancellationError` if the caller is cancelled: they all go on.
nonisolated(nonsending) public func firstSuccess<Source: Awaitable>(of sources: [Source]) async throws -> Source.Value {
  let endings = sources.map(\.ending)
  let batch = BatchStorage(endings.map(\.source), until: .firstSucceeded)
  return try await endings[batch.winner(batch.run())].outcome.get()
}

/// All of those failed of which `firstSuccess(of:)` needed one to succeed.
public struct AllFailed: Error, CustomStringConvertible {
  /// What each of them failed with, in the order in which they were named.
  public let errors: [any Error]

  public var description: String {
    errors.isEmpty ? "there was none that could succeed" : "all \(errors.count) failed: \(errors)"
  }
}

private func erasing<each Value>(_ ending: repeat Ending<each Value>) -> [any EndingSource] {
  var sources: [any EndingSource] = []
  repeat sources.append((each ending).source)
  return sources
}

extension BatchStorage {
  fileprivate func outcomes<each Value>(_ ending: repeat Ending<each Value>) -> (repeat Result<each Value, any Error>) {
    var count = 0
    func next<Next>(_ ending: Ending<Next>) -> Result<Next, any Error> {
      defer { count += 1 }
      return outcome(ending, of: count)
    }
    return (repeat next(each ending))
  }
}
