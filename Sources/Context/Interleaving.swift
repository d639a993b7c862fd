// SPDX-License-Identifier: Apache-2.0

#if COROUTINE_INTERLEAVINGS
  public import Synchronization

  // The seam at which a test decides how threads interleave. Only a build with `-DCOROUTINE_INTERLEAVINGS` has it
  // (`scripts/interleavings.sh`): in any other one this file is empty, and `Atomic` is Swift's own.

  /// Lets one of its threads run at a time, and learns where another one could be let in: before each access to an atomic
  /// word of the runtime, and where a thread would sleep.
  package protocol InterleavingExplorer: AnyObject, Sendable {
    /// The calling thread is about to access an atomic word.
    func reachAccess()
    /// The calling thread would sleep until a wake at this address. `nil`: it is none of the explorer's.
    func sleep(at address: UnsafeRawPointer, isTimed: Bool) -> Interleaving.Sleep?
    /// Wakes at most `count` sleepers; returns how many.
    func wake(_ count: Int, at address: UnsafeRawPointer) -> Int
    /// The calling thread can't go on before another one has.
    func letOthersRun()
    /// The calling thread has started one of the runtime's own, which calls `adoptThread` first and `dismissThread` last.
    func awaitNewThread()
    func adoptThread()
    func dismissThread()
  }

  package enum Interleaving {
    /// How a sleep ended.
    package enum Sleep { case woken, timedOut }

    // Written while no thread of the explorer's runs, and read by no other: scenes have virtual timers, no detector, and this
    // build gives no idle stacks back (`StackPoolSurplus.swift`).
    nonisolated(unsafe) package static var explorer: (any InterleavingExplorer)?

    /// As the futex's wait: looks and falls asleep in one step. `nil`: this is no thread of an explorer's.
    static func sleep(at word: UnsafePointer<UInt32>, while expected: UInt32, isTimed: Bool) -> Sleep? {
      guard let explorer else { return nil }
      explorer.reachAccess()
      return word.pointee == expected ? explorer.sleep(at: word, isTimed: isTimed) : .woken
    }
  }

  /// Swift's `Atomic`, with a stop before each access. All are sequentially consistent: interleavings don't show what weaker
  /// orderings allow. docs/memory-model.md is about those.
  @frozen
  public struct InterleavedAtomic<Value: AtomicRepresentable>: ~Copyable {
    @usableFromInline let value: Synchronization.Atomic<Value>

    public init(_ initial: consuming Value) { value = Synchronization.Atomic(initial) }

    public borrowing func load(ordering: AtomicLoadOrdering) -> Value {
      Interleaving.explorer?.reachAccess()
      return Self.value(of: bits)
    }

    public borrowing func store(_ desired: consuming Value, ordering: AtomicStoreOrdering) {
      let desired = Self.bits(of: desired)
      _ = update { _ in desired }
    }

    public borrowing func exchange(_ desired: consuming Value, ordering: AtomicUpdateOrdering) -> Value {
      let desired = Self.bits(of: desired)
      return Self.value(of: update { _ in desired })
    }

    public borrowing func compareExchange(
      expected: consuming Value, desired: consuming Value, ordering: AtomicUpdateOrdering
    ) -> (exchanged: Bool, original: Value) {
      Interleaving.explorer?.reachAccess()
      let (exchanged, original) = replace(Self.bits(of: expected), by: Self.bits(of: desired))
      return (exchanged, Self.value(of: original))
    }

    public borrowing func compareExchange(
      expected: consuming Value, desired: consuming Value, successOrdering: AtomicUpdateOrdering,
      failureOrdering: AtomicLoadOrdering
    ) -> (exchanged: Bool, original: Value) {
      compareExchange(expected: expected, desired: desired, ordering: successOrdering)
    }
  }

  // Unchecked: as Swift's own, which it consists of.
  extension InterleavedAtomic: @unchecked Sendable where Value: Sendable {}

  extension InterleavedAtomic where Value: FixedWidthInteger {
    @discardableResult
    public borrowing func wrappingAdd(
      _ operand: Value, ordering: AtomicUpdateOrdering
    ) -> (oldValue: Value, newValue: Value) {
      let old = Self.value(of: update { Self.bits(of: Self.value(of: $0) &+ operand) })
      return (old, old &+ operand)
    }

    @discardableResult
    public borrowing func wrappingSubtract(
      _ operand: Value, ordering: AtomicUpdateOrdering
    ) -> (oldValue: Value, newValue: Value) {
      wrappingAdd(0 &- operand, ordering: ordering)
    }

    @discardableResult
    public borrowing func bitwiseOr(
      _ operand: Value, ordering: AtomicUpdateOrdering
    ) -> (oldValue: Value, newValue: Value) {
      let old = Self.value(of: update { Self.bits(of: Self.value(of: $0) | operand) })
      return (old, old | operand)
    }
  }

  // Swift's operations are there for the sizes of words, not for any value. Threads that no explorer knows may be at the same
  // word, so these are atomic, too.
  extension InterleavedAtomic {
    private borrowing func withWord<Result>(_ body: (UnsafeRawPointer) -> Result) -> Result {
      withUnsafePointer(to: value) { body(UnsafeRawPointer($0)) }
    }

    private borrowing func update(_ next: (UInt64) -> UInt64) -> UInt64 {
      Interleaving.explorer?.reachAccess()
      while true {
        let old = bits
        if replace(old, by: next(old)).exchanged { return old }
      }
    }

    private var bits: UInt64 {
      withWord { word in
        switch MemoryLayout<Value.AtomicRepresentation>.size {
        case 1:
          UInt64(
            word.assumingMemoryBound(to: Synchronization.Atomic<UInt8>.self).pointee.load(
              ordering: .sequentiallyConsistent))
        case 4:
          UInt64(
            word.assumingMemoryBound(to: Synchronization.Atomic<UInt32>.self).pointee.load(
              ordering: .sequentiallyConsistent))
        case 8:
          word.assumingMemoryBound(to: Synchronization.Atomic<UInt64>.self).pointee.load(
            ordering: .sequentiallyConsistent)
        default: fatalError("an atomic of \(MemoryLayout<Value.AtomicRepresentation>.size) bytes")
        }
      }
    }

    private borrowing func replace(_ old: UInt64, by new: UInt64) -> (exchanged: Bool, original: UInt64) {
      withWord { word in
        switch MemoryLayout<Value.AtomicRepresentation>.size {
        case 1:
          let (exchanged, original) = word.assumingMemoryBound(to: Synchronization.Atomic<UInt8>.self).pointee
            .compareExchange(expected: UInt8(old), desired: UInt8(new), ordering: .sequentiallyConsistent)
          return (exchanged, UInt64(original))
        case 4:
          let (exchanged, original) = word.assumingMemoryBound(to: Synchronization.Atomic<UInt32>.self).pointee
            .compareExchange(expected: UInt32(old), desired: UInt32(new), ordering: .sequentiallyConsistent)
          return (exchanged, UInt64(original))
        default:
          return word.assumingMemoryBound(to: Synchronization.Atomic<UInt64>.self).pointee
            .compareExchange(expected: old, desired: new, ordering: .sequentiallyConsistent)
        }
      }
    }

    private static func bits(of value: consuming Value) -> UInt64 {
      let representation = Value.encodeAtomicRepresentation(value)
      return switch MemoryLayout<Value.AtomicRepresentation>.size {
      // A representation is plain bits, here of the size of a `UInt8`.
      case 1: UInt64(unsafeBitCast(representation, to: UInt8.self))
      // Plain bits, of the size of a `UInt32`.
      case 4: UInt64(unsafeBitCast(representation, to: UInt32.self))
      // Plain bits, of the size of a `UInt64`: there is no other (`bits`).
      default: unsafeBitCast(representation, to: UInt64.self)
      }
    }

    private static func value(of bits: UInt64) -> Value {
      let representation =
        switch MemoryLayout<Value.AtomicRepresentation>.size {
        // A representation is plain bits, here of the size of a `UInt8`.
        case 1: unsafeBitCast(UInt8(bits), to: Value.AtomicRepresentation.self)
        // Plain bits, of the size of a `UInt32`.
        case 4: unsafeBitCast(UInt32(bits), to: Value.AtomicRepresentation.self)
        // Plain bits, of the size of a `UInt64`: there is no other (`bits`).
        default: unsafeBitCast(bits, to: Value.AtomicRepresentation.self)
        }
      return Value.decodeAtomicRepresentation(representation)
    }
  }

  // A type alias of the module's own hides the type that it imports.
  @usableFromInline package typealias Atomic = InterleavedAtomic
#endif
