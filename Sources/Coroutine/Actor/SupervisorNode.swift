// SPDX-License-Identifier: Apache-2.0

import Context

/// The children of an actor, or of a `Supervisor`: their list, and what to do when one fails.
@usableFromInline
// Unchecked: the lock guards what changes.
final class SupervisorNode: HiddenFromMirrors, @unchecked Sendable {
  let name: String
  private let policy: Supervision
  /// The actor whose children they are; `nil`: a `Supervisor`'s. Alive while a child is, which it waits for.
  private unowned(unsafe) let owner: ActorCore?
  private let lock = Lock()
  // Guarded by the lock, all four.
  @exclusivity(unchecked) private var children = SupervisedActors()
  @exclusivity(unchecked) private var machine: SupervisionStateMachine
  /// Those of the actors that have failed, where each counts for itself.
  @exclusivity(unchecked) private var ownMachines: [ObjectIdentifier: SupervisionStateMachine] = [:]
  @exclusivity(unchecked) private var isClosed = false

  init(name: String, policy: Supervision, owner: ActorCore?) {
    self.name = name
    self.policy = policy
    self.owner = owner
    machine = SupervisionStateMachine(policy)
  }

  /// Takes in an actor that has not begun.
  func adopt(_ child: ActorCore) {
    lock.lock()
    let isOpen = !isClosed
    if isOpen { children.append(child) }
    lock.unlock()
    // Too late to be a child: it ends before it begins.
    if !isOpen { child.request(.stop) }
  }

  /// A child has ended.
  func remove(_ child: ActorCore) {
    lock.withLock {
      children.remove(child)
      ownMachines[ObjectIdentifier(child)] = nil
    }
  }

  /// Decides about a child that has failed, and does what concerns others. On that child's coroutine.
  ///
  /// - Parameters:
  ///   - mayResume: whether its body still runs. One that has thrown can only be run again.
  ///   - mayRestart: whether that may help.
  func judge(
    _ child: ActorCore, _ error: any Error, mayResume: Bool, mayRestart: Bool
  ) -> Supervision.Directive {
    var wish = policy.decide(error)
    if wish == .resume, !mayResume { wish = .restart }
    if wish == .restart, !mayRestart { wish = policy.beyondLimit }
    lock.lock()
    let decision = decide(wish, about: child)
    let others = others(decision.others, than: child)
    lock.unlock()
    switch decision.directive {
    case .resume: break
    case .restart: for other in others { other.request(.restart) }
    case .stop: for other in others.reversed() { other.request(.stop) }
    case .escalate: escalate(error)
    }
    return decision.directive
  }

  /// One for one, each actor's failures count for themselves: those of one must not end another one. The caller holds `lock`.
  private func decide(_ wish: Supervision.Directive, about child: ActorCore) -> SupervisionStateMachine.Decision {
    let now = TimerService.shared.now
    guard policy.strategy == .oneForOne, policy.limit != .max else { return machine.failed(wish, at: now) }
    return ownMachines[ObjectIdentifier(child), default: SupervisionStateMachine(policy)].failed(wish, at: now)
  }

  /// The caller holds `lock`.
  private func others(_ others: SupervisionStateMachine.Others, than child: ActorCore) -> [ActorCore] {
    switch others {
    case .none: []
    case .all: children.all.filter { $0 !== child }
    case .later: children.later(than: child)
    }
  }

  /// A child has taken its first message since it was started. On that child's coroutine.
  func noteProgress() { owner?.noteChildProgress() }

  private func escalate(_ error: any Error) {
    if let owner { return owner.request(.fail(error)) }
    CoroutineErrors.report(error, of: name.isEmpty ? "a supervisor" : "supervisor \"\(name)\"")
    close()
    // The one that has failed among them: its body may go on, though `handleEach` has thrown.
    for child in lock.withLock({ children.all }).reversed() { child.request(.stop) }
  }

  /// No handle is left that could launch or stop actors: they end when no handle can send to them either.
  func abandon() {
    for child in lock.withLock({ children.all }) { child.handleDropped() }
  }

  /// An actor that is launched from here on ends before it begins.
  func close() {
    lock.withLock { isClosed = true }
  }

  /// The last one that was launched, of those that have not ended.
  var last: ActorCore? { lock.withLock { children.last } }

  /// Ends the program if it is one of its actors, or one below those, that is to wait for their ends.
  func requireOutside(_ core: CoroutineCore) {
    var actor = core.asker
    while let inner = actor, let node = inner.parent {
      require(
        node !== self,
        "\(core.description) calls Supervisor.stop(), which would wait for its end, too: for ever. Call it from outside, or in "
          + "a coroutine that no actor of it waits for: Coroutine.detached { supervisor.stop() }")
      actor = node.owner
    }
  }

  /// Stops the children one after another, the last one first, each when the one before has ended. On a coroutine; goes on
  /// to the end, cancelled or not.
  func stopAll() {
    while let child = last {
      child.request(.stop)
      child.waitForEndShielded()
      remove(child)
    }
  }
}
