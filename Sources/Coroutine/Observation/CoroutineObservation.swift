import CCoroutine
import Context
import Synchronization

/// The observers of the process.
///
/// Without any, coroutines take no notice: a turn tests one word when it begins and when it ends, as it does for debuggers
/// anyway. With one, each event costs the reading of the clock and two atomic operations, beside what the observer does.
public enum CoroutineObservation {
  /// Tells `observer` what happens from now on, after those that were installed before it. Callable at any time from any
  /// thread, except by an observer: traps.
  ///
  /// It is kept alive until it is removed.
  ///
  /// - Precondition: it is not installed already: traps.
  public static func install(_ observer: some CoroutineObserver) {
    change { observers in
      require(!observers.contains { $0 === observer }, "a CoroutineObserver was installed twice")
      observers.append(observer)
    }
  }

  /// Tells `observer` nothing any more: when this returns, no call of it is in progress. Nothing happens if it is not
  /// installed. Callable at any time from any thread, except by an observer: traps.
  public static func remove(_ observer: some CoroutineObserver) {
    change { $0.removeAll { $0 === observer } }
  }

  private static func change(_ body: (inout [any CoroutineObserver]) -> Void) {
    require(
      !coroutine_observation_is_inside(),
      "a CoroutineObserver installs or removes one inside of observe(_:), which would have to wait for itself")
    changes.lock()
    let old = current.load(ordering: .relaxed)
    var observers = old?._withUnsafeGuaranteedRef { $0.observers } ?? []
    body(&observers)
    let new = observers.isEmpty ? nil : Unmanaged.passRetained(List(observers))
    current.store(new, ordering: .sequentiallyConsistent)
    // After the list is there, and as long as it is.
    coroutine_request(COROUTINE_REQUEST_EVENTS, new != nil)
    if old == nil { begin.store(coroutine_exact_time(), ordering: .relaxed) }
    coroutine_observation_drain()
    changes.unlock()
    old?.release()
  }

  /// Held by whoever installs or removes.
  private static let changes = Lock()
  private static let current = Atomic<Unmanaged<List>?>(nil)
  /// Since when there is one: what was noted before may be out of date.
  private static let begin = Atomic<UInt64>(0)

  private final class List: Sendable {
    let observers: [any CoroutineObserver]
    init(_ observers: [any CoroutineObserver]) { self.observers = observers }
  }
}

// MARK: - Telling

extension CoroutineObservation {
  // By whoever may touch the coroutine's fields at that moment; none is inlined into the way of those who are not observed.

  @inline(never)
  static func tellReady(_ core: CoroutineCore, _ cause: ReadyCause) {
    let now = coroutine_exact_time()
    core.neededExtras._withUnsafeGuaranteedRef {
      $0.turn &+= 1
      $0.readySince = now
    }
    let waker = CoroutineCore.currentUncounted?._withUnsafeGuaranteedRef { $0.id } ?? 0
    tell(CoroutineEvent(.ready(cause, by: cause == .yielded ? core.id : waker), core, time: now))
  }

  @inline(never)
  static func tellResumed(_ core: CoroutineCore) {
    let now = coroutine_exact_time()
    let since =
      core.extras?._withUnsafeGuaranteedRef { extras -> UInt64 in
        defer { extras.readySince = 0 }
        return extras.readySince
      } ?? 0
    let isKnown = since != 0 && since >= begin.load(ordering: .relaxed)
    tell(CoroutineEvent(.resumed(queued: isKnown ? now - since : nil), core, time: now))
  }

  @inline(never)
  static func tellStolen(_ core: CoroutineCore) {
    tell(CoroutineEvent(.stolen, core, time: coroutine_exact_time()))
  }

  static func tellCreated(_ core: CoroutineCore) {
    tell(CoroutineEvent(.created, core, time: coroutine_exact_time()))
  }

  static func tellSuspended(_ core: CoroutineCore) {
    let reason = core.waitReason.map { SuspensionReason($0.operation) } ?? .turn
    tell(CoroutineEvent(.suspended(reason), core, time: coroutine_exact_time()))
  }

  static func tellFinished(_ core: CoroutineCore) {
    tell(CoroutineEvent(.finished, core, time: coroutine_exact_time()))
  }

  private static func tell(_ event: consuming CoroutineEvent) {
    guard let place = coroutine_observation_enter() else { return }
    // An observer that suspends would take the coroutine with it that happens to run here.
    let running = coroutine_current()
    coroutine_set_current(nil)
    // The place was taken before: whoever exchanges the list waits for it.
    current.load(ordering: .sequentiallyConsistent)?._withUnsafeGuaranteedRef { list in
      for observer in list.observers { observer.observe(event) }
    }
    coroutine_set_current(running)
    coroutine_observation_leave(place)
  }
}

extension CoroutineCore {
  /// What those ask for who set a bit in `coroutine_requests`. Out of the way of the others.
  @inline(never)
  final func noteCreation() {
    record.note()
    if let backtracer = coroutine_get_creation_backtracer() { noteCreators(backtracer) }
    if coroutine_events_are_observed() { CoroutineObservation.tellCreated(self) }
  }

  /// Its wait has been claimed: it is ready in the next moment.
  @inline(never)
  final func noteWake() {
    record.note()
    guard coroutine_events_are_observed() else { return }
    let cause: ReadyCause =
      switch parking.cause {
      case .cancelled: .cancelled
      case .timedOut: .timedOut
      default: .woken
      }
    CoroutineObservation.tellReady(self, cause)
  }

  /// Its turn is over, and nobody else knows yet.
  @inline(never)
  final func noteDeparture(_ departure: ControlBlock.Departure) {
    // A debugger that has found it running relies on it, as on those that are suspended.
    if case .finish = departure, coroutine_inspection_requested() { Inspection.waitForEnd() }
    record.note()
    guard coroutine_events_are_observed() else { return }
    switch departure {
    case .unlock, .unlockAll: CoroutineObservation.tellSuspended(self)
    case .enqueue: CoroutineObservation.tellReady(self, .yielded)
    case .finish: CoroutineObservation.tellFinished(self)
    case .none: break
    }
  }
}
