// SPDX-License-Identifier: Apache-2.0

/// Waits until one of several operations can be done, and does that one: sends, receives, ends of coroutines, promises.
///
/// ```swift
/// let message: Message = try select {
///   jobs.onReceive { job in .job(job) }
///   results.onSend(result) { .sent }
///   worker.onValue { value in .finished(value) }
///   onTimeout(.seconds(1)) { .late }
/// }
/// ```
///
/// Of those that can be done at once each is as likely to be chosen. The others have no effect: an element that was not
/// sent is still the sender's, one that was not received still in its channel. A case may be left out with `if`, chosen
/// with `switch`, repeated with `for`, and be made before, in an array of `any SelectCase<Output>`. With `otherwise` it does
/// not wait at all.
///
/// Takes time proportional to the number of cases, and allocates nothing unless there are `for` loops or arrays (or more
/// cases than fit into a kilobyte).
///
/// - Parameter cases: evaluated once, before anything is chosen.
/// - Returns: what the chosen case's handler returns. It runs on the calling coroutine, without a lock; it may suspend.
/// - Throws: `CancellationError` if the caller is cancelled before a case was chosen; what the chosen case throws:
///   `ChannelClosed`, the error of a coroutine or a promise, what its handler throws.
/// - Precondition: called inside a coroutine, and there is at least one case: traps elsewhere.
@inlinable @inline(__always)
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func select<Output, Cases: SelectCase>(
  @Select.Builder<Output> _ cases: () throws -> Cases
) throws -> Output where Cases.Output == Output {
  try Select.run(cases())
}

/// Waits until one of several operations can be done, and does that one. The form for a number of cases that is known at
/// run time only; see `select(_:)` with braces.
///
/// ```swift
/// let first = try select(sensors.map { sensor in sensor.onReceive { $0 } })
/// ```
///
/// - Throws: as the other one.
/// - Precondition: called inside a coroutine, and there is at least one case: traps elsewhere.
@inlinable
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func select<Case: SelectCase>(_ cases: [Case]) throws -> Case.Output {
  try Select.run(Select.Each(cases))
}

/// Waits until one of several operations of any kinds can be done, and does that one.
///
/// ```swift
/// var cases: [any SelectCase<String>] = sensors.map { sensor in sensor.onReceive { "\($0)" } }
/// cases.append(onTimeout(.seconds(1)) { "late" })
/// print(try select(cases))
/// ```
///
/// - Throws: as the other ones.
/// - Precondition: called inside a coroutine, and there is at least one case: traps elsewhere.
@inlinable
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func select<Output>(_ cases: [any SelectCase<Output>]) throws -> Output {
  try Select.run(Select.Each(cases.map { Select.Erased($0) }))
}

extension Select {
  @inlinable @inline(__always)
  static func run<Cases: SelectCase>(_ cases: Cases, isBiased: Bool = false) throws -> Cases.Output {
    _ = Cases.seal
    // Not counted: it keeps itself alive while it runs.
    let core = Unmanaged.passUnretained(CoroutineCore.running(for: "select"))
    let operations = cases.operations
    let (count, layout) = (operations.count, operations.layout)
    return try withUnsafeTemporaryAllocation(byteCount: max(layout.size, 1), alignment: layout.alignment) { memory in
      // Not empty: it has an address.
      let memory = memory.baseAddress!
      guard let index = choose(operations, count, memory, for: core, isBiased: isBiased) else {
        throw CancellationError()
      }
      // Until here: the operations hold nothing themselves.
      cases.keepAlive()
      return try cases.finish(index, of: operations, memory)
    }
  }
}
