// SPDX-License-Identifier: Apache-2.0

extension AsyncSequence where Self: Sendable, Element: Sendable {
  /// The elements of this asynchronous sequence, one by one, in a coroutine, which suspends until the next one is there.
  ///
  /// ```swift
  /// let lines = url.lines.elements
  /// while let line = try lines.next() { … }
  /// ```
  ///
  /// Each call of this property begins a new iteration. An element is only produced when the consumer asks for it. The
  /// iteration runs in a task, which has the coroutine's priority, and ends with the
  /// sequence, or when the iterator is dropped.
  public var elements: AsyncElements<Self> { AsyncElements(self) }
}

/// The iterator of an asynchronous sequence, for coroutines. Copies share one position; not for two coroutines at a time.
public struct AsyncElements<Base: AsyncSequence & Sendable> where Base.Element: Sendable {
  private let iteration: AsyncIteration<Base>

  fileprivate init(_ base: Base) {
    iteration = AsyncIteration(base)
  }

  /// Suspends the calling coroutine until the next element is there; `nil` at the end, and from then on.
  ///
  /// - Throws: what the sequence throws, once: the iteration has ended then. `CancellationError` if the coroutine is
  ///   cancelled while it waits: the iteration is cancelled too.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "iterate over the sequence itself in async code")
  public func next() throws -> Base.Element? {
    try iteration.next()
  }
}

/// One iteration: a task that owns the iterator, since that may be used in one task only. The consumer requests each
/// element.
// Unchecked: `isOver` belongs to the consumer, one coroutine at a time.
private final class AsyncIteration<Base: AsyncSequence & Sendable>: @unchecked Sendable where Base.Element: Sendable {
  private typealias Request = Resumption<Base.Element?>

  private let requests = AsyncStream<Request>.makeStream()
  private let task: Task<Void, Never>
  private var isOver = false

  init(_ base: Base) {
    let stream = requests.stream
    task = Task<Void, Never>(executorPreference: preferredExecutor, priority: CoroutineCore.current?.priority) {
      var iterator = base.makeAsyncIterator()
      for await request in stream {
        do {
          guard let element = try await iterator.next() else {
            request.returning(nil)
            return
          }
          request.returning(element)
        } catch {
          request.throwing(error)
          return
        }
      }
    }
  }

  deinit {
    requests.continuation.finish()
    cancelOnThisThread { task.cancel() }
  }

  func next() throws -> Base.Element? {
    _ = CoroutineCore.running(for: "AsyncElements.next()")
    guard !isOver else { return nil }
    do {
      let element = try awaitResumption(as: .async) { (request: Request) in
        requests.continuation.yield(request)
      } onCancel: {
        cancelOnThisThread { task.cancel() }
      }
      isOver = element == nil
      return element
    } catch {
      isOver = true
      throw error
    }
  }
}

extension AsyncElements: Sequence, IteratorProtocol where Base.Failure == Never {
  /// The next element; `nil` at the end, and when the coroutine is cancelled (the next suspending call throws then).
  @available(*, noasync, message: "iterate over the sequence itself in async code")
  public mutating func next() -> Base.Element? {
    try? iteration.next()
  }
}
