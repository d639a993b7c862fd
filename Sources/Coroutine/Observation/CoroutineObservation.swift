// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context
import Synchronization

/// The observers of the process.
///
/// Without any, coroutines are not affected: a turn tests one word when it begins and when it ends, as it does for
/// debuggers anyway. With one, each event costs the reading of the clock and two atomic operations, in addition to the
/// observer's own work.
public enum CoroutineObservation {
  /// Calls `observer` with all events from now on, after observers that were installed before it. Callable at any time
  /// from any thread, except by an observer: traps.
  ///
  /// It is kept alive until it is removed.
  ///
  /// - Precondition: it is not installed already: traps otherwise.
  public static func install(_ observer: some CoroutineObserver) {
    change { observers in
      require(!observers.contains { $0 === observer }, "a CoroutineObserver was installed twice")
      observers.append(observer)
    }
  }

  /// No longer calls `observer`: when this returns, no call of it is in progress. Without effect if it is not
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
    // Before the request: a thread that has seen that does not take a time of a former observer's for one of now.
    if old == nil { begin.store(coroutine_exact_time(), ordering: .relaxed) }  // litmus: end-result
    current.store(new, ordering: .sequentiallyConsistent)  // litmus: observer-drain
    // After the list is there, and as long as it is.
    coroutine_request(COROUTINE_REQUEST_EVENTS, new != nil)
    coroutine_observation_drain()
    changes.unlock()
    old?.release()
  }

  /// Held by the thread that installs or removes.
  private static let changes = Lock()
  private static let current = Atomic<Unmanaged<List>?>(nil)
  /// Since when there is one: records from before may be out of date.
  static let begin = Atomic<UInt64>(0)

  private final class List: Sendable {
    let observers: [any CoroutineObserver]
    init(_ observers: [any CoroutineObserver]) { self.observers = observers }
  }
}

// MARK: - Notifying

extension CoroutineObservation {
  /// By code that may touch the coroutine's fields at that moment.
  static func notify(_ kind: CoroutineEvent.Kind, of coroutine: some ObservedCoroutine) {
    notify(kind, of: coroutine, at: coroutine_exact_time())
  }

  static func notify(_ kind: CoroutineEvent.Kind, of coroutine: some ObservedCoroutine, at now: UInt64) {
    guard let slot = coroutine_observation_enter() else { return }
    let event = CoroutineEvent(kind, coroutine, time: now)
    // An observer that suspends would take the coroutine with it that happens to run here.
    let running = coroutine_current()
    coroutine_set_current(nil)
    // The slot was taken before: the thread that exchanges the list waits for it.
    // litmus: observer-drain
    current.load(ordering: .sequentiallyConsistent)?._withUnsafeGuaranteedRef { list in
      for observer in list.observers { observer.observe(event) }
    }
    coroutine_set_current(running)
    coroutine_observation_leave(slot)
  }
}
