// SPDX-License-Identifier: Apache-2.0

// Several cases as one. Each is generic over what it combines: cases with handlers, or the operations under them. The
// whole list is a type, so a select whose cases stand in its braces is compiled for just these.

extension Select {
  /// Some cases and those behind them.
  public struct Pair<First, Second> {
    @usableFromInline let first: First
    @usableFromInline let second: Second

    @inlinable @inline(__always)
    init(_ first: First, _ second: Second) {
      self.first = first
      self.second = second
    }
  }

  /// What an `if` or a `switch` has chosen.
  public enum Either<First, Second> {
    /// The cases of the `if`.
    case first(First)
    /// Those of the `else`, or none.
    case second(Second)
  }

  /// No case.
  public struct None<Output> {
    @inlinable
    init() {}
  }

  /// A number of cases that is known at run time only.
  public struct Each<Cases> {
    @usableFromInline let elements: [Cases]

    @inlinable
    init(_ elements: [Cases]) { self.elements = elements }
  }
}

// MARK: - Pair

extension Select.Pair: CustomReflectable where First: SelectOperations, Second: SelectOperations {}

extension Select.Pair: SelectOperations where First: SelectOperations, Second: SelectOperations {
  @inlinable @inline(__always)
  public var count: Int { first.count + second.count }

  @inlinable @inline(__always)
  public var layout: Select.Layout { first.layout.followed(by: second.layout) }

  @inlinable @inline(__always)
  public func visit<Visitor: SelectVisitor>(
    _ index: Int, _ memory: UnsafeMutableRawPointer, _ visitor: Visitor
  ) -> Visitor.Result {
    if index < first.count { return first.visit(index, memory, visitor) }
    return second.visit(index - first.count, memory + first.layout.offset(of: second.layout), visitor)
  }
}

extension Select.Pair: SelectCases where First: SelectCases, Second: SelectCases, First.Output == Second.Output {
  public typealias Output = First.Output

  @inlinable @inline(__always)
  public var operations: Select.Pair<First.Operations, Second.Operations> {
    Select.Pair<First.Operations, Second.Operations>(first.operations, second.operations)
  }

  @inlinable @inline(__always)
  public static var seal: Select.Seal<Self> {
    _ = (First.seal, Second.seal)
    return Select.Seal()
  }

  @inlinable @inline(__always)
  public func keepAlive() {
    first.keepAlive()
    second.keepAlive()
  }
}

extension Select.Pair: AsyncSelectCase
where First: AsyncSelectCase, Second: AsyncSelectCase, First.Output == Second.Output {
  @inlinable
  nonisolated(nonsending) public func finish(
    _ index: Int, of operations: Operations, _ memory: UnsafeMutableRawPointer
  ) async throws -> Output {
    let (first, second) = (operations.first, operations.second)
    if index < first.count { return try await self.first.finish(index, of: first, memory) }
    let offset = first.layout.offset(of: second.layout)
    return try await self.second.finish(index - first.count, of: second, memory + offset)
  }
}

// MARK: - Block

extension Select {
  /// Some cases of a coroutine's select and the one behind them, as a closure.
  ///
  /// Not as a `Pair`: the optimizer takes a structure apart, and sees the handlers in it, only up to some six fields. A
  /// closure is one, however much it captures, and where it is called it is known: so it is never made at all.
  public struct Block<Operations: SelectOperations, Output>: SelectCase {
    /// Lists the operations, or, where it is given those, finishes the one at the index. One closure for both, so that what
    /// it captures is counted once.
    @usableFromInline let perform: (inout Operations?, Int, UnsafeMutableRawPointer?) -> Result<Output, any Error>?

    @inlinable @inline(__always)
    init<First: SelectCase<Output>, Second: SelectCase<Output>>(
      _ first: First, _ second: Second
    ) where Operations == Pair<First.Operations, Second.Operations> {
      _ = (First.seal, Second.seal)
      perform = { operations, index, memory in
        guard let known = operations, let memory else {
          operations = Pair(first.operations, second.operations)
          return nil
        }
        // Until here: the operations hold nothing themselves.
        first.keepAlive()
        second.keepAlive()
        return Result {
          if index < known.first.count { return try first.finish(index, of: known.first, memory) }
          let offset = known.first.layout.offset(of: known.second.layout)
          return try second.finish(index - known.first.count, of: known.second, memory + offset)
        }
      }
    }

    @inlinable @inline(__always)
    public var operations: Operations {
      var operations: Operations?
      _ = perform(&operations, 0, nil)
      return operations!
    }

    /// Of the cases: where it is made.
    @inlinable @inline(__always)
    public static var seal: Seal<Self> { Seal() }

    /// `finish` does it.
    @inlinable @inline(__always)
    public func keepAlive() {}

    @inlinable @inline(__always)
    public func finish(
      _ index: Int, of operations: Operations, _ memory: UnsafeMutableRawPointer
    ) throws -> Output {
      var known: Operations? = operations
      return try perform(&known, index, memory)!.get()
    }
  }
}

// MARK: - Either

extension Select.Either: CustomReflectable where First: SelectOperations, Second: SelectOperations {}

