// SPDX-License-Identifier: Apache-2.0

import CCoroutine

/// A unit of work with a stack of its own: it can suspend anywhere, in a callback of a C library or deep in a recursion,
/// without any function in between being `async`.
///
/// ```swift
/// let sum = Coroutine {
///   var total = 0
///   for _ in 1...10 {
///     total += try numbers.receive()      // suspends; the thread goes on with other coroutines
///   }
///   return total
/// }
/// print(try await sum.get())
/// ```
///
/// It mirrors `Task`: it starts by itself, it runs to its end even without a handle, and `get()` waits for its result.
/// An error that the body throws comes out of `get()`; one that no caller gets is reported once, through
/// `CoroutineErrors.unhandled`, when the last handle is gone.
///
/// What belongs to a coroutine goes with it from thread to thread: its task-local values (it inherits its creator's) and
/// the accesses to variables that are open in its frames. Thread-locals and `errno` do not. A lock that must be unlocked
/// by the thread that locked it (`Mutex`, a pthread lock, `queue.sync`) must not be held while it suspends, and it must
/// not suspend inside `assumeIsolated`: it would go on elsewhere. (`CoroutineMutex` may be held; `withoutSuspension` makes
/// sure; `withThreadPinned` keeps the thread.) A `Mutex` of the module `Synchronization`, which uses a thread-local itself,
/// is to be locked in an `@inline(never)` function that does not suspend: <doc:SwiftRules> says why. A
/// coroutine that suspends in the middle of an access keeps it open. If another one uses the variable meanwhile, that traps
/// where coroutines share variables: on the main actor, on an event loop of SwiftNIO, in a `runUntilComplete`. On a pool the
/// compiler lets them share none, but for a case that <doc:Isolation> lists. (Debug builds report the first such suspension.)
public struct Coroutine<Success: Sendable, Failure: Error>: Sendable {
  @usableFromInline let storage: CoroutineStorage<Success, Failure>

  /// Starts a coroutine: behind those that are ready already; the caller goes on first.
  ///
  /// It runs on the scheduler of the coroutine that creates it, or, created elsewhere, on the pool. From a closure or
  /// method of the main actor it runs on the main queue, and may use what the main actor isolates:
  ///
  /// ```swift
  /// @MainActor final class Counter {
  ///   var count = 0
  ///   func start() {
  ///     Coroutine { self.count = try numbers.receive() }
  ///   }
  /// }
  /// ```
  ///
  /// The top level of `main.swift` is the main actor's too. What blocks the main thread there (`receiveBlocking()`, a
  /// semaphore) keeps such a coroutine from running, and may wait for it for ever: use `await`, or say `on: .pool`.
  ///
  /// - Parameters:
  ///   - name: for backtraces and messages.
  ///   - stackSize: usable bytes, rounded up to pages and to 64 KiB; `nil` for the default (256 KiB). What the Swift runtime
  ///     needs is in it: up to 40 KiB at the first look at a nested generic type, its printing or its name. A size that cannot
  ///     be had, or no memory when it first runs, ends the coroutine with a `StackError`, which `get()` throws.
  ///   - body: what it does. Runs on several threads, one after another. To hand over an object that is not `Sendable`,
  ///     name the scheduler: `init(on:name:stackSize:_:)`.
  /// - Precondition: `body` is not isolated to an actor, except the main actor: traps otherwise.
  @discardableResult
  @inlinable
  public init(
    name: String = "", stackSize: Int? = nil,
    @_inheritActorContext @_implicitSelfCapture @_eagerMove _ body:
      @Sendable @escaping @isolated(any) () throws(Failure) -> Success
  ) {
    // By `@_eagerMove` the body moves into the coroutine: a copy would be counted up and down.
    let storage = CoroutineStorage.create(
      on: .inherited(isolation: body.isolation), name: name, stackSize: stackSize, body: withoutIsolation(body))
    storage.schedule()
    self.storage = storage
  }

  /// Starts a coroutine on a scheduler: a `DispatchQueue`, `.pool`, one of your own.
  ///
  /// The other parameters are those of `init(name:stackSize:_:)`. The compiler refuses a function of the main actor, or
  /// of another global actor: it would run beside its actor. Give one of the main actor without a scheduler: it runs on
  /// the main queue by itself. The compiler does not refuse a method of an `actor`, inside of that actor, since Swift
  /// 6.3 takes it for a function of no actor: it would run beside it.
  @discardableResult
  @inlinable
  public init(
    on scheduler: some Scheduler, name: String = "", stackSize: Int? = nil,
    _ body: sending (() throws(Failure) -> Success)?
  ) {
    guard let body else { missingFunction() }
    let storage = CoroutineStorage.create(
      on: SchedulerReference(scheduler), name: name, stackSize: stackSize, body: body)
    storage.schedule()
    self.storage = storage
  }

  /// A number that no other coroutine of the process has.
  public var id: UInt64 { storage.id }

  /// The name it was given; empty without one.
  public var name: String { storage.name }

  /// The priority that it was given, or that of the task or coroutine that created it; `nil`: neither has one. See
  /// `init(priority:name:stackSize:_:)` for what it is good for.
  public var priority: TaskPriority? { storage.priority }

  /// What it is doing at this moment; it may be doing something else in the next. Callable from any thread.
  public var state: CoroutineState { storage.state.load(ordering: .relaxed) }

