// SPDX-License-Identifier: Apache-2.0

/// A sequence in a coroutine whose next element can be waited for together with others: `Channel.received`, and those
/// of a `ChannelReceiver` and of a `BroadcastSubscription`; `AsyncGenerator.elements`. `merge`, `combineLatest`, `debounce` and `chunks` work on
/// it; there is nothing to conform to. (`zip` is that of Swift's library, which takes any two sequences.)
public protocol SelectableSequence<Element>: Sequence, IteratorProtocol {
  /// How a select waits for the next element. For the runtime.
  associatedtype NextOperation: SelectOperation where NextOperation.Value == Element?

  /// A case of a `select`: the next element, or `nil` at the end.
  func onNext<Output>(
    _ handler: @escaping (Element?) throws -> Output
  ) -> Select.Case<NextOperation, Output>
}

extension ReceivedElements: SelectableSequence where Element: Copyable {
  /// A case of a `select`: `Channel.onNext(_:)`.
  public func onNext<Output>(
    _ handler: @escaping (Element?) throws -> Output
  ) -> Select.Case<Select.Next<Element>, Output> {
    Channel(storage: storage).onNext(handler)
  }
}

extension ChannelReceiver.Elements: SelectableSequence where Element: Copyable {
  /// A case of a `select`: `Channel.onNext(_:)`.
  public func onNext<Output>(
    _ handler: @escaping (Element?) throws -> Output
  ) -> Select.Case<Select.Next<Element>, Output> {
    receiver.onNext(handler)
  }
}

extension BroadcastSubscription.Elements: SelectableSequence {
  /// A case of a `select`: `BroadcastSubscription.onNext(_:)`.
  public func onNext<Output>(
    _ handler: @escaping (Element?) throws -> Output
  ) -> Select.Case<Select.BroadcastNext<Element>, Output> {
    subscription.onNext(handler)
  }
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
}
