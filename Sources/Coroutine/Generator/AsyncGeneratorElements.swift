// SPDX-License-Identifier: Apache-2.0

extension AsyncGenerator {
  /// What the body yields, for `for … in` inside a coroutine, and for `merge` and the other operators.
  ///
  /// ```swift
  /// for row in merge(rows.elements, updates.received) { show(row) }
  /// ```
  ///
  /// A sequence can't throw. An error of the body ends it, and goes to `CoroutineErrors.unhandled`. To catch it, call `next()`.
  @available(*, noasync, message: "use 'for try await element in generator' in async code")
  public var elements: Elements { Elements(generator: self) }

  /// The synchronous view of an asynchronous generator: `AsyncGenerator.elements`. It has one position for all consumers.
  public struct Elements: Sequence, IteratorProtocol, Sendable {
    let generator: AsyncGenerator

    /// The next element; `nil` at the end, and when the caller is cancelled.
    ///
    /// - Precondition: called inside a coroutine, and not inside the body: traps elsewhere.
    @available(*, noasync, message: "use 'next()' of the generator here")
    public func next() -> Element? {
      do { return try generator.next() } catch {
        // The caller's own cancel is no error of the body.
        let isOwn = error is CancellationError && Coroutine<Never, Never>.isCancelled
        if !isOwn { generator.report(error) }
        return nil
      }
    }
  }

  /// There is no element any more. If an error of the body is the reason, it is reported here: no consumer is going to get it.
  func reportFailureAtTheEnd() {
    do { try owner.storage.endWaiting(.event, false) } catch { report(error) }
  }

  private func report(_ error: any Error) { CoroutineErrors.report(error, of: owner.storage.label) }
}
