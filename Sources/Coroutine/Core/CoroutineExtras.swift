// SPDX-License-Identifier: Apache-2.0

import CCoroutine
public import Synchronization

/// Fields that few coroutines need: made at the first need, so that the others are small, and end quickly.
///
/// Code that may touch a field finds the object by `CoroutineCore.extras`, or makes it.
@usableFromInline
// Unchecked: each field says which thread may touch it.
final class CoroutineExtras: HiddenFromMirrors, @unchecked Sendable {
  /// Its values of `CoroutineLocal`s. Touched by the coroutine itself only.
  @exclusivity(unchecked) var locals: [ObjectIdentifier: any Sendable]?
  /// Where it runs instead of at home, inside `on(_:operation:)`. Changed by itself.
  @exclusivity(unchecked) var visiting: SchedulerReference?
  /// The thread that it keeps, as long as it is pinned to one. Changed by itself.
  @exclusivity(unchecked) var pin: ThreadPin?
  /// What one of its operations needed, for the next one of that kind. Touched by the coroutine itself only. Retained; not
  /// managed, since each operation takes it out and puts it back: an assignment would release a reference that is not there.
  @exclusivity(unchecked) @usableFromInline var spare: Unmanaged<AnyObject>?
  /// The innermost region that it has open (`CoroutineCore.regions` knows the type), and why it was cancelled as a
  /// whole. Guarded by `cancellationLock`.
  @exclusivity(unchecked) var innermostRegion: AnyObject?
  @exclusivity(unchecked) var cancellationReason: (any Error)?

  /// How often observers were called because it is ready, and when last; 0: never. Written by the thread that calls
  /// them.
  @exclusivity(unchecked) var turn: UInt32 = 0
  @exclusivity(unchecked) var readySince: UInt64 = 0
  /// Where it was created: a count, and that number of return addresses; owned.
  private let creation: UnsafeMutablePointer<UInt>?

  /// Frames of a creator that are kept, innermost first.
  private static var creationLimit: Int { 24 }

  init() { creation = nil }

  /// The extras of a coroutine that the caller is creating.
  fileprivate init(notingCreators backtracer: coroutine_backtracer) {
    creation = withUnsafeTemporaryAllocation(of: UInt.self, capacity: Self.creationLimit) { buffer in
      let count = backtracer(buffer.baseAddress, buffer.count)
      let copy = UnsafeMutablePointer<UInt>.allocate(capacity: count + 1)
      copy.initialize(to: UInt(count))
      (copy + 1).initialize(from: buffer.baseAddress!, count: count)
      return copy
    }
  }

  /// The return addresses of its creators, innermost first; empty if they were not asked for.
  var creators: UnsafeBufferPointer<UInt> {
    guard let creation else { return UnsafeBufferPointer(start: nil, count: 0) }
    return UnsafeBufferPointer(start: creation + 1, count: Int(creation.pointee))
  }

  deinit {
    creation?.deallocate()
    spare?.release()
  }
}

extension CoroutineCore {
  @inlinable @inline(__always)
  final var extras: Unmanaged<CoroutineExtras>? { extrasWord.load(ordering: .acquiring) }

  /// Its extras, to write to. Made by the first code that needs them: mostly itself, or its canceller.
  @inlinable @inline(__always)
  final var neededExtras: Unmanaged<CoroutineExtras> { extras ?? makeExtras() }

  @usableFromInline @inline(never)
  final func makeExtras() -> Unmanaged<CoroutineExtras> {
    let made = Unmanaged.passRetained(CoroutineExtras())
    let (isFirst, other) = extrasWord.compareExchange(expected: nil, desired: made, ordering: .acquiringAndReleasing)
    guard !isFirst, let other else { return made }
    made.release()
    return other
  }

  /// Keeps its creators. Before any other code knows of it, and before it has extras.
  ///
  /// Complete before it can be found: debuggers come across a new one with no lock in between.
  final func noteCreators(_ backtracer: coroutine_backtracer) {
    extrasWord.store(.passRetained(CoroutineExtras(notingCreators: backtracer)), ordering: .releasing)
  }

  final var locals: [ObjectIdentifier: any Sendable]? {
    get { extras?._withUnsafeGuaranteedRef { $0.locals } }
    set { neededExtras._withUnsafeGuaranteedRef { $0.locals = newValue } }
  }

  final var visiting: SchedulerReference? {
    get { extras?._withUnsafeGuaranteedRef { $0.visiting } }
    set { neededExtras._withUnsafeGuaranteedRef { $0.visiting = newValue } }
  }

  final var pin: ThreadPin? {
    get { extras?._withUnsafeGuaranteedRef { $0.pin } }
    set { neededExtras._withUnsafeGuaranteedRef { $0.pin = newValue } }
  }

  final var cancellationReason: (any Error)? {
    get { extras?._withUnsafeGuaranteedRef { $0.cancellationReason } }
    set { neededExtras._withUnsafeGuaranteedRef { $0.cancellationReason = newValue } }
  }
}
