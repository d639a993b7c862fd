// SPDX-License-Identifier: Apache-2.0

/// A case of a `select`: chosen if no other could be chosen for that long. Of several the shortest counts.
///
/// - Parameters:
///   - duration: from when `select` begins to wait; zero or less: other cases are chosen if they are ready at once.
///   - handler: runs then, on the calling coroutine; may suspend and throw.
@inlinable
public func onTimeout<Output>(
  _ duration: Duration, _ handler: @escaping () throws -> Output
) -> Select.Case<Select.Timeout, Output> {
  Select.Case(duration) { _ in try handler() }
}

/// A case of a `select` in `async` code: chosen if no other could be chosen for that long. Of several the shortest
/// counts.
///
/// - Parameters:
///   - duration: from when `select` begins to wait; zero or less: other cases are chosen if they are ready at once.
///   - handler: runs then, where the caller runs.
@inlinable
public func onTimeout<Output>(
  _ duration: Duration, _ handler: nonisolated(nonsending) @escaping () async throws -> Output
) -> Select.AsyncCase<Select.Timeout, Output> {
  Select.AsyncCase(duration) { _ in try await handler() }
}

/// A case of a `select`: chosen if no other is ready, so that `select` does not wait at all.
///
/// - Parameter handler: runs then, on the calling coroutine; may suspend and throw.
@inlinable @inline(__always)
public func otherwise<Output>(
  _ handler: @escaping () throws -> Output = {}
) -> Select.Case<Select.Otherwise, Output> {
  Select.Case(()) { _ in try handler() }
}

/// A case of a `select` in `async` code: chosen if no other is ready, so that `select` does not wait at all.
///
/// - Parameter handler: runs then, where the caller runs.
@inlinable
public func otherwise<Output>(
  _ handler: nonisolated(nonsending) @escaping () async throws -> Output = {}
) -> Select.AsyncCase<Select.Otherwise, Output> {
  Select.AsyncCase(()) { _ in try await handler() }
}

/// A case that waits in no queue: there is nothing to attempt, and nothing to withdraw.
@usableFromInline
protocol SelectFallback: SelectOperation where Value == Void {}

extension SelectFallback {
  @inlinable @inline(__always)
  public var layout: Select.Layout { Select.Layout(size: 0, alignment: 1) }

  @inlinable @inline(__always)
  public func attempt(_ node: UnsafeMutableRawPointer, for party: Select.Party) -> Select.Attempt {
    Select.Attempt(.wait)
  }

  @inlinable @inline(__always)
  public func enqueue(_ node: UnsafeMutableRawPointer, for party: Select.Party) {}

  @inlinable @inline(__always)
  public func dequeue(_ node: UnsafeMutableRawPointer) -> Select.Attempt { Select.Attempt(.done) }

  @inlinable @inline(__always)
  public func discard(_ node: UnsafeMutableRawPointer) {}

  @inlinable @inline(__always)
  public func take(_ node: UnsafeMutableRawPointer) {}
}

extension Select {
  /// Time that passes.
  public struct Timeout: SelectOperation, SelectFallback {
    @usableFromInline let duration: Duration

    @inlinable
    public init(_ source: Duration) {
      duration = source
    }

    public var target: Target { Target(.timeout(duration)) }
  }

  /// Nothing to wait for.
  public struct Otherwise: SelectOperation, SelectFallback {
    @inlinable @inline(__always)
    public init(_ source: Void) {}

    @inlinable @inline(__always)
    public var target: Target { Target(.otherwise) }
  }
}