extension Select.Either: SelectOperations where First: SelectOperations, Second: SelectOperations {
  @inlinable @inline(__always)
  public var count: Int {
    switch self {
    case .first(let first): first.count
    case .second(let second): second.count
    }
  }

  @inlinable @inline(__always)
  public var layout: Select.Layout {
    switch self {
    case .first(let first): first.layout
    case .second(let second): second.layout
    }
  }

  @inlinable @inline(__always)
  public func visit<Visitor: SelectVisitor>(
    _ index: Int, _ memory: UnsafeMutableRawPointer, _ visitor: Visitor
  ) -> Visitor.Result {
    switch self {
    case .first(let first): first.visit(index, memory, visitor)
    case .second(let second): second.visit(index, memory, visitor)
    }
  }
}

extension Select.Either: SelectCases where First: SelectCases, Second: SelectCases, First.Output == Second.Output {
  public typealias Output = First.Output

  @inlinable @inline(__always)
  public var operations: Select.Either<First.Operations, Second.Operations> {
    switch self {
    case .first(let first): .first(first.operations)
    case .second(let second): .second(second.operations)
    }
  }

  @inlinable @inline(__always)
  public static var seal: Select.Seal<Self> {
    _ = (First.seal, Second.seal)
    return Select.Seal()
  }

  @inlinable @inline(__always)
  public func keepAlive() {
    switch self {
    case .first(let first): first.keepAlive()
    case .second(let second): second.keepAlive()
    }
  }
}

extension Select.Either: SelectCase where First: SelectCase, Second: SelectCase, First.Output == Second.Output {
  @inlinable @inline(__always)
  public func finish(
    _ index: Int, of operations: Operations, _ memory: UnsafeMutableRawPointer
  ) throws -> Output {
    switch (self, operations) {
    case (.first(let first), .first(let operations)): try first.finish(index, of: operations, memory)
    case (.second(let second), .second(let operations)): try second.finish(index, of: operations, memory)
    default: fatalError("the cases of a select and their operations differ")
    }
  }
}

extension Select.Either: AsyncSelectCase
where First: AsyncSelectCase, Second: AsyncSelectCase, First.Output == Second.Output {
  @inlinable
  nonisolated(nonsending) public func finish(
    _ index: Int, of operations: Operations, _ memory: UnsafeMutableRawPointer
  ) async throws -> Output {
    switch (self, operations) {
    case (.first(let first), .first(let operations)): try await first.finish(index, of: operations, memory)
    case (.second(let second), .second(let operations)): try await second.finish(index, of: operations, memory)
    default: fatalError("the cases of a select and their operations differ")
    }
  }
}

// MARK: - None

extension Select.None: SelectOperations, SelectCases, SelectCase, AsyncSelectCase {
  @inlinable @inline(__always)
  public var operations: Self { self }

  @inlinable @inline(__always)
  public static var seal: Select.Seal<Self> { Select.Seal() }

  @inlinable @inline(__always)
  public func keepAlive() {}

  @inlinable @inline(__always)
  public var count: Int { 0 }

  @inlinable @inline(__always)
  public var layout: Select.Layout { Select.Layout(size: 0, alignment: 1) }

  public func visit<Visitor: SelectVisitor>(
    _ index: Int, _ memory: UnsafeMutableRawPointer, _ visitor: Visitor
  ) -> Visitor.Result {
    fatalError("a select visits a case that is missing")
  }

  public func finish(
    _ index: Int, of operations: Operations, _ memory: UnsafeMutableRawPointer
  ) throws -> Output {
    fatalError("a select has chosen a case that is missing")
  }

  nonisolated(nonsending) public func finish(
    _ index: Int, of operations: Operations, _ memory: UnsafeMutableRawPointer
  ) async throws -> Output {
    fatalError("a select has chosen a case that is missing")
  }
}

// MARK: - Each

extension Select {
  /// The operations of a number of cases, and where each element's begin.
  public struct EachOperations<Element: SelectOperations>: SelectOperations {
    @usableFromInline
    struct Start {
      /// The index of its first operation.
      @usableFromInline let firstIndex: Int
      @usableFromInline let offset: Int

      @inlinable
      init(firstIndex: Int, offset: Int) {
        self.firstIndex = firstIndex
        self.offset = offset
      }
    }

    @usableFromInline let elements: [Element]
    @usableFromInline let starts: [Start]
    public let count: Int
    public let layout: Layout

    @inlinable
    init(_ elements: [Element]) {
      var (count, layout) = (0, Layout(size: 0, alignment: 1))
      var starts: [Start] = []
      starts.reserveCapacity(elements.count)
      for element in elements {
        starts.append(Start(firstIndex: count, offset: layout.offset(of: element.layout)))
        count += element.count
        layout = layout.followed(by: element.layout)
      }
      self.elements = elements
      self.starts = starts
      self.count = count
      self.layout = layout
    }

    /// Which element has the operation at `index`: the last one that begins there or before. By bisection.
    @inlinable
    func element(of index: Int) -> Int {
      var (low, high) = (0, starts.count)
      while high - low > 1 {
        let middle = (low + high) / 2
        if starts[middle].firstIndex <= index { low = middle } else { high = middle }
      }
      return low
    }

