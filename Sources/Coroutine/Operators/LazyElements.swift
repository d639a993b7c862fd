// SPDX-License-Identifier: Apache-2.0

extension SelectableSequence {
  /// The sequence with a `map`, `filter` and `compactMap` that wait with it: what they make is an operand of `merge`, `zip` and
  /// the other operators.
  ///
  /// ```swift
  /// let (keys, clicks) = (keys.received.lazy.map { Event.key($0) }, clicks.received.lazy.map { Event.click($0) })
  /// for event in merge(keys, clicks) { handle(event) }
  /// ```
  ///
  /// As those of any lazy sequence the closures run when an element is asked for, in the consumer's coroutine. Without `lazy`
  /// they are those of any `Sequence`: they make an array, and so wait for the end. So they are where the closure throws: let it
  /// say `try?`, or do it in the loop.
  public var lazy: LazyElements<Self, Element> { LazyElements(self) { $0 } }
}

/// What `SelectableSequence.lazy` makes of a sequence, and `map`, `filter` and `compactMap` of that.
public struct LazyElements<Base: SelectableSequence, Element>: SelectableSequence, LazySequenceProtocol {
  private var base: Base
  /// What becomes of an element; `nil` for one that is left out.
  private let transform: (Base.Element) -> Element?

  init(_ base: Base, _ transform: @escaping (Base.Element) -> Element?) {
    self.base = base
    self.transform = transform
  }

  /// The next element that is not left out; `nil` at the end, and when the caller is cancelled.
  ///
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "use the operators of asynchronous sequences in async code")
  public mutating func next() -> Element? {
    while let element = base.next() {
      if let element = transform(element) { return element }
    }
    return nil
  }

  /// Waits for what its sequence waits for. For the runtime.
  public mutating func makeNextWait() -> Base.NextWait { base.makeNextWait() }

  /// Takes the outcome of a wait. For the runtime.
  public mutating func advance(by event: Base.NextEvent) -> Select.Progress<Element> {
    switch base.advance(by: event) {
    case .element(let element): transform(element).map { .element($0) } ?? .waiting
    case .end: .end
    case .waiting: .waiting
    }
  }

  /// The sequence itself.
  public var lazy: LazyElements { self }

  /// What `transform` makes of each element.
  public func map<Result>(_ transform: @escaping (Element) -> Result) -> LazyElements<Base, Result> {
    LazyElements<Base, Result>(base) { [earlier = self.transform] in earlier($0).map(transform) }
  }

  /// The elements of which `isIncluded` is true.
  public func filter(_ isIncluded: @escaping (Element) -> Bool) -> LazyElements {
    LazyElements(base) { [earlier = transform] in earlier($0).flatMap { isIncluded($0) ? .some($0) : nil } }
  }

  /// What `transform` makes of each element; those of which it makes `nil` are left out.
  public func compactMap<Result>(_ transform: @escaping (Element) -> Result?) -> LazyElements<Base, Result> {
    LazyElements<Base, Result>(base) { [earlier = self.transform] in earlier($0).flatMap(transform) }
  }
}
