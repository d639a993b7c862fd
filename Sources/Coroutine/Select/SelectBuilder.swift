// SPDX-License-Identifier: Apache-2.0

extension Select {
  /// Collects the cases of a select in a coroutine.
  @resultBuilder
  public enum Builder<Output>: CaseCollecting {
    /// One case.
    @inlinable @inline(__always)
    public static func buildExpression<Operation: SelectOperation>(
      _ element: Case<Operation, Output>
    ) -> Case<Operation, Output> { element }

    /// Cases that were made before.
    @inlinable
    public static func buildExpression(_ cases: [any SelectCase<Output>]) -> Each<Erased<Output>> {
      Each(cases.map { Erased($0) })
    }

    /// The first line of cases.
    @inlinable @inline(__always)
    public static func buildPartialBlock<First: SelectCases<Output>>(first: First) -> First { first }

    /// The cases so far, and those of the next line.
    @inlinable @inline(__always)
    public static func buildPartialBlock<First: SelectCase<Output>, Second: SelectCase<Output>>(
      accumulated: First, next: Second
    ) -> Block<Pair<First.Operations, Second.Operations>, Output> {
      Block(accumulated, next)
    }
  }

  /// Collects the cases of a select in `async` code.
  @resultBuilder
  public enum AsyncBuilder<Output>: CaseCollecting {
    /// One case.
    @inlinable
    public static func buildExpression<Operation: SelectOperation>(
      _ element: AsyncCase<Operation, Output>
    ) -> AsyncCase<Operation, Output> { element }

    /// Cases that were made before.
    @inlinable
    public static func buildExpression(_ cases: [any AsyncSelectCase<Output>]) -> Each<AsyncErased<Output>> {
      Each(cases.map { AsyncErased($0) })
    }

    /// The first line of cases.
    @inlinable @inline(__always)
    public static func buildPartialBlock<First: SelectCases<Output>>(first: First) -> First { first }

    /// The cases so far, and those of the next line.
    @inlinable @inline(__always)
    public static func buildPartialBlock<First: SelectCases<Output>, Second: SelectCases<Output>>(
      accumulated: First, next: Second
    ) -> Pair<First, Second> {
      Pair(accumulated, next)
    }
  }

  /// The common part of both builders: lists the cases in a type that says how many there are and of which kinds.
  public protocol CaseCollecting<Output> {
    /// What the handlers return.
    associatedtype Output
  }
}

extension Select.CaseCollecting {
  /// `if` without `else`: a case that may be missing.
  @inlinable @inline(__always)
  public static func buildOptional<Cases: SelectCases<Output>>(_ cases: Cases?)
    -> Select.Either<Cases, Select.None<Output>>
  {
    cases.map { .first($0) } ?? .second(Select.None())
  }

  /// `if` and `else`, or `switch`: the cases of the first branch.
  @inlinable @inline(__always)
  public static func buildEither<First: SelectCases<Output>, Second: SelectCases<Output>>(
    first: First
  ) -> Select.Either<First, Second> {
    .first(first)
  }

  /// `if` and `else`, or `switch`: the cases of the other branch.
  @inlinable @inline(__always)
  public static func buildEither<First: SelectCases<Output>, Second: SelectCases<Output>>(
    second: Second
  ) -> Select.Either<First, Second> {
    .second(second)
  }

  /// `for`: as many cases as there are elements.
  @inlinable
  public static func buildArray<Cases: SelectCases<Output>>(_ cases: [Cases]) -> Select.Each<Cases> {
    Select.Each(cases)
  }
}
