// SPDX-License-Identifier: Apache-2.0

/// A generator that is given something with each `next`, and returns something at the end.
///
/// ```swift
/// let robot = TwoWayGenerator<String, String, Int> { yield in
///   var count = 0
///   var name = try yield("Who is there?")
///   while name != "bye" {
///     count += 1
///     name = try yield("Hello \(name). Who else?")
///   }
///   return count
/// }
/// print(try robot.next(""))          // yielded("Who is there?"): the first input has no `yield` to come out of
/// print(try robot.next("Ann"))       // yielded("Hello Ann. Who else?")
/// print(try robot.next("bye"))       // returned(1), and so again and again
/// ```
///
/// What `yield` returns is the input of the `next` that resumes it. A body with a second parameter gets the first input by it:
///
/// ```swift
/// let doubler = TwoWayGenerator<Int, Int, Never> { yield, first in
///   var number = first
///   while true { number = try yield(2 * number) }
/// }
/// print(try doubler.next(21))        // yielded(42)
/// ```
///
/// With `Void` for an input, `next()` does without, and a `Generator` can yield from it. In everything else it is a
/// `Generator`, whose documentation says what a body may do.
public struct TwoWayGenerator<Input, Element, Return> {
  @usableFromInline let storage: ReturningStorage<Input, Element, Return>

  /// A generator over what `body` yields. Nothing of it runs before the first `next`.
  ///
  /// - Parameters:
  ///   - stackSize: usable bytes, rounded up to pages and to 64 KiB; `nil` for the default (256 KiB).
  ///   - isolation: the actor of the calling code. Where that is the main actor, the body belongs to it if it begins there: then
  ///     the generator must not be dropped elsewhere while the body is under way, which traps. `nil` for a body that is not.
  ///   - body: yields, and returns. Its error comes out of `next`; where no consumer asks any more, it is reported
  ///     through `CoroutineErrors.unhandled` when the last copy goes.
  @inlinable
  public init(
    stackSize: Int? = nil, isolation: (any Actor)? = #isolation, _ body: @escaping (Yield) throws -> Return
  ) {
    storage = ReturningStorage(stackSize: stackSize, body: body)
    if let isolation { storage.belongs(to: isolation) }
  }

  /// A generator whose body is given the first input, by its second parameter. Otherwise as with a body that has one parameter.
  ///
  /// - Parameters:
  ///   - stackSize: usable bytes, rounded up to pages and to 64 KiB; `nil` for the default (256 KiB).
  ///   - isolation: the actor of the calling code, which the body belongs to if it begins there; `nil` for a body that does not.
  ///   - body: yields, and returns. Its second argument is what the first `next(_:)` hands over, which begins it.
  @inlinable
  public init(
    stackSize: Int? = nil, isolation: (any Actor)? = #isolation, _ body: @escaping (Yield, Input) throws -> Return
  ) {
    storage = ReturningStorage(stackSize: stackSize, body: body)
    if let isolation { storage.belongs(to: isolation) }
  }

  /// What a `next` has come to.
  public enum Step {
    /// The body has yielded, and waits for the next input.
    case yielded(Element)
    /// The body has returned.
    case returned(Return)

    /// The element; `nil` at the end.
    public var element: Element? {
      guard case .yielded(let element) = self else { return nil }
      return element
    }

    /// Whether it was the end.
    public var isDone: Bool {
      guard case .returned = self else { return false }
      return true
    }
  }

  /// Hands `input` to the pending `yield`, which returns it, and runs the body to the next one or its end. The first input
  /// goes to the body, if that has a parameter for it, and is ignored otherwise. Constant time.
  ///
  /// - Returns: the element; at the end what the body returned, again and again.
  /// - Throws: at the end what the body threw, or `StackError` without memory for its stack, again and again. After a cancel
  ///   `GeneratorCancelled`, unless the body had ended before, or has caught that and returned or thrown something else.
  /// - Precondition: not called from inside the body, which runs already: traps otherwise.
  @inlinable @inline(__always)
  public func next(_ input: consuming Input) throws -> Step {
    if let element = storage.next(input) { return .yielded(element) }
    return .returned(try storage.outcome())
  }

