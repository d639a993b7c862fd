// SPDX-License-Identifier: Apache-2.0

/// A sequence that is computed by a body which yields its elements one by one, from any depth: from a recursion, from a
/// closure passed to `forEach` or `sort(by:)`, from a callback of a C library.
///
/// ```swift
/// func walk(_ node: Node, _ yield: Generator<Node>.Yield) throws {
///   for child in node.children { try walk(child, yield) }
///   try yield(node)
/// }
/// for node in Generator<Node>({ yield in try walk(root, yield) }) {
///   print(node.name)
/// }
/// ```
///
/// The body runs on a stack of its own, and only while its consumer asks for an element: not before the first `next()`,
/// and not beyond the last. It is part of its consumer's flow of control: it sees the consumer's task-local values, an
/// access to a variable that overlaps one of the consumer's traps as it would in one function, and a suspension inside
/// the body suspends the coroutine that called `next()`.
///
/// Single pass, with reference semantics: copies share one position. Not for two threads at a time; between two elements
/// a generator may be moved to another thread. Not so where the body yields with an access to a variable open
/// (`array.sort { … try yield($0) … }`) or a task-local binding (`$local.withValue(1) { try yield(2) }`): then `next()`
/// elsewhere traps. With such an access open an `await` between two elements traps in a task of the main actor; in that of
/// another actor nothing says so. The consumer does not see such a binding. In a task, which frees its bindings in the reverse
/// order, one generator at a time may yield with one open: of two the Swift runtime ends the program. It does so, too, where the
/// `next()` that opens the binding and the one that closes it (or the `cancel()`, or the drop) are not calls by one and the same
/// `async` function, or where the consumer leaves a `withValue` or a task group in between that was open at the first of them. It
/// says "freed pointer was not the last allocation" then. In a coroutine any may.
///
/// Nor does a timeout, a shield, a scope or a cancellation handler inside of which the body yields concern the consumer.
/// It goes on, though the body does not run: the deadline counts the time that the consumer takes, and one that passes
/// meanwhile cancels at once what lies inside, such as a scope's children, and the body when it runs again. The consumer's
/// cancellation reaches the body whenever it runs, through its own regions, whichever coroutine asks for an element.
///
/// When the last copy goes, or after `cancel()`, a body that has begun is unwound: its pending `yield` throws
/// `GeneratorCancelled`, `defer` blocks run and references are released. Each later `yield` of that body throws at once.
/// One that swallows this for ever is given up and reported, as `GeneratorEndless`, through `CoroutineErrors.unhandled`.
///
/// It is unwound by the code that drops or cancels it, and a `defer` that waits needs a coroutine around that code. There is none
/// where a coroutine that was cancelled before it began lets go of what its body captured: hand a generator that is under way,
/// and waits in its cleanup, to one that starts `.atomic`.
///
/// In a type that is a `Sequence` itself, or an extension of one, the name `Generator` is taken by an old one of the
/// standard library's. There `.init { … }` makes one where the type is known, and `Coroutine::Generator { … }` anywhere.
///
/// See `ThrowingGenerator` for bodies that may fail, `TwoWayGenerator` for those that are given something with each
/// `next`, or return something, and `AsyncGenerator` for one that runs somewhere else.
///
/// An element costs two context switches, constant time at any depth. Creating one allocates two small objects; its stack
/// comes from a pool with the first element.
public struct Generator<Element>: Sequence, IteratorProtocol {
  @usableFromInline let storage: GeneratorStorage<Element>

  /// A generator over what `body` yields. Nothing of it runs before the first `next()`.
  ///
  /// - Parameters:
  ///   - stackSize: usable bytes, rounded up to pages and to 64 KiB; `nil` for the default (256 KiB).
  ///   - isolation: the actor of the calling code. Where that is the main actor, the body belongs to it if it begins there: then
  ///     the generator must not be dropped elsewhere while the body is under way, which traps. `nil` for a body that is not.
  ///   - body: yields. An error that it throws, other than the `GeneratorCancelled` of its own cancel, ends the sequence, is
  ///     kept in `failure` and reported through `CoroutineErrors.unhandled` (a `Sequence` can't throw).
  @inlinable
  public init(
    stackSize: Int? = nil, isolation: (any Actor)? = #isolation, _ body: @escaping (Yield) throws -> Void
  ) {
    storage = GeneratorStorage(stackSize: stackSize, throwsErrorsOn: false, body: body)
    if let isolation { storage.belongs(to: isolation) }
  }

  /// Runs the body to its next `yield` and returns that element; `nil` at the end, and from then on.
  ///
  /// - Precondition: not called from inside the body, which runs already: traps otherwise.
  @inlinable @inline(__always)
  public func next() -> Element? {
    storage.next()
  }

  /// The generator itself: it is its own iterator.
  @inlinable
  public func makeIterator() -> Generator { self }

  /// The next elements, `count` of them or as many as there are. The generator can go on behind them.
  ///
  /// - Parameter count: not negative: traps otherwise.
  @inlinable
  public func take(_ count: Int) -> [Element] {
    requireCount(count)
    return Array(prefix(count))
  }

