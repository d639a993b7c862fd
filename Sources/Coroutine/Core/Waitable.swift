// SPDX-License-Identifier: Apache-2.0

public import Context

/// What a coroutine can wait for, such as another one's end. The storage of each primitive is one.
///
/// The order of one wait is the same everywhere (`wait` in Waiting.swift), and the reason why no waiter is ever resumed
/// too early:
///
/// 1. say that a wait may follow (`Parking.prepare`), take `lock`, look whether the waiter was cancelled meanwhile;
/// 2. ask the state machine; it says "wait": a node is in its queue now, but the lock is still held;
/// 3. the coroutine leaves its stack; its context is saved;
/// 4. *the resumer* marks it as parked and unlocks. From here on a waker finds the node and claims the wait, and, after its own
///    unlock, makes the coroutine ready. So does a cancel or a deadline, without the lock;
/// 5. a coroutine that goes on for such a reason withdraws: it takes the lock once more, to take its node out of the queue.
///
/// No coroutine is resumed and no user code runs while `lock` is held.
@usableFromInline
package class Waitable: HiddenFromMirrors {
  /// Guards the state machine of the subclass.
  @usableFromInline package let lock = Lock()

  @usableFromInline
  package init() {}

  /// What a coroutine that waits here waits for, for people: one line. Called by debuggers without the lock, while the
  /// waiting coroutines can't run: must read nothing that the lock guards.
  package func describe(_ operation: WaitReason.Operation) -> String {
    "\(operation)"
  }

  /// Which wakers can end such a wait here. As `describe`, for debuggers, without the lock.
  package func wakers(_ operation: WaitReason.Operation) -> Wakers { .unknown }

  /// Whether a timer ends such a wait here, though the wait has no deadline. As `describe`.
  package func isTimed(_ operation: WaitReason.Operation) -> Bool { false }
}

/// What a suspended coroutine waits for, unless it is its turn: three words, written by the coroutine itself before it
/// leaves its stack.
@usableFromInline
package struct WaitReason: Sendable {
  @usableFromInline package typealias Operation = WaitOperation

  /// What it does there.
  @usableFromInline package let operation: Operation
  /// What it waits at.
  // Debuggers read it only while the coroutine, whose frames own the object or the list, can't run.
  @usableFromInline package nonisolated(unsafe) let subject: Subject

  /// What is waited at: kept alive by the frames of the waiting coroutine.
  @usableFromInline
  package enum Subject {
    case object(Unmanaged<Waitable>)
    /// Several things at once.
    case cases(UnsafeMutablePointer<JointWait>)
  }
  /// When it gives up waiting: `WaitDeadline`.
  @usableFromInline package let deadline: UInt64

  /// The one thing that it waits at, if it is one.
  package var object: Unmanaged<Waitable>? {
    if case .object(let object) = subject { object } else { nil }
  }

  @inlinable
  package init(_ operation: Operation, at object: Waitable, until deadline: UInt64 = WaitDeadline.never) {
    self.operation = operation
    subject = .object(.passUnretained(object))
    self.deadline = deadline
  }

  @inlinable
  init(_ operation: Operation, jointly wait: UnsafeMutablePointer<JointWait>, until deadline: UInt64) {
    self.operation = operation
    self.deadline = deadline
    subject = .cases(wait)
  }
}

extension WaitReason {
  /// In words: the operation and what it is done at. For debuggers, while the coroutine can't run.
  package var description: String {
    switch subject {
    case .object(let object): object._withUnsafeGuaranteedRef { $0.describe(operation) }
    case .cases(let wait): wait.pointee.description
    }
  }

  /// Which wakers can end the wait. For debuggers, while the coroutine can't run.
  var wakers: Wakers {
    switch subject {
    case .object(let object): object._withUnsafeGuaranteedRef { $0.wakers(operation) }
    case .cases(let wait): wait.pointee.wakers
    }
  }
}