  /// Lets the pending `yield` throw `error`, and runs the body to the next one or its end: Python's `throw`, Ruby's `raise`.
  ///
  /// ```swift
  /// let numbers = TwoWayGenerator<Int, String, Void> { yield in
  ///   var answer = "a number?"
  ///   while true {
  ///     do { answer = "twice that is \(2 * (try yield(answer)))" } catch is NotANumber { answer = "a number, please" }
  ///   }
  /// }
  /// ```
  ///
  /// While it yields from another generator, that one's `yield` throws. A body that has not begun never does, and the
  /// generator has ended with the error.
  ///
  /// - Returns: the element; what the body returned, if it caught the error and returned.
  /// - Throws: what the body throws then, which is `error` if it does not catch it, again and again; `error` where the
  ///   generator had ended already.
  /// - Precondition: not called from inside the body, which runs already: traps otherwise.
  @inlinable
  public func next(throwing error: any Error) throws -> Step {
    if let element = try storage.next(throwing: error) { return .yielded(element) }
    return .returned(try storage.outcome())
  }

  /// What its body is doing: see `Generator.state`.
  public var state: CoroutineState { storage.state }

  /// Ends it. A body that has begun is unwound now, on the calling thread. See `Generator.cancel()`.
  public func cancel() { storage.cancel() }

  /// What its body yields with. Valid inside the body only, as long as that runs.
  public struct Yield {
    /// The same without the inputs.
    @usableFromInline let oneWay: Generator<Element>.Yield

    @inlinable
    init(_ oneWay: Generator<Element>.Yield) {
      self.oneWay = oneWay
    }

    /// Hands an element to the caller of `next`, and waits for the next call.
    ///
    /// - Returns: the input of that call.
    /// - Throws: `GeneratorCancelled`, and has preconditions, as `Generator.Yield` does.
    @inlinable @inline(__always) @discardableResult
    public func callAsFunction(_ element: consuming Element) throws -> Input {
      try GeneratorStorage<Element>.yield(element, oneWay)
      return TwoWayStorage<Input, Element>.input(oneWay.body.block)
    }

    /// Yields what another generator does, until that ends, and returns what its body returns. The inputs go to the other
    /// one meanwhile. In constant time at any depth, as for a `Generator`.
    ///
    /// - Throws: what the other's body throws; `GeneratorCancelled` as a single `yield` does, and where the other one was
    ///   cancelled, so that there is nothing to return.
    /// - Precondition: the other one has not begun, or takes no input: there is none for its pending `yield`, nor for a body
    ///   that is given the first one. No other consumer takes elements from it meanwhile, nor does it consume this one. Traps.
    @inlinable @discardableResult
    public func callAsFunction<Result>(from other: TwoWayGenerator<Input, Element, Result>) throws -> Result {
      try TwoWayStorage<Input, Element>.yield(from: other.storage, oneWay)
      return try other.storage.outcome()
    }

    /// Yields what a generator without inputs does, until that ends. Those of the calls of `next` meanwhile are dropped: its
    /// `yield` returns nothing. In constant time at any depth, as for a `Generator`.
    ///
    /// - Throws: what the other's body throws; `GeneratorCancelled` as a single `yield` does.
    /// - Precondition: no other consumer takes elements from it meanwhile, nor does it consume this one: traps otherwise.
    @inlinable
    public func callAsFunction(from other: Generator<Element>) throws {
      defer { TwoWayStorage<Input, Element>.dropInput(oneWay.body.block) }
      try oneWay(from: other)
    }

    /// Yields what a generator without inputs does, until that ends. As `callAsFunction(from:)` of a `Generator`.
    ///
    /// - Throws: what the other's body throws; `GeneratorCancelled` as a single `yield` does.
    @inlinable
    public func callAsFunction(from other: ThrowingGenerator<Element>) throws {
      defer { TwoWayStorage<Input, Element>.dropInput(oneWay.body.block) }
      try oneWay(from: other)
    }

    /// Yields the elements of a sequence, one by one. The inputs meanwhile are dropped.
    ///
    /// - Throws: `GeneratorCancelled` as a single `yield` does.
    @inlinable
    public func callAsFunction(from elements: some Sequence<Element>) throws {
      for element in elements { try self(element) }
    }
  }
}

extension TwoWayGenerator where Input == Void {
  /// `next(())`.
  @inlinable @inline(__always)
  public func next() throws -> Step { try next(()) }
}

extension TwoWayGenerator where Input: ExpressibleByNilLiteral {
  /// `next(nil)`.
  @inlinable @inline(__always)
  public func next() throws -> Step { try next(nil) }
}

extension TwoWayGenerator.Step: Equatable where Element: Equatable, Return: Equatable {}
extension TwoWayGenerator.Step: Sendable where Element: Sendable, Return: Sendable {}

// As `Generator`.
@available(
  *, unavailable,
  message: "a generator is part of the code that consumes it: make it there, or send an AsyncGenerator"
)
extension TwoWayGenerator: Sendable {}

extension TwoWayGenerator: CustomStringConvertible {
  /// What its body is doing.
  public var description: String { "a generator, \(state)" }
}