  /// Ends the sequence. A body that has begun is unwound now, on the calling thread; the next `next()` returns `nil`.
  ///
  /// Called from inside the body it only marks the end: the body's next `yield` throws.
  public func cancel() { storage.cancel() }

  /// What its body is doing: `.ready` before the first element, `.suspended` at a `yield`, `.running` where the body itself asks,
  /// or other code while the body waits, `.finished` behind its end. (A body that has yielded its last element is suspended,
  /// until the next call lets it end.) For the code that uses the generator, on its thread.
  public var state: CoroutineState { storage.state }

  /// The error that ended the body: what it threw, or `StackError` if there was no memory for its stack.
  public var failure: (any Error)? { storage.failure }

  /// What a generator's body yields with. Valid inside the body only, as long as that runs.
  ///
  /// What is yielded is computed when the consumer asks for it, since the body does not run before.
  public struct Yield {
    @usableFromInline let body: GeneratorBody

    @usableFromInline
    init(_ block: UnsafeMutablePointer<ControlBlock>) { body = GeneratorBody(block) }

    /// Hands an element to the caller of `next()`, and waits for the next call.
    ///
    /// - Throws: `GeneratorCancelled` when the generator was cancelled or dropped meanwhile: let it pass, so that the
    ///   body ends. It throws again at once if the body yields all the same.
    /// - Precondition: called inside the body that it was given to, on its thread, while it runs: by the body, or by that of
    ///   a generator which this one consumes. Traps elsewhere, while the body is suspended, and after its end.
    @inlinable @inline(__always)
    public func callAsFunction(_ element: consuming Element) throws {
      try GeneratorStorage<Element>.yield(element, self)
    }

    /// Yields what another generator does, until that ends: `try yield(from: children)`.
    ///
    /// The other one's body runs directly under the consumer. So an element costs the same at any depth of generators that
    /// yield from one another, in constant time; as does `yield(from:)` itself. Inside an open access or task-local
    /// binding, in which the other's body has to run too, each element passes through this body.
    ///
    /// It ends with this one: a cancel unwinds it first.
    ///
    /// - Throws: what the other's body throws (which then is not reported); `GeneratorCancelled` as a single `yield` does.
    /// - Precondition: no other consumer takes elements from the other one meanwhile, nor does that consume this one:
    ///   traps.
    @inlinable
    public func callAsFunction(from other: Generator<Element>) throws {
      try GeneratorStorage<Element>.yield(from: other.storage, self)
    }

    /// Yields what another generator does, until that ends. As `callAsFunction(from:)` of a `Generator`.
    ///
    /// - Throws: what the other's body throws; `GeneratorCancelled` as a single `yield` does.
    @inlinable
    public func callAsFunction(from other: ThrowingGenerator<Element>) throws {
      try GeneratorStorage<Element>.yield(from: other.storage, self)
    }

    /// Yields what another generator does, until that ends, and returns what its body returns.
    ///
    /// - Throws: what the other's body throws; `GeneratorCancelled` as a single `yield` does, and where the other one was
    ///   cancelled, so that there is nothing to return.
    @inlinable @discardableResult
    public func callAsFunction<Return>(from other: TwoWayGenerator<Void, Element, Return>) throws -> Return {
      try GeneratorStorage<Element>.yield(from: other.storage, self)
      return try other.storage.outcome()
    }

    /// Yields the elements of a sequence, one by one.
    ///
    /// - Throws: `GeneratorCancelled` as a single `yield` does.
    @inlinable
    public func callAsFunction(from elements: some Sequence<Element>) throws {
      for element in elements { try self(element) }
    }
  }
}

/// For `take`, of all generators.
@inlinable
func requireCount(_ count: Int) {
  require(count >= 0, "take(\(count)) of a generator: the number of elements must not be negative")
}

// The body and its consumer are one flow of control; without a way to say so, a generator stays where it was made.
@available(
  *, unavailable,
  message: "a generator is part of the code that consumes it: make it there, or send an AsyncGenerator"
)
extension Generator: Sendable {}

/// Thrown by a generator's `yield` when no consumer wants another element: the generator was cancelled, or dropped.
///
/// A body lets it pass. Where another generator has thrown it, such as a cancelled `TwoWayGenerator` of which the body wanted
/// an element, it is an error as any other.
public struct GeneratorCancelled: Error, CustomStringConvertible {
  public var description: String { "the generator was cancelled: its consumer wants no more elements" }

  @usableFromInline init() {}
}

/// Reported, through `CoroutineErrors.unhandled`, of a generator whose body can't be made to end: it was cancelled or
/// dropped, and its body swallows what `yield` throws, and yields again, for ever. A synchronous one is given up then: its
/// stack is lost, with what its frames own. An `AsyncGenerator`'s coroutine goes on, and lets others run first each time.
public struct GeneratorEndless: Error, CustomStringConvertible {
  /// How often its `yield` has thrown.
  public let attempts: Int

  /// More than a callback that can't throw, such as that of a sort, is likely to be called.
  static var mostThrows: Int { 1 << 20 }

  public var description: String {
    "the body of a cancelled generator has swallowed the error of its yield \(attempts) times and does not end: let it pass"
  }
}

extension Generator: CustomStringConvertible {
  /// What its body is doing.
  public var description: String { "a generator, \(state)" }
}
