// SPDX-License-Identifier: Apache-2.0

/// One stack of a `StackPool`: a range of writable memory with a guard below it.
///
///     guard (faults)        usable: `size` bytes
///     |---------------------|-------------------------------------------|
///                           ^ limit                    grows downwards  ^ top
///
/// A value of this type is a name: copying it copies nothing, dropping it releases nothing. The caller of
/// `StackPool.allocate()` owns the memory until `StackPool.release(_:)`. The bytes are unspecified at first: zero in a
/// fresh stack, leftovers in a used one.
// Unchecked: because of the pointers. The value itself is immutable, and the memory is handed from one owner to the next under
// the pool's lock.
public struct Stack: @unchecked Sendable, BitwiseCopyable, Hashable {
  /// The lowest usable byte, page aligned. What lies just below is the guard.
  public let limit: UnsafeMutableRawPointer

  /// One past the highest usable byte, page aligned.
  public let top: UnsafeMutableRawPointer

  /// Immutable while the pool lives.
  let arena: UnsafeMutablePointer<StackArena>

  @usableFromInline let slot: Int

  /// Usable bytes: the distance from `limit` to `top`.
  @inlinable
  public var size: Int { top - limit }

  /// 0..<16, different for neighbours. The tops of all stacks have the same low address bits, and caches choose a
  /// line's set by those. Put what is hot in every stack `color` times 64 or 128 bytes lower; otherwise 60,000 stacks
  /// share a few cache sets.
  @inlinable
  public var color: Int { slot & 15 }

  /// The addresses below `limit` that fault: empty in a pool without guards. The pool must be alive.
  public var guardRange: Range<UInt> {
    let end = UInt(bitPattern: limit)
    return end - UInt(arena.pointee.geometry.guardSize)..<end
  }

  /// Whether `address` lies in the usable part.
  @inlinable
  public func contains(_ address: UInt) -> Bool {
    UInt(bitPattern: limit) <= address && address < UInt(bitPattern: top)
  }
}

extension Stack: CustomStringConvertible {
  public var description: String {
    let limit = String(UInt(bitPattern: limit), radix: 16)
    let top = String(UInt(bitPattern: top), radix: 16)
    return "Stack(0x\(limit)..<0x\(top), \(ByteCount(size)))"
  }
}
