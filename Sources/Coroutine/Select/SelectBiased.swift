// SPDX-License-Identifier: Apache-2.0

/// Waits until one of several operations can be done, and does that one; of those that can be done at once the first.
///
/// ```swift
/// try selectBiased {
///   commands.onReceive { try obey($0) }        // before any frame, however many there are
///   frames.onReceive { try show($0) }
/// }
/// ```
///
/// As `select(_:)`, but for that order: a case that is always ready starves those behind it. (tokio's `biased`, and what
/// Kotlin's `select` does.)
///
/// - Throws: as `select(_:)`.
/// - Precondition: called inside a coroutine, and there is at least one case: traps elsewhere.
@inlinable
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func selectBiased<Output, Cases: SelectCase>(
  @Select.Builder<Output> _ cases: () throws -> Cases
) throws -> Output where Cases.Output == Output {
  try Select.run(cases(), isBiased: true)
}

/// The form of `selectBiased` for a number of cases that is known at run time only.
///
/// ```swift
/// let first = try selectBiased(lanes.map { lane in lane.onReceive { $0 } })      // the first lane is the fastest
/// ```
///
/// - Throws: as `select(_:)`.
/// - Precondition: called inside a coroutine, and there is at least one case: traps elsewhere.
@inlinable
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func selectBiased<Case: SelectCase>(_ cases: [Case]) throws -> Case.Output {
  try Select.run(Select.Each(cases), isBiased: true)
}

/// The form of `selectBiased` for cases of any kinds.
///
/// - Throws: as `select(_:)`.
/// - Precondition: called inside a coroutine, and there is at least one case: traps elsewhere.
@inlinable
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func selectBiased<Output>(_ cases: [any SelectCase<Output>]) throws -> Output {
  try Select.run(Select.Each(cases.map { Select.Erased($0) }), isBiased: true)
}
