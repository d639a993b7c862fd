// SPDX-License-Identifier: Apache-2.0

// Asynchronous generators as cases of a select. (The others have nothing to wait for: their bodies run when they are asked.)

extension AsyncGenerator {
  /// A case of a `select`: takes the next element, if there is one before another case is chosen.
  ///
  /// ```swift
  /// try select {
  ///   rows.onNext { row in if let row { show(row) } else { isAtEnd = true } }
  ///   stop.onReceive { _ in isStopped = true }
  /// }
  /// ```
  ///
  /// A select that finds no element lets the body go on to its next `yield`, whichever case it chooses then. The element of a
  /// case that is not chosen waits for the next consumer: nothing is lost, and the body is never ahead by more than that one.
  ///
  /// - Parameter handler: gets the element; `nil` at the end, and from then on. Runs after the choice, on the calling coroutine;
  ///   may suspend and throw. In its place `select` throws what the body has thrown, once.
  /// - Precondition: not in the body itself: traps otherwise.
  public func onNext<Output>(
    _ handler: @escaping (Element?) throws -> Output
  ) -> Select.Case<Select.GeneratorNext<Element>, Output> {
    Select.Case(self) { [owner] element in
      if element == nil { try owner.storage.endWaiting(.event, false) }
      return try handler(element)
    }
  }

  /// A case of a `select` in `async` code: takes the next element, if there is one before another case is chosen.
  ///
  /// As the form for coroutines.
  ///
  /// - Parameter handler: gets the element; `nil` at the end, and from then on. Runs after the choice, where the caller runs.
  public func onNext<Output>(
    _ handler: nonisolated(nonsending) @escaping (Element?) async throws -> Output
  ) -> Select.AsyncCase<Select.GeneratorNext<Element>, Output> {
    // Without a capture list: see the async `CoroutineMutex.onLock`.
    Select.AsyncCase(self) { element in
      if element == nil { try await owner.storage.endWaiting(.event, false) }
      return try await handler(element)
    }
  }
}

// Without these the compiler would complain about the braces of the select, and not of the case.

extension Generator {
  @available(*, unavailable, message: "a Generator has nothing to wait for: call 'next()'. An AsyncGenerator has.")
  public func onNext<Output>(
    _ handler: @escaping (Element?) throws -> Output
  ) -> Select.Case<Select.Otherwise, Output> {
    fatalError("unavailable")
  }
}

extension ThrowingGenerator {
  @available(
    *, unavailable, message: "a ThrowingGenerator has nothing to wait for: call 'next()'. An AsyncGenerator has."
  )
  public func onNext<Output>(
    _ handler: @escaping (Element?) throws -> Output
  ) -> Select.Case<Select.Otherwise, Output> {
    fatalError("unavailable")
  }
}

extension Select {
  /// What a case waits for that takes an element of an asynchronous generator: that, or `nil` at the end.
  public struct GeneratorNext<Element: Sendable>: SelectOperation {
    private typealias Node = ChannelNode<Element>

    private let storage: Unmanaged<AsyncGeneratorStorage<Element>>

    public init(_ source: AsyncGenerator<Element>) { storage = .passUnretained(source.owner.storage) }

    public var layout: Layout { Layout(of: Node.self) }

    public var target: Target { Target(.waitable(.fromOpaque(storage.toOpaque()), .receive)) }

    public func prepare(_ node: UnsafeMutableRawPointer) { storage._withUnsafeGuaranteedRef { $0.want() } }

    public func isPrepared(_ node: UnsafeMutableRawPointer) -> Bool {
      storage._withUnsafeGuaranteedRef { $0.machine.selectMayWait }
    }

    public func attempt(_ node: UnsafeMutableRawPointer, for party: Party) -> Attempt {
      let node = Node.initialize(node, for: party, element: nil)
      let attempt = storage._withUnsafeGuaranteedRef { $0.machine.receiveNow(node) }
      // Nothing is in it: that it goes under the lock runs no code.
      if case .wait = attempt { node.deinitialize(count: 1) }
      return Attempt(attempt)
    }

    public func enqueue(_ node: UnsafeMutableRawPointer, for party: Party) {
      let node = Node.initialize(node, for: party, element: nil)
      storage._withUnsafeGuaranteedRef { $0.machine.wait(node) }
    }

    public func dequeue(_ node: UnsafeMutableRawPointer) -> Attempt {
      Attempt(storage._withUnsafeGuaranteedRef { $0.machine.withdraw(Node.at(node)) })
    }

    public func discard(_ node: UnsafeMutableRawPointer) { Node.at(node).deinitialize(count: 1) }

    public func take(_ node: UnsafeMutableRawPointer) -> Element? { Node.takeElement(node) }
  }
}
