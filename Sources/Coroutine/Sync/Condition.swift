// SPDX-License-Identifier: Apache-2.0

/// What holders of a mutex wait for: that another one changes its value.
///
/// ```swift
/// let queue = CoroutineMutex([Int]())
/// let notEmpty = Condition(of: queue, name: "not empty")
///
/// Coroutine {
///   let first = try queue.withLock { items in
///     try notEmpty.wait(&items) { !$0.isEmpty }
///     return items.removeFirst()
///   }
///   print(first)
/// }
/// Coroutine {
///   try queue.withLock { $0.append(1) }
///   notEmpty.signal()
/// }
/// ```
///
/// `wait` is given the value, since others change it meanwhile: parts of it that the closure has read before belong to
/// them. The compiler rejects keeping a part beyond the closure (but for a returned one), and not a use in the closure itself.
/// Another value than the mutex's traps. (Not where it is a function or a metatype, or a tuple or an optional with one in it: the
/// compiler passes copies of these.)
///
/// A signal wakes the longest waiter, with the mutex held or without; where there is no waiter it has no effect. None
/// is lost. A waiter counts as waiting before it gives the mutex back. If it is cancelled at the very moment in which
/// it is signalled, either it returns or the next one is woken. Copies are the same condition.
public struct Condition<Value: ~Copyable>: Sendable {
  let storage: ConditionStorage
  private let mutex: MutexStorage<Value>

  /// A condition of what `mutex` guards.
  ///
  /// - Parameters:
  ///   - mutex: the one that is held where it is waited for.
  ///   - name: for backtraces and messages.
  public init(of mutex: CoroutineMutex<Value>, name: String = "") {
    self.mutex = mutex.storage
    storage = ConditionStorage(mutex: mutex.storage, name: name)
  }

  /// The name it was given; empty without one.
  public var name: String { storage.name }

  /// Gives the mutex back, suspends the calling coroutine until the condition is signalled, and takes the mutex again.
  ///
  /// The reason for the signal may be gone again by then: test it in a loop, or use `wait(_:timeout:until:)`.
  ///
  /// - Parameters:
  ///   - value: what the closure of `withLock` was given; on return it has the changes of the others.
  ///   - timeout: how long to wait for the signal at most; zero or less: only give others the mutex; `nil`: without a
  ///     limit. To get the mutex back may take longer.
  /// - Throws: `CancellationError` if the caller is cancelled before the signal; `TimeoutError` if the time was up before.
  ///   The mutex is held then too.
  /// - Precondition: called inside a coroutine, in the closure that holds the mutex: traps elsewhere, also in the consumer of a
  ///   generator whose body has yielded in there, and in another generator that such a body yields from. Not inside an access to a
  ///   variable that has begun in the closure (a mutating call, or an `inout` argument): traps.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func wait(_ value: inout sending Value, timeout: Duration? = nil) throws {
    try wait(&value, until: WaitDeadline.after(timeout)).check(timeout)
  }

  /// Waits, as `wait(_:timeout:)`, until `predicate` is true of the value; not at all if it is already.
  ///
  /// - Parameters:
  ///   - value: what the closure of `withLock` was given.
  ///   - timeout: how long to wait at most, all in all; zero or less: does not wait; `nil`: without a limit.
  ///   - predicate: runs with the mutex held.
  /// - Throws: what `predicate` throws; `CancellationError`, `TimeoutError`. The mutex is held in any case.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func wait(
    _ value: inout sending Value, timeout: Duration? = nil, until predicate: (inout sending Value) throws -> Bool
  ) throws {
    let deadline = WaitDeadline.after(timeout)
    while try !predicate(&value) {
      let cause = wait(&value, until: deadline)
      if cause == .timedOut, try predicate(&value) { return }
      try cause.check(timeout)
    }
  }

  /// Gives the mutex back, suspends the calling task until the condition is signalled, and takes the mutex again.
  ///
  /// As the synchronous form.
  nonisolated(nonsending) public func wait(_ value: inout sending Value, timeout: Duration? = nil) async throws {
    try await wait(&value, until: WaitDeadline.after(timeout)).check(timeout)
  }

  /// Waits, as `wait(_:timeout:)`, until `predicate` is true of the value; not at all if it is already.
  ///
  /// As the synchronous form.
  nonisolated(nonsending) public func wait(
    _ value: inout sending Value, timeout: Duration? = nil, until predicate: (inout sending Value) throws -> Bool
  ) async throws {
    let deadline = WaitDeadline.after(timeout)
    while try !predicate(&value) {
      let cause = await wait(&value, until: deadline)
      if cause == .timedOut, try predicate(&value) { return }
      try cause.check(timeout)
    }
  }

  /// Wakes the one that waits longest. Callable from any thread, with the mutex held or without.
  public func signal() {
    storage.signal()
  }

  /// Wakes all that wait now; one after another gets the mutex. Callable from any thread, with the mutex held or without.
  public func broadcast() {
    storage.broadcast()
  }

  private func wait(_ value: inout Value, until deadline: UInt64) -> WakeCause {
    storage.requireHeld(by: CoroutineCore.running(for: "Condition.wait"))
    return withUnsafeMutablePointer(to: &value) { pointer in
      exchangeValue(pointer)
      defer { exchangeValue(pointer) }
      return storage.wait(until: deadline)
    }
  }

  nonisolated(nonsending) private func wait(_ value: inout Value, until deadline: UInt64) async -> WakeCause {
    storage.requireHeldByTask()
    // A parameter stays where it is as long as the function runs; the closure can't wait.
    let pointer = withUnsafeMutablePointer(to: &value) { $0 }
    exchangeValue(pointer)
    defer { exchangeValue(pointer) }
    return await storage.wait(until: deadline)
  }

  /// Puts the value where the next holder looks for it, or takes it from there. It usually lies there: unless the compiler
  /// has made a temporary copy of the argument. By the holder alone.
  func exchangeValue(_ pointer: UnsafeMutablePointer<Value>) {
    guard pointer != mutex.value, MemoryLayout<Value>.size > 0 else { return }
    require(
      mayBeCopiedForACall(Value.self),
      "\(named("condition", name)) was given another value than that of \(mutex.label): pass what the closure of withLock "
        + "was given, itself and not a copy of it")
    swap(&pointer.pointee, &mutex.value.pointee)
  }
}

