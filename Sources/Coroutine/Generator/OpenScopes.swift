// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context
import CoroutineLibc

/// What a generator's body has open where it yields: accesses to variables, task-local bindings, and regions of
/// cancellation, such as that of a timeout.
///
/// All are kept in lists of the flow of control that runs, newest first, the first two by the Swift runtime; and a
/// generator's body is a part of its consumer's. So what the body opens lies in the consumer's lists, and must be closed
/// there.
///
/// - An access stays where it is: the consumer that touches the same variable meanwhile overlaps it, and must trap. The
///   body may go on only in the same flow of control.
/// - Bindings are taken off at the `yield` and put back before the body goes on, so that the consumer never sees them.
///   They are links on top of the consumer's own, so these must be the same again then.
/// - Regions are taken off and put back, too: see `DetachedRegions`. This may be done wherever the body goes on.
///
/// Anything else is a trap with a name, not a crash in the runtime's lists. Most bodies have nothing open: a few loads
/// on the way of an element find that.
struct OpenScopes {
  /// The flow whose list the body's accesses are in, while there are some.
  private var accessOwner: FlowIdentity?
  /// In a task, on the main actor: the job in which the body has left with them; else 0.
  private var accessJob: UInt32 = 0
  /// Of the body that has resumed this one, and to which it has left with them: as long as they are open, that body must not move
  /// to another flow, either.
  private var consumer: InnerAccesses?
  /// Made when a generator that this body consumes has left with an access open.
  private var inner: InnerAccesses?
  /// The consumer's bindings while the body runs: below whatever it adds. None where it was resumed without any.
  private var consumers = coroutine_bindings()
  /// The body's bindings, taken off at its `yield`, and the flow whose bindings they were on top of.
  private var detached: (bindings: coroutine_bindings, below: coroutine_bindings, owner: FlowIdentity)?

  /// The body's bindings on their way back: put on once it runs.
  private var attaching: coroutine_bindings?

  /// The body's regions, while they are off. `nil` until it has had one open at a `yield`.
  private(set) var regions: DetachedRegions?

  /// Whether a resume has to look here.
  var areOpen: Bool { accessOwner != nil || detached != nil || regions?.innermost != nil }

  /// On the consumer's side, before a resume that is not the plain case.
  mutating func willResume() {
    if let accessOwner, accessOwner != .current {
      fatalError(
        "A Generator was resumed or dropped on another thread or coroutine than before, while its body has an access to "
          + "a variable open (it yields inside a mutating call such as sort, or inside withUnsafeMutable…). Consume such "
          + "a generator where it began, or collect the elements first.")
    }
    if accessJob != 0, accessJob != MainActorJobs.now { Self.reportAwait() }
    consumer?.count -= 1
    consumer = nil
    accessOwner = nil
    accessJob = 0
    guard let detached else { return }
    guard detached.owner == .current, detached.below == coroutine_bindings_load() else {
      fatalError(
        "A Generator was resumed or dropped in another thread, coroutine or task, or inside other task-local bindings "
          + "than before, while its body has a binding open (it yields inside TaskLocal.withValue). Consume such a "
          + "generator where it began, or yield outside of the binding.")
    }
    attaching = detached.bindings
    self.detached = nil
  }

  /// On the body's side, when it begins or goes on after a `yield`, other than in the plain case. `block` is the generator's;
  /// its body may go on on the stack of another that it runs.
  mutating func didArrive(_ block: UnsafeMutablePointer<ControlBlock>) {
    consumers = coroutine_bindings_load()
    if consumers != coroutine_bindings() { Self.noteConsumers(consumers, onTopOf: block) }
    if let attaching {
      coroutine_bindings_store(attaching)
      self.attaching = nil
    }
  }

  /// Those on top were resumed in the plain case, without a note of the bindings: they have the same consumer's.
  // Not inlined: the frame of the body's first function is to be small.
  @inline(never)
  private static func noteConsumers(
    _ consumers: coroutine_bindings, onTopOf block: UnsafeMutablePointer<ControlBlock>
  ) {
    forEach(in: RunningBodies(on: block), onTopOf: block) { scopes in
      if scopes.consumers == coroutine_bindings() { scopes.consumers = consumers }
    }
  }

  /// On the consumer's side, after a `yield` with something open on this thread, perhaps the consumer's. `block` is the
  /// generator's; its body may have left from the stack of another that it runs.
  mutating func didSuspend(_ block: UnsafeMutablePointer<ControlBlock>) {
    if !block.pointee.mode.contains(.annotated) {
      noteAccesses(block, RunningBodies(leftBy: block), consumer: RunningBodies.innermost)
    }
    let current = coroutine_bindings_load()
    if current != consumers {
      detached = (current, consumers, .current)
      coroutine_bindings_store(consumers)
    }
    // A plain resume notes nothing: it happens only without bindings. A body on top of this one was resumed with this body's
    // bindings, or with more that this body has added. In the second case this body must be resumed under the same bindings.
    if consumers != coroutine_bindings() {
      let consumers = consumers
      Self.forEach(in: RunningBodies(leftBy: block), onTopOf: block) { scopes in
        if scopes.consumers == consumers { scopes.consumers = coroutine_bindings() }
      }
    }
    consumers = coroutine_bindings()
    if block.pointee.mode.contains(.regionOpen) {
      block.pointee.mode.remove(.regionOpen)
      detachRegions(block, RunningBodies(leftBy: block))
    }
  }

