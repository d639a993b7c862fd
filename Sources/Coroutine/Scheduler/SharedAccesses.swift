// SPDX-License-Identifier: Apache-2.0

import CCoroutine

/// The accesses to variables that suspended coroutines of one domain have open: they are seen by those of it that run
/// (`shared_accesses.h`).
///
/// A domain is what runs one coroutine at a time, and may let them share variables: the main actor, by its isolation; an event
/// loop, by values that are bound to it; the thread of a `runUntilComplete` or of a test's run, if code of an actor waits for it.
// Unchecked: the chain is used by the domain's coroutines, one after another.
package final class SharedAccesses: @unchecked Sendable {
  /// `nil`: there was no memory, and the accesses go unseen.
  fileprivate let chain: OpaquePointer?

  package init() { chain = coroutine_shared_accesses_create(Self.limit) }
  private init(limit: UInt32) { chain = coroutine_shared_accesses_create(limit) }

  deinit { coroutine_shared_accesses_destroy(chain) }

  package static let ofMainActor = SharedAccesses(limit: .max)

  /// How many coroutines' accesses are seen at a time. Each access to a variable in the domain walks along them, and an event
  /// loop may have ten thousand coroutines, each suspended in a mutating call on its own connection.
  private static var limit: UInt32 { 32 }
}

/// A scheduler of this package whose coroutines may share variables.
package protocol SharingScheduler: Scheduler {
  /// Used where it `isCurrent` only. A loop that runs its coroutines attaches them.
  var sharedAccesses: SharedAccesses { get }
}

/// A domain's accesses while a loop runs coroutines of it.
///
/// The loop makes it before its first turn, calls `attach` before each, and `end` after the last. So does what runs a coroutine on
/// top of the calling one; that one then attaches them to itself (`attachSharedAccesses`).
package struct AttachedAccesses {
  private let chain: OpaquePointer
  /// Whether they are this loop's to take off the thread again: not if the loop runs inside of another such one.
  private let areOwn: Bool

  /// Where coroutines of the domain run, also inside of one. `nil`: not the loop of a domain.
  @inline(__always)
  package init?(_ accesses: __shared SharedAccesses?) {
    guard let chain = accesses?.chain else { return nil }
    self.chain = chain
    areOwn = !coroutine_shared_accesses_are_attached(chain)
  }

  /// The same for the pool of the running coroutine, on which another one is about to run on top.
  @inline(__always)
  init?(ofPoolAt address: UnsafeRawPointer) {
    self.init(Unmanaged<PoolCore>.fromOpaque(address)._withUnsafeGuaranteedRef { $0.sharedAccesses })
  }

  @inline(__always)
  package func attach() {
    if coroutine_shared_accesses_exist() { coroutine_shared_accesses_attach(chain) }
  }

  @inline(__always)
  package func end() {
    if areOwn { coroutine_shared_accesses_detach(chain) }
  }
}

extension SchedulerReference {
  /// Those of the domain that it is, if the calling code runs in it.
  var sharedAccesses: SharedAccesses? {
    switch self {
    case .sharedPool: nil
    case .pool(let pool) where pool.core.isMainActors: belongsToTheMainActor ? .ofMainActor : nil
    case .pool(let pool): pool.isCurrent ? pool.core.sharedAccesses : nil
    case .queue: belongsToTheMainActor ? .ofMainActor : nil
    case .other(let other): other.sharing.flatMap { $0.isCurrent ? $0.sharedAccesses : nil }
    }
  }

  /// Whether code of an actor may run on it at present: then it may access the actor's variables.
  var isIsolated: Bool {
    if belongsToTheMainActor { return true }
    switch self {
    case .sharedPool, .queue: return false
    case .pool: return coroutine_runs_on_executor()
    case .other(let other): return other.explorer == nil || coroutine_runs_on_executor()
    }
  }
}

/// Of shared_accesses.h. C refers to it weakly, for which a linker takes no object from a static library: in this file, since
/// `CoroutineCore` refers to the method below, too.
@_cdecl("coroutine_current_shared_accesses")
package func currentSharedAccesses() -> OpaquePointer? { CoroutineCore.current?.scheduler.sharedAccesses?.chain }

extension CoroutineCore {
  /// Whether the code that runs, on it, is inside an access to a variable that the coroutine itself has begun.
  final var hasAccessesOfItsOwn: Bool {
    guard !coroutine_access_set_is_empty(), let block else { return false }
    return coroutine_has_accesses_of_its_own(&block.pointee.threadState)
  }

  /// The address of the newest of these, where Swift keeps it; 0: none, or that is not known. As the running coroutine.
  final var newestAccess: UInt {
    guard !coroutine_access_set_is_empty(), let block else { return 0 }
    return coroutine_newest_access_of_its_own(&block.pointee.threadState)
  }

  /// Whether it has left its stack inside an access to a variable. While it can't go on.
  package final var isSuspendedInsideAccess: Bool {
    guard let block else { return false }
    return coroutine_thread_state_has_access(&block.pointee.threadState)
  }

  /// Ends the program where it is about to wait for a task of the main actor, which could use the variable that an access of its
  /// own is about: tasks do not see the accesses of suspended coroutines.
  final func requireNoSharedAccess(awaiting isolation: (any Actor)?) {
    guard hasAccessesOfItsOwn, scheduler.belongsToTheMainActor, isolation === MainActor.shared else { return }
    fatalError(
      "\(description) waits for code of the main actor inside an access to a variable (a mutating call, or an inout argument, "
        + "such as a property of an object; or a borrow), which that code could use at the same time. Take a copy before Coroutine.await, and put "
        + "it back after it.")
  }

  /// As `attach`, to the coroutine itself, which goes on: behind its own accesses. What has resumed it takes them off the thread,
  /// by its `AttachedAccesses`. Not inside a task on its stack, which would take the chain with it when it suspends: what is begun
  /// there goes unseen until the coroutine's next turn.
  final func attachSharedAccesses() {
    guard coroutine_shared_accesses_exist(), let block, let chain = scheduler.sharedAccesses?.chain,
      !coroutine_is_inside_task()
    else { return }
    coroutine_shared_accesses_attach_behind(chain, &block.pointee.threadState)
  }
}