  /// Whether it has ended: `get()` would not wait.
  public var isFinished: Bool { storage.isFinished }
}

extension Coroutine where Success == Never, Failure == Never {
  /// Starts a coroutine that has nothing of its creator: neither its scheduler, its task-local values nor its priority.
  /// It runs on the pool, or on `scheduler`, and only callers of `get()` wait for it.
  ///
  /// The exception, to be spelled out: `withScope` has coroutines that end with what they are for.
  ///
  /// - Parameters:
  ///   - scheduler: where it runs.
  ///   - name: for backtraces and messages.
  ///   - stackSize: usable bytes, as in `init(name:stackSize:_:)`; `nil` for the default.
  ///   - body: what it does.
  @discardableResult
  @inlinable
  public static func detached<Value: Sendable, Problem: Error>(
    on scheduler: some Scheduler = ThreadPool.shared, name: String = "", stackSize: Int? = nil,
    _ body: sending (() throws(Problem) -> Value)?
  ) -> Coroutine<Value, Problem> {
    guard let body else { missingFunction() }
    let reference = SchedulerReference(scheduler)
    let storage = CoroutineStorage.create(on: reference, name: name, stackSize: stackSize, body: body)
    storage.detach()
    storage.schedule()
    return Coroutine<Value, Problem>(storage: storage)
  }

  /// Starts a coroutine and runs it at once, on the calling thread, until it suspends for the first time.
  ///
  /// Only where the caller is on the coroutine's scheduler already (inside a coroutine: its own; elsewhere: nowhere, so
  /// the calling thread runs it itself); see `immediate(on:name:stackSize:_:)` for another one.
  ///
  /// - Parameters:
  ///   - name: for backtraces and messages.
  ///   - stackSize: usable bytes, as in `init(name:stackSize:_:)`; `nil` for the default.
  ///   - body: what it does.
  @discardableResult
  @inlinable
  public static func immediate<Value: Sendable, Problem: Error>(
    name: String = "", stackSize: Int? = nil, _ body: sending (() throws(Problem) -> Value)?
  ) -> Coroutine<Value, Problem> {
    guard let body else { missingFunction() }
    let storage = CoroutineStorage.create(on: .inherited, name: name, stackSize: stackSize, body: body)
    storage.runImmediately()
    return Coroutine<Value, Problem>(storage: storage)
  }

  /// Starts a coroutine on a scheduler. If the caller is on it, the coroutine runs at once, until it suspends for the
  /// first time; otherwise it is put behind those that are ready there.
  ///
  /// - Parameters:
  ///   - scheduler: where it runs.
  ///   - name: for backtraces and messages.
  ///   - stackSize: usable bytes, as in `init(name:stackSize:_:)`; `nil` for the default.
  ///   - body: what it does.
  @discardableResult
  @inlinable
  public static func immediate<Value: Sendable, Problem: Error>(
    on scheduler: some Scheduler, name: String = "", stackSize: Int? = nil,
    _ body: sending (() throws(Problem) -> Value)?
  ) -> Coroutine<Value, Problem> {
    guard let body else { missingFunction() }
    let reference = SchedulerReference(scheduler)
    let storage = CoroutineStorage.create(on: reference, name: name, stackSize: stackSize, body: body)
    if reference.isCurrent { storage.runImmediately() } else { storage.schedule() }
    return Coroutine<Value, Problem>(storage: storage)
  }

  /// Lets the other coroutines that are ready on this scheduler run first.
  ///
  /// It does not throw, and so is no point of cancellation: a loop that does nothing but yield outlives its timeout. Let it
  /// call `try Coroutine.checkCancellation()` too, or `try Coroutine.sleep(for: .zero)` instead.
  ///
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "use 'Task.yield()' in async code")
  public static func yield() {
    CoroutineCore.yieldTurn(CoroutineCore.runningUncounted(for: "Coroutine.yield()"))
  }

  /// Whether the calling code runs inside a coroutine, and so may suspend.
  public static var isInside: Bool { coroutine_current() != nil && !coroutine_is_inside_task() }

  /// The number of the coroutine that runs the calling code; `nil` outside of one.
  public static var currentID: UInt64? { isInside ? CoroutineCore.current?.id : nil }

  /// The context backend that this build runs on, by the name of its trait: "ASM", for example.
  public static var backendName: String { SelectedBackend.name }

  /// Ends the program if it runs on another context backend than this one: a package in its graph may have asked for a
  /// slower one. Callable anywhere, best at the start.
  ///
  /// ```swift
  /// Coroutine.requireBackend("ASM")
  /// ```
  ///
  /// - Parameter name: as `backendName` has it.
  /// - Precondition: the program runs on that backend: traps otherwise.
  public static func requireBackend(_ name: String) {
    require(
      name == SelectedBackend.name,
      "this program counts on the context backend \(name), and was built on \(SelectedBackend.name): choose it by a trait of "
        + "the package Coroutine. \(BackendTraits.inWords)")
  }
}

extension Coroutine {
  @inlinable
  init(storage: CoroutineStorage<Success, Failure>) {
    self.storage = storage
  }
}

extension BackendTraits {
  static var inWords: String {
    names.isEmpty ? "No trait is on" : "On: \(names.joined(separator: ", ")). The last one wins"
  }
}
