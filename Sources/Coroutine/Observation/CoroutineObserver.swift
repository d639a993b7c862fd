// SPDX-License-Identifier: Apache-2.0

/// Receives the events of the process's coroutines, as they happen: for traces, metrics, tests.
///
/// ```swift
/// final class SuspensionCounter: CoroutineObserver {
///   let count = Atomic<Int>(0)
///
///   func observe(_ event: borrowing CoroutineEvent) {
///     if case .suspended = event.kind { count.wrappingAdd(1, ordering: .relaxed) }
///   }
/// }
///
/// let counter = SuspensionCounter()
/// CoroutineObservation.install(counter)
/// ```
public protocol CoroutineObserver: AnyObject, Sendable {
  /// Called with one event, at once, on the thread on which it happens, in the middle of the runtime's work.
  ///
  /// # What it must be
  ///
  /// - Brief: a thread that runs coroutines waits for it. It may run on a coroutine's stack: no deep calls.
  /// - No suspension, which traps: no coroutine runs as long as it does. No waiting for a coroutine either.
  /// - Careful with locks: one that the program holds while it creates or wakes a coroutine may be held by the calling
  ///   thread. And `.suspended` comes while what the coroutine waits for is locked: an operation on that very channel,
  ///   promise or mutex would wait for ever. Events that the observer itself causes by calling the runtime are not
  ///   reported.
  ///
  /// # In which order
  ///
  /// The events of one coroutine come one after another, each after all effects of the one before:
  ///
  ///     created ── ready ── resumed ──┬── suspended ── ready ── resumed ── …
  ///                                   ├── ready(.yielded) ── resumed ── …
  ///                                   └── finished
  ///
  /// `stolen` may come once or more often between `ready` and `resumed`. One that begins at once
  /// (`Coroutine.immediate`) is not `ready` before; one that is cancelled before it begins, or gets no stack, is
  /// `finished` without having been `resumed`. `ready` comes before its scheduler gets it, `suspended` before it can be
  /// woken, `finished` before a joiner learns of its end. Between `resumed` and the event that ends that turn its
  /// thread runs it, and others only inside of it, from their `resumed` to the end of their turns. Events of different
  /// coroutines on different threads come side by side.
  ///
  /// An observer that is installed late misses earlier events: the first event of a coroutine may be any of them. It
  /// sees all from then on.
  func observe(_ event: borrowing CoroutineEvent)
}

/// What has happened to a coroutine, for a `CoroutineObserver`, and as long as its call lasts.
///
/// Not copyable: an observer copies what it wants to keep. All properties take constant time; `scheduler` and
/// `waitsFor` make a string.
public struct CoroutineEvent: ~Copyable {
  /// More may come: a `switch` is to have a `default`.
  public enum Kind: Hashable, Sendable {
    /// It exists. On its creator's thread.
    case created
    /// It may run, and is about to be handed to its scheduler. On the thread of its waker or launcher; `by` is the
    /// number of the coroutine that runs there, 0 if none does (a timer, a thread, a task did).
    case ready(ReadyCause, by: UInt64)
    /// A thread runs it from here on: the calling one. `queued`: the nanoseconds since it became ready; `nil` where that
    /// was not observed.
    case resumed(queued: UInt64?)
    /// It has left the thread, and waits.
    case suspended(SuspensionReason)
    /// It has ended. On the thread that ran it.
    case finished
    /// A thread of its pool that had nothing to do, the calling one, has taken it over from another, and runs it next.
    case stolen
  }

  /// What has happened.
  public let kind: Kind
  /// When: nanoseconds of `CLOCK_MONOTONIC`. Equal for all observers.
  public let time: UInt64
  // Alive as long as the call lasts.
  private unowned(unsafe) let coroutine: any ObservedCoroutine

  init(_ kind: Kind, _ coroutine: any ObservedCoroutine, time: UInt64) {
    self.kind = kind
    self.time = time
    self.coroutine = coroutine
  }

  /// Unique in the process.
  public var id: UInt64 { coroutine.id }
  /// Empty where none was given.
  public var name: String { coroutine.name }
  /// The coroutine that created it; 0: none.
  public var parentID: UInt64 { coroutine.creatorID }
  /// Where it runs, or is going to, in words.
  public var scheduler: String { coroutine.schedulerText }

  /// What a `.suspended` one waits for, in words: `receive on channel "jobs" (1 receiver)`. Empty otherwise.
  public var waitsFor: String {
    guard case .suspended = kind else { return "" }
    return coroutine.waitText
  }

  /// How often it was observed to become ready: the same number in a `.ready` and in the `.resumed` that follows.
  public var turn: UInt32 { coroutine.turn }

  /// What a `.finished` one threw, or why it could not run.
  public var failure: (any Error)? {
    guard kind == .finished else { return nil }
    return coroutine.failure
  }
}

/// An event's questions to its coroutine, when an observer reads its properties.
protocol ObservedCoroutine: AnyObject {
  var id: UInt64 { get }
  var name: String { get }
  var creatorID: UInt64 { get }
  var schedulerText: String { get }
  /// What it waits for, if it does.
  var waitText: String { get }
  var turn: UInt32 { get }
  var failure: (any Error)? { get }
}

/// Why a coroutine may run.
public enum ReadyCause: String, Hashable, Sendable, CaseIterable {
  /// It is new.
  case launched
  /// What it waited for has happened.
  case woken
  /// It was cancelled while it waited.
  case cancelled
  /// The time it would wait is up.
  case timedOut
  /// It lets others run first, or moves to another scheduler.
  case yielded
}

/// What a suspended coroutine waits for, by kind.
public enum SuspensionReason: String, Hashable, Sendable, CaseIterable {
  /// Room in a channel or mailbox, or a receiver.
  case send
  /// An element, a message.
  case receive
  /// A coroutine's end, or those of a scope.
  case join
  /// `withSuspension`, `awaitCallback`.
  case callback
  /// A time: `Coroutine.sleep`.
  case sleep
  /// A promise's settlement.
  case promise
  /// One of several things.
  case select
  /// A mutex or a read-write lock.
  case lock
  /// `async` code.
  case async
  /// `blocking`: work on another thread, or a thread for it.
  case blocking
  /// A semaphore's.
  case permit
  /// A condition's signal, a barrier's other parties, a group's zero, a value that another one makes once.
  case condition, barrier, group, once
  /// A descriptor's readiness: input, room for output, a connection that comes, one that is being made.
  case read, write, accept, connect
  /// Its turn on a thread to which it is pinned.
  case turn

  init(_ operation: WaitOperation) {
    self =
      switch operation {
      case .send: .send
      case .receive: .receive
      case .join: .join
      case .suspension: .callback
      case .sleep: .sleep
      case .promise: .promise
      case .select: .select
      case .lock: .lock
      case .async: .async
      case .permit: .permit
      case .condition: .condition
      case .barrier: .barrier
      case .group: .group
      case .once: .once
      case .read: .read
      case .write: .write
      case .accept: .accept
      case .connect: .connect
      case .blocking: .blocking
      }
  }
}