  /// Notes whether the body has an access open at a `yield`. The last step before it, and still on the body's stack: where
  /// AddressSanitizer keeps a frame's variables elsewhere, it finds them for the running stack only.
  mutating func noteAccesses(_ block: UnsafeMutablePointer<ControlBlock>) {
    noteAccesses(block, RunningBodies(on: block), consumer: RunningBodies(on: block).first(after: block))
  }

  /// - Parameter consumer: the body that has resumed the one on `block`'s stack, if it was a body.
  private mutating func noteAccesses(
    _ block: UnsafeMutablePointer<ControlBlock>, _ bodies: @autoclosure () -> RunningBodies,
    consumer: @autoclosure () -> UnsafeMutablePointer<ControlBlock>?
  ) {
    guard Self.hasAccess(block, bodies()) || hasInnerAccess else { return }
    let owner = FlowIdentity.current
    accessOwner = owner
    if let consumer = consumer() { self.consumer = GeneratorCore.owner(of: consumer) { $0.scopes.addInnerAccess() } }
    // Swift keeps the access in the task while that awaits: what other code does to the variable meanwhile goes unseen.
    // The body has not gone on yet, and must not.
    if case .task = owner, MainActorJobs.isOnMainActor { accessJob = MainActorJobs.beginCounting() }
  }

  @inline(never)
  private static func reportAwait() -> Never {
    fatalError(
      "A task of the main actor has awaited while the body of its Generator has an access to a variable open (it yields inside "
        + "a mutating call such as sort, or inside withUnsafeMutable…). Other code of the main actor could use the variable "
        + "meanwhile. Collect the elements first, or call the generator's cancel() before the await, also where you only drop "
        + "it.")
  }

  /// The scopes of the bodies that the body on `block`'s stack runs, and of those that they run themselves: mostly none.
  private static func forEach(
    in bodies: RunningBodies, onTopOf block: UnsafeMutablePointer<ControlBlock>, _ change: (inout OpenScopes) -> Void
  ) {
    for body in bodies {
      guard body != block else { return }
      GeneratorCore.owner(of: body) { change(&$0.scopes) }
    }
  }

  private var hasInnerAccess: Bool { inner.map { $0.count > 0 } ?? false }

  /// A generator that this body consumes leaves with an access open.
  private mutating func addInnerAccess() -> InnerAccesses {
    let inner = inner ?? InnerAccesses()
    self.inner = inner
    inner.count += 1
    return inner
  }

  private mutating func detachRegions(_ block: UnsafeMutablePointer<ControlBlock>, _ bodies: RunningBodies) {
    guard let core = CoroutineCore.current else { return }
    let count = bodies.regionCount(core, downTo: block)
    guard count > 0 else { return }
    let regions = regions ?? DetachedRegions()
    self.regions = regions
    regions.take(count, from: core)
  }

  /// On the body's side: whether a `yield` here would find anything of the body's open.
  func wouldBeOpen(_ block: UnsafeMutablePointer<ControlBlock>) -> Bool {
    coroutine_bindings_load() != consumers
      || Self.hasAccess(onTopOf: block) || hasInnerAccess
      || block.pointee.mode.contains(.regionOpen) && hasRegion(block)
  }

  private func hasRegion(_ block: UnsafeMutablePointer<ControlBlock>) -> Bool {
    regions?.innermost != nil
      || CoroutineCore.current.map { RunningBodies(on: block).regionCount($0, downTo: block) > 0 } == true
  }

  /// On the body's side: whether a frame of the body, or of a generator that it runs at this moment, has an access open.
  static func hasAccess(onTopOf block: UnsafeMutablePointer<ControlBlock>) -> Bool {
    hasAccess(block, RunningBodies(on: block))
  }

  private static func hasAccess(
    _ block: UnsafeMutablePointer<ControlBlock>, _ bodies: @autoclosure () -> RunningBodies
  ) -> Bool {
    guard !coroutine_access_set_is_empty() else { return false }
    for body in bodies() {
      let stack = body.pointee.stack
      if coroutine_access_set_touches(stack.limit, stack.top) { return true }
      if body == block { return false }
    }
    // Not to be found: assume the worst.
    return true
  }
}

/// How many of the generators that a body consumes are suspended with an access open.
private final class InnerAccesses {
  // One flow of control at a time: that of the consumer, in which the accesses are.
  @exclusivity(unchecked) var count = 0
}

/// A flow of control: a scheduled coroutine, wherever it runs, or else a task, or else a thread.
///
/// By numbers that no other one gets. One that has ended leaves its address, and its accesses are gone with it.
private enum FlowIdentity: Equatable {
  case coroutine(UInt64)
  case task(UInt64)
  case thread(UInt64)

  static var current: FlowIdentity {
    if let core = CoroutineCore.current { return .coroutine(core.id) }
    let task = coroutine_task_number()
    return task != 0 ? .task(task) : .thread(coroutine_thread_number())
  }
}

extension coroutine_bindings {
  fileprivate static func == (left: coroutine_bindings, right: coroutine_bindings) -> Bool {
    left.task == right.task && left.storage == right.storage && left.head == right.head
  }

  fileprivate static func != (left: coroutine_bindings, right: coroutine_bindings) -> Bool { !(left == right) }
}
