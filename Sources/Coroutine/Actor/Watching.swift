// SPDX-License-Identifier: Apache-2.0

import Context
import Synchronization

/// The watchers of an actor's end, in the order in which they came. Pure: no lock.
struct Watchers {
  typealias Handler = @Sendable (ActorEnd) -> Void

  private var handlers: [UInt64: Handler] = [:]

  var isEmpty: Bool { handlers.isEmpty }

  /// `number`: larger than those of the watchers before.
  mutating func add(_ handler: @escaping Handler, _ number: UInt64) {
    handlers[number] = handler
  }

  mutating func remove(_ number: UInt64) -> Handler? {
    handlers.removeValue(forKey: number)
  }

  var inOrder: [Handler] { handlers.sorted { $0.key < $1.key }.map(\.value) }
}

extension ActorCore {
  private static let lastWatch = Atomic<UInt64>(0)

  private static func nextWatch() -> UInt64 {
    lastWatch.wrappingAdd(1, ordering: .relaxed).newValue
  }

  /// Calls `handler` at its end; at once if it has ended.
  final func watch(_ handler: @escaping Watchers.Handler) {
    watch(Self.nextWatch(), handler)
  }

  private final func watch(_ number: UInt64, _ handler: @escaping Watchers.Handler) {
    lock.lock()
    let end = life.end
    if end == nil { watchers.add(handler, number) }
    lock.unlock()
    if let end { handler(end) }
  }

  /// Calls `handler` at the end of another one, as long as this one's body runs: so that actors that come and go leave
  /// nothing at those that stay.
  final func watch(_ other: ActorCore, _ handler: @escaping Watchers.Handler) {
    let number = Self.nextWatch()
    lock.lock()
    let isWanted = life.isRunning
    // Before the other one knows of it: the end of that one takes it out again.
    if isWanted { watched[number] = other }
    lock.unlock()
    guard isWanted else { return }
    other.watch(number) { end in
      if self.endWatch(number) { handler(end) }
    }
  }

  /// A watch is over. Returns whether this call ended it.
  private final func endWatch(_ number: UInt64) -> Bool {
    lock.withLock { watched.removeValue(forKey: number) } != nil
  }

  /// The body has ended, which has watched others.
  final func endWatches() {
    lock.lock()
    let watched = self.watched
    self.watched = [:]
    lock.unlock()
    for (number, other) in watched {
      // Released after the unlock: what it captured may run code of the user's when it goes.
      let handler = other.lock.withLock { other.watchers.remove(number) }
      withExtendedLifetime(handler) {}
    }
  }
}