extension Condition where Value == Void {
  /// Gives the mutex back, suspends the calling coroutine until the condition is signalled, and takes the mutex again.
  ///
  /// As the form with a value.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func wait(timeout: Duration? = nil) throws {
    try storage.wait(until: WaitDeadline.after(timeout)).check(timeout)
  }

  /// Waits until `predicate` is true; not at all if it is already. It runs with the mutex held.
  ///
  /// As the form with a value.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func wait(timeout: Duration? = nil, until predicate: () throws -> Bool) throws {
    var nothing: Void
    try wait(&nothing, timeout: timeout) { _ in try predicate() }
  }

  /// Gives the mutex back, suspends the calling task until the condition is signalled, and takes the mutex again.
  ///
  /// As the form with a value.
  nonisolated(nonsending) public func wait(timeout: Duration? = nil) async throws {
    try await storage.wait(until: WaitDeadline.after(timeout)).check(timeout)
  }

  /// Waits until `predicate` is true; not at all if it is already. It runs with the mutex held.
  ///
  /// As the form with a value.
  nonisolated(nonsending) public func wait(timeout: Duration? = nil, until predicate: () throws -> Bool) async throws {
    var nothing: Void
    try await wait(&nothing, timeout: timeout) { _ in try predicate() }
  }
}

/// Whether the compiler passes a variable of the type, `inout` and generic, by a temporary copy: a function, a metatype, and a
/// tuple or an optional of one. All else is passed where it lies.
private func mayBeCopiedForACall<Value: ~Copyable>(_ type: Value.Type) -> Bool {
  // A type is the address of its metadata.
  mayBeCopiedForACall(metadata: unsafeBitCast(type, to: UnsafePointer<UInt>.self))
}

private func mayBeCopiedForACall(metadata: UnsafePointer<UInt>) -> Bool {
  func mayBeCopied(at word: Int) -> Bool {
    UnsafePointer(bitPattern: metadata[word]).map { mayBeCopiedForACall(metadata: $0) } ?? false
  }
  // Metadata begin with their kind.
  switch metadata[0] {
  // An optional: behind its descriptor is what it wraps.
  case 0x202: return mayBeCopied(at: 2)
  // A tuple: behind the count and the labels are the elements, each with its offset.
  case 0x301: return (0..<Int(metadata[1])).contains { mayBeCopied(at: 3 + 2 * $0) }
  // A function, and a metatype.
  case 0x302, 0x304: return true
  // A class, a structure, an enumeration, an existential of whichever kind.
  default: return false
  }
}