    @inlinable
    public func visit<Visitor: SelectVisitor>(
      _ index: Int, _ memory: UnsafeMutableRawPointer, _ visitor: Visitor
    ) -> Visitor.Result {
      let element = element(of: index)
      return elements[element].visit(
        index - starts[element].firstIndex, memory + starts[element].offset, visitor)
    }
  }
}

extension Select.Each: SelectCases where Cases: SelectCases {
  public typealias Output = Cases.Output

  @inlinable
  public var operations: Select.EachOperations<Cases.Operations> {
    Select.EachOperations<Cases.Operations>(elements.map(\.operations))
  }

  @inlinable
  public static var seal: Select.Seal<Self> {
    _ = Cases.seal
    return Select.Seal()
  }

  @inlinable
  public func keepAlive() { withExtendedLifetime(elements) {} }
}

extension Select.Each: SelectCase where Cases: SelectCase {
  @inlinable
  public func finish(
    _ index: Int, of operations: Operations, _ memory: UnsafeMutableRawPointer
  ) throws -> Output {
    let element = operations.element(of: index)
    let start = operations.starts[element]
    return try elements[element].finish(
      index - start.firstIndex, of: operations.elements[element], memory + start.offset)
  }
}

extension Select.Each: AsyncSelectCase where Cases: AsyncSelectCase {
  @inlinable
  nonisolated(nonsending) public func finish(
    _ index: Int, of operations: Operations, _ memory: UnsafeMutableRawPointer
  ) async throws -> Output {
    let element = operations.element(of: index)
    let start = operations.starts[element]
    return try await elements[element].finish(
      index - start.firstIndex, of: operations.elements[element], memory + start.offset)
  }
}

// MARK: - Cases of kinds that are known at run time only

extension Select {
  /// Operations of any kind.
  public struct ErasedOperations: SelectOperations {
    @usableFromInline let base: any SelectOperations

    @inlinable
    init(_ base: any SelectOperations) { self.base = base }

    @inlinable
    public var count: Int { base.count }

    @inlinable
    public var layout: Layout { base.layout }

    @inlinable
    public func visit<Visitor: SelectVisitor>(
      _ index: Int, _ memory: UnsafeMutableRawPointer, _ visitor: Visitor
    ) -> Visitor.Result {
      base.visit(index, memory, visitor)
    }
  }

  /// Cases of any kind, for coroutines.
  public struct Erased<Output>: SelectCase {
    @usableFromInline let base: any SelectCase<Output>

    @inlinable
    init(_ base: any SelectCase<Output>) {
      base.requireSeal()
      self.base = base
    }

    /// Of what it erases: where it is made.
    @inlinable
    public static var seal: Seal<Self> { Seal() }

    @inlinable
    public var operations: ErasedOperations { ErasedOperations(base.operations) }

    @inlinable
    public func keepAlive() { withExtendedLifetime(base) {} }

    @inlinable
    public func finish(
      _ index: Int, of operations: Operations, _ memory: UnsafeMutableRawPointer
    ) throws -> Output {
      func finish<Base: SelectCase<Output>>(_ base: Base) throws -> Output {
        try base.finish(index, of: base.operations, memory)
      }
      return try finish(base)
    }
  }

  /// Cases of any kind, for `async` code.
  public struct AsyncErased<Output>: AsyncSelectCase {
    @usableFromInline let base: any AsyncSelectCase<Output>

    @inlinable
    init(_ base: any AsyncSelectCase<Output>) {
      base.requireSeal()
      self.base = base
    }

    /// Of what it erases: where it is made.
    @inlinable
    public static var seal: Seal<Self> { Seal() }

    @inlinable
    public var operations: ErasedOperations { ErasedOperations(base.operations) }

    @inlinable
    public func keepAlive() { withExtendedLifetime(base) {} }

    @inlinable
    nonisolated(nonsending) public func finish(
      _ index: Int, of operations: Operations, _ memory: UnsafeMutableRawPointer
    ) async throws -> Output {
      nonisolated(nonsending) func finish<Base: AsyncSelectCase<Output>>(_ base: Base) async throws -> Output {
        try await base.finish(index, of: base.operations, memory)
      }
      return try await finish(base)
    }
  }
}

extension Select {
  /// A case of a coroutine's select in `async` code.
  public struct Awaited<Base: SelectCase>: AsyncSelectCase {
    public typealias Output = Base.Output

    @usableFromInline let base: Base

    @inlinable
    init(_ base: Base) { self.base = base }

    @inlinable
    public var operations: Base.Operations { base.operations }

    @inlinable
    public static var seal: Seal<Self> {
      _ = Base.seal
      return Seal()
    }

    @inlinable
    public func keepAlive() { base.keepAlive() }

    @inlinable
    nonisolated(nonsending) public func finish(
      _ index: Int, of operations: Base.Operations, _ memory: UnsafeMutableRawPointer
    ) async throws -> Base.Output {
      try base.finish(index, of: operations, memory)
    }
  }
}
