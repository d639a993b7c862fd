// SPDX-License-Identifier: Apache-2.0

/// Something that ends once, with a value or an error: a promise, a coroutine. Several of them can be waited for at
/// once, by `values(of:)`, `results(of:)`, `firstValue(of:)` and `firstSuccess(of:)`.
///
/// A type of your own conforms by passing on the awaitable that it contains:
///
/// ```swift
/// struct Download: Awaitable {
///   let page: Promise<Data>
///   var ending: Ending<Data> { page.ending }
/// }
/// ```
public protocol Awaitable<Value>: Sendable {
  /// What it ends with, if not with an error.
  associatedtype Value: Sendable

  /// Its end, for waiters for several.
  var ending: Ending<Value> { get }
}

/// The end of an `Awaitable`: opaque.
public struct Ending<Value: Sendable>: Sendable {
  let source: any EndingSource
  private let readOutcome: @Sendable () -> Result<Value, any Error>

  init(_ source: any EndingSource, outcome: @escaping @Sendable () -> Result<Value, any Error>) {
    self.source = source
    readOutcome = outcome
  }

  /// How it ended. After the end.
  var outcome: Result<Value, any Error> { readOutcome() }

  /// Calls `handler` once, when it has ended; at once if it has. On the thread that ends it, not under a lock: the handler must
  /// neither wait nor call foreign code.
  package func whenEnded(_ handler: @escaping @Sendable (Result<Value, any Error>) -> Void) {
    source.resultIsTaken()
    if !source.join(EndingListener { handler(self.outcome) }) { handler(outcome) }
  }
}

/// Calls a function at the end of something.
// Unchecked: as its superclass; its own field is constant.
private final class EndingListener: WaitListener, @unchecked Sendable {
  private let handler: @Sendable () -> Void

  init(_ handler: @escaping @Sendable () -> Void) {
    self.handler = handler
  }

  override func notify() { handler() }
}

/// What several waits at once need of a thing that ends.
protocol EndingSource: AnyObject, Sendable {
  /// Calls `listener` at the end, once; false if it has ended already.
  func join(_ listener: WaitListener) -> Bool
  /// No longer calls `listener`, unless it is being called this moment. Whether this keeps it from being called.
  @discardableResult
  func withdraw(_ listener: WaitListener) -> Bool
  /// The error it ended with, if it did. After the end.
  var failure: (any Error)? { get }
  /// A caller has the outcome, or will have it: an error needs no report.
  func resultIsTaken()
  /// Asks it to stop. Without effect after the end.
  func stop()
}

extension Promise: Awaitable {
  public var ending: Ending<Value> {
    Ending(storage) { [storage] in storage.settledOutcome }
  }
}

extension ProgressPromise: Awaitable {
  public var ending: Ending<Value> { promise.ending }
}

extension PromiseStorage: EndingSource {
  final var failure: (any Error)? {
    if case .failure(let error) = settledOutcome { error } else { nil }
  }

  final func stop() { _ = cancel() }
}

extension Coroutine: Awaitable {
  public typealias Value = Success

  public var ending: Ending<Success> {
    Ending(storage) { [storage] in Result { try storage.outcome() } }
  }
}

extension CoroutineStorage: EndingSource {
  final func stop() { cancel(reason: nil) }
}
