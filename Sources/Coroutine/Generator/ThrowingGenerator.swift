// SPDX-License-Identifier: Apache-2.0

/// A generator whose body may fail: `next()` throws what the body has thrown.
///
/// ```swift
/// let lines = ThrowingGenerator<Line> { yield in
///   let file = try open(path)
///   defer { file.close() }
///   while let text = try file.readLine() { try yield(Line(parsing: text)) }
/// }
/// while let line = try lines.next() { print(line) }
/// ```
///
/// In everything else it is a `Generator`, whose documentation says what a body may do. It is no `Sequence`, whose
/// iterators can't throw.
public struct ThrowingGenerator<Element> {
  @usableFromInline let storage: GeneratorStorage<Element>

  /// What its body yields with.
  public typealias Yield = Generator<Element>.Yield

  /// A generator over what `body` yields. Nothing of it runs before the first `next()`.
  ///
  /// - Parameters:
  ///   - stackSize: usable bytes, rounded up to pages and to 64 KiB; `nil` for the default (256 KiB).
  ///   - isolation: the actor of the calling code. Where that is the main actor, the body belongs to it if it begins there: then
  ///     the generator must not be dropped elsewhere while the body is under way, which traps. `nil` for a body that is not.
  ///   - body: yields. Its error, other than the `GeneratorCancelled` of its own cancel, comes out of `next()`; where no consumer
  ///     asks any more, it is reported through `CoroutineErrors.unhandled` when the last copy goes.
  @inlinable
  public init(
    stackSize: Int? = nil, isolation: (any Actor)? = #isolation, _ body: @escaping (Yield) throws -> Void
  ) {
    storage = GeneratorStorage(stackSize: stackSize, throwsErrorsOn: true, body: body)
    if let isolation { storage.belongs(to: isolation) }
  }

  /// Runs the body to its next `yield` and returns that element; `nil` at the end, and from then on.
  ///
  /// - Throws: what the body throws, or `StackError` if there is no memory for its stack: once; `nil` follows.
  /// - Precondition: not called from inside the body, which runs already: traps otherwise.
  @inlinable @inline(__always)
  public func next() throws -> Element? {
    if let element = storage.next() { return element }
    if let failure = storage.takeFailure() { throw failure }
    return nil
  }

  /// Lets the pending `yield` throw `error`, and runs the body to its next one, whose element it returns, or to its end.
  ///
  /// While it yields from another generator, that one's `yield` throws. A body that has not begun never does, and the
  /// generator has ended with the error.
  ///
  /// - Returns: the element; `nil` if the body caught the error and ended.
  /// - Throws: what the body throws then, which is `error` if it does not catch it: once; `error` where the generator had
  ///   ended already.
  /// - Precondition: not called from inside the body, which runs already: traps otherwise.
  @inlinable
  public func next(throwing error: any Error) throws -> Element? {
    if let element = try storage.next(throwing: error) { return element }
    if let failure = storage.takeFailure() { throw failure }
    return nil
  }

  /// The next elements, `count` of them or as many as there are. The generator can go on behind them.
  ///
  /// - Parameter count: not negative: traps otherwise.
  /// - Throws: what `next()` throws. The elements before that are lost.
  @inlinable
  public func take(_ count: Int) throws -> [Element] {
    requireCount(count)
    var elements: [Element] = []
    while elements.count < count, let element = try next() { elements.append(element) }
    return elements
  }

  /// What its body is doing: see `Generator.state`.
  public var state: CoroutineState { storage.state }

  /// Ends it. A body that has begun is unwound now, on the calling thread. See `Generator.cancel()`.
  public func cancel() { storage.cancel() }
}

// As `Generator`.
@available(
  *, unavailable,
  message: "a generator is part of the code that consumes it: make it there, or send an AsyncGenerator"
)
extension ThrowingGenerator: Sendable {}

extension ThrowingGenerator: CustomStringConvertible {
  /// What its body is doing.
  public var description: String { "a generator, \(state)" }
}
