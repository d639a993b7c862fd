// SPDX-License-Identifier: Apache-2.0

/// A sequence in a coroutine whose next element can be waited for together with others: `Channel.received`, and those
/// of a `ChannelReceiver` and of a `BroadcastSubscription`; `AsyncGenerator.elements`. `merge`, `zip`, `combineLatest`,
/// `debounce`, `throttle` and `chunks` work on it, and make another one of it, as do `map` and `filter` behind `lazy`; there is
/// nothing to conform to.
///
/// A sequence can't throw: a channel that was closed with an error just ends, as in a loop over `received`, and so do the
/// sequences that are made of it. The channel's `whenClosed` gives the error; of a subscription, `receive()` behind the loop
/// throws it.
///
/// It waits in steps: `makeNextWait()` lists what it waits for now, a select does one of these, and `advance(by:)` says what
/// that has come to. What has not been chosen has had no effect, so an operator between two waits holds no more than the elements
/// that it shows to be its own: a chunk that is not full, one that is followed by no quiet yet, one half of a pair.
public protocol SelectableSequence<Element>: Sequence, IteratorProtocol {
  /// What a wait has come to. For the runtime.
  associatedtype NextEvent
  /// The cases of a wait. For the runtime.
  associatedtype NextWait: SelectCase where NextWait.Output == NextEvent

  /// What has to happen before there is an element, or more of it. At the end it is ready at once. For the runtime.
  mutating func makeNextWait() -> NextWait

  /// Takes the outcome of a wait. For the runtime.
  mutating func advance(by event: NextEvent) -> Select.Progress<Element>
}

extension Select {
  /// How far a sequence has come by one wait. For the runtime.
  public enum Progress<Element> {
    /// The next element.
    case element(Element)
    /// There is no element any more.
    case end
    /// There is no element yet: it waits again.
    case waiting
  }
}

extension SelectableSequence {
  /// The next element; `nil` at the end, and when the caller is cancelled: what the sequence has kept back so far then comes
  /// at the next call, if there is one that is not cancelled.
  mutating func nextBySelecting() -> Element? {
    while true {
      let event: NextEvent
      // The cases themselves throw nothing: the caller was cancelled.
      do { event = try Select.run(makeNextWait()) } catch { return nil }
      switch advance(by: event) {
      case .element(let element): return element
      case .end: return nil
      case .waiting: continue
      }
    }
  }
}

// MARK: - What operators begin with

extension SelectableSequence where NextEvent == Element? {
  /// An element, or the end.
  public mutating func advance(by event: Element?) -> Select.Progress<Element> {
    event.map { .element($0) } ?? .end
  }
}

extension ReceivedElements: SelectableSequence where Element: Copyable {
  /// A case of a `select`: `Channel.onNext(_:)`.
  public func onNext<Output>(
    _ handler: @escaping (Element?) throws -> Output
  ) -> Select.Case<Select.Next<Element>, Output> {
    Channel(storage: storage).onNext(handler)
  }

  /// Waits for an element, or the end. For the runtime.
  public func makeNextWait() -> Select.Case<Select.Next<Element>, Element?> { onNext { $0 } }
}

extension ChannelReceiver.Elements: SelectableSequence where Element: Copyable {
  /// A case of a `select`: `Channel.onNext(_:)`.
  public func onNext<Output>(
    _ handler: @escaping (Element?) throws -> Output
  ) -> Select.Case<Select.Next<Element>, Output> {
    receiver.onNext(handler)
  }

  /// Waits for an element, or the end. For the runtime.
  public func makeNextWait() -> Select.Case<Select.Next<Element>, Element?> { onNext { $0 } }
}

extension BroadcastSubscription.Elements: SelectableSequence {
  /// A case of a `select`: `BroadcastSubscription.onNext(_:)`.
  public func onNext<Output>(
    _ handler: @escaping (Element?) throws -> Output
  ) -> Select.Case<Select.BroadcastNext<Element>, Output> {
    subscription.onNext(handler)
  }

  /// Waits for an element, or the end. For the runtime.
  public func makeNextWait() -> Select.Case<Select.BroadcastNext<Element>, Element?> { onNext { $0 } }
}

extension AsyncGenerator.Elements: SelectableSequence {
  /// A case of a `select`: `AsyncGenerator.onNext(_:)`, where an error of the body is the end.
  public func onNext<Output>(
    _ handler: @escaping (Element?) throws -> Output
  ) -> Select.Case<Select.GeneratorNext<Element>, Output> {
    Select.Case(generator) { [generator] element in
      if element == nil { generator.reportFailureAtTheEnd() }
      return try handler(element)
    }
  }

  /// Waits for an element, or the end. For the runtime.
  public func makeNextWait() -> Select.Case<Select.GeneratorNext<Element>, Element?> { onNext { $0 } }
}
