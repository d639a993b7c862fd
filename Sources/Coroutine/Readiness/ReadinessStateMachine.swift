// SPDX-License-Identifier: Apache-2.0

/// What a descriptor has become: a set.
///
/// Its operations are inlinable: in another module those of `OptionSet` would be generic calls, at each event of a descriptor.
@usableFromInline
package struct Readiness: OptionSet, Sendable {
  @usableFromInline package let rawValue: UInt32
  @inlinable package init(rawValue: UInt32) { self.rawValue = rawValue }

  /// There may be something to read, or the end, or an error.
  @inlinable package static var readable: Readiness { Readiness(rawValue: 1) }
  /// There may be room to write, or an error.
  @inlinable package static var writable: Readiness { Readiness(rawValue: 2) }
  /// The peer will send nothing more, or there is an error, or urgent bytes have come: from now on a short read does
  /// not mean that all was read.
  @inlinable package static var hungUp: Readiness { Readiness(rawValue: 4) }

  /// What an operation waits for.
  package init(for operation: WaitOperation) {
    switch operation {
    case .write, .connect: self = .writable
    default: self = .readable
    }
  }

  @inlinable package func contains(_ other: Readiness) -> Bool { rawValue & other.rawValue == other.rawValue }
  @inlinable package func union(_ other: Readiness) -> Readiness { Readiness(rawValue: rawValue | other.rawValue) }
  @inlinable package static func == (one: Readiness, other: Readiness) -> Bool { one.rawValue == other.rawValue }
}

/// The waiters for a descriptor, and how often it has become ready. Pure: no lock, no switch, no system call.
///
/// The kernel reports each change once (edge-triggered), so a change that comes between a refused system call and the
/// wait for it must not be missed. Therefore changes are counted. A waiter says which count it has *seen*: it read the
/// count before it made the call that was refused. If the count has moved since, it does not wait, but calls again.
///
/// A report may be late: the bytes may have been read by then. A waiter that makes its call again finds out. Others only ask
/// whether the descriptor *is ready*: they are woken only if it still is.
struct ReadinessStateMachine {
  typealias Node = UnsafeMutablePointer<WaitNode>

  private(set) var isClosed = false
  /// How often it has become readable, and writable. They wrap.
  private(set) var readEvents: UInt32 = 0
  private(set) var writeEvents: UInt32 = 0
  /// Those that make their call again.
  private(set) var readers = WaitQueue<WaitNode>()
  private(set) var writers = WaitQueue<WaitNode>()
  /// Those that want to know whether it is ready.
  private(set) var readableWaiters = WaitQueue<WaitNode>()
  private(set) var writableWaiters = WaitQueue<WaitNode>()

  /// A waiter comes.
  ///
  /// - Parameter seen: the count before the call that was refused. `nil`: the caller has looked under the lock.
  mutating func wait(_ node: Node, for readiness: Readiness, seen: UInt32?) -> Attempt {
    guard !isClosed else { return .done }
    if let seen, seen != events(for: readiness) { return .done }
    withQueue(for: readiness, callsAgain: seen != nil) { $0.append(node) }
    return .wait
  }

  /// A waiter withdraws.
  ///
  /// - Parameter callsAgain: whether it came with a count that it had seen.
  mutating func withdraw(_ node: Node, from readiness: Readiness, callsAgain: Bool) {
    withQueue(for: readiness, callsAgain: callsAgain) { $0.remove(node) }
  }

  /// The kernel has reported a change. Returns the waiters to wake.
  ///
  /// - Parameter isStill: whether it is ready now, after what has been read and written since the change.
  mutating func becomeReady(_ readiness: Readiness, isStill: (Readiness) -> Bool) -> ClaimedWaiters {
    var woken = ClaimedWaiters()
    if readiness.contains(.readable) {
      readEvents &+= 1
      Self.popAll(&readers, to: &woken)
      if !readableWaiters.isEmpty, isStill(.readable) { Self.popAll(&readableWaiters, to: &woken) }
    }
    if readiness.contains(.writable) {
      writeEvents &+= 1
      Self.popAll(&writers, to: &woken)
      if !writableWaiters.isEmpty, isStill(.writable) { Self.popAll(&writableWaiters, to: &woken) }
    }
    return woken
  }

  /// A reader has left bytes that the kernel has handed over. Returns the waiters to wake: not those that make their call
  /// again, which would find nothing.
  mutating func bytesAreReadAhead() -> ClaimedWaiters {
    var woken = ClaimedWaiters()
    Self.popAll(&readableWaiters, to: &woken)
    return woken
  }

  @inline(__always)
  private static func popAll(_ queue: inout WaitQueue<WaitNode>, to woken: inout ClaimedWaiters) {
    while let node = queue.popClaimed() { woken.append(node) }
  }

  /// Nothing more will happen here. Returns the waiters to wake; `nil` if it was closed before.
  mutating func close() -> ClaimedWaiters? {
    guard !isClosed else { return nil }
    isClosed = true
    return becomeReady([.readable, .writable]) { _ in true }
  }

  @inline(__always)
  private mutating func withQueue(
    for readiness: Readiness, callsAgain: Bool, _ body: (inout WaitQueue<WaitNode>) -> Void
  ) {
    switch (readiness == .writable, callsAgain) {
    case (true, true): body(&writers)
    case (true, false): body(&writableWaiters)
    case (false, true): body(&readers)
    case (false, false): body(&readableWaiters)
    }
  }

  private func events(for readiness: Readiness) -> UInt32 { readiness == .writable ? writeEvents : readEvents }
}
