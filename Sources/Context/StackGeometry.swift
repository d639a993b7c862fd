// SPDX-License-Identifier: Apache-2.0

import CoroutineLibc

/// The sizes of a pool, in bytes, all of them whole pages: how large a stack is, how far one slot of an arena lies from
/// the next, and how many slots an arena has.
struct StackGeometry: Sendable, Hashable {
  static let pageSize = Int(sysconf(CInt(_SC_PAGESIZE)))

  /// The least size is what a signal frame with all vector registers and a handful of calls need. The most is what
  /// address spaces have room for several times. A coroutine gets more: see `StackPool.leastCoroutineStackSize`.
  static let allowedStackSizes = 16 << 10...1 << 40
  static let allowedGuardSizes = 1...1 << 30

  /// A frame larger than the guard can step over it, and swiftc does not probe large frames; buffers of 64 KB do occur.
  ///
  /// A page of guard is a mark in the page table: 25 ns when a stack is first made, 8 bytes for ever. 64 KiB make a new
  /// stack a twelfth more expensive than 16 KiB do, 256 KiB would make it half as expensive again.
  static let defaultGuardSize = StackGuardSize.fromEnvironment() ?? 64 << 10

  static let mostSlots = 4096
  static let mostArenaBytes = 1 << 30

  /// Small, so that a program with few coroutines reserves a few MiB; each arena has four times the slots of the one
  /// before.
  static let fewestSlots = 16

  let stackSize: Int

  /// What lies below each stack: the guard, or in a pool without guards nothing or some unused pages.
  let gap: Int

  let isGuarded: Bool

  /// Throws `impossibleSize` or `impossibleGuardSize`. A size below the least is rounded up to that.
  init(stackSize: Int, guardSize: Int?, isGuarded: Bool) throws(StackError) {
    let requested = stackSize
    let stackSize = requested > 0 ? max(requested, Self.allowedStackSizes.lowerBound) : requested
    guard Self.allowedStackSizes.contains(stackSize) else {
      throw .impossibleSize(requested: requested, allowed: Self.allowedStackSizes)
    }
    let guardSize = isGuarded ? guardSize ?? Self.defaultGuardSize : Self.defaultGuardSize
    guard Self.allowedGuardSizes.contains(guardSize) else {
      throw .impossibleGuardSize(requested: guardSize, allowed: Self.allowedGuardSizes)
    }
    self.init(allowedStackSize: stackSize, allowedGuardSize: guardSize, isGuarded: isGuarded)
  }

  init(allowedStackSize: Int, allowedGuardSize: Int, isGuarded: Bool) {
    stackSize = Self.roundedToPages(allowedStackSize)
    let least = stackSize + (isGuarded ? Self.roundedToPages(allowedGuardSize) : 0)
    gap = Self.distance(pages: least / Self.pageSize) * Self.pageSize - stackSize
    self.isGuarded = isGuarded
  }

  /// How many pages neighbours lie apart, where they need as many as `least`: an odd number, but not 31 or 33.
  ///
  /// The translation buffer picks a page's set by the low bits of its number: with an even distance the tops of all stacks
  /// share half of the sets, with a multiple of 16 pages a sixteenth. Walking over 1,000 stack tops takes 6 ns each at 65 or
  /// 69 pages, 14 at 68, 19 at 64 or 80. Zen 5 mixes in the bits from the sixth on: 2^5 ± 1 are as bad there as an even
  /// distance (10,000 stack tops: 13.7 ns each at 33 pages, 14.8 at 31, 9.6 at 37), which a stack of 64 KiB would have.
  private static func distance(pages least: Int) -> Int {
    let odd = least | 1
    return odd == 31 || odd == 33 ? 35 : odd
  }

  var guardSize: Int { isGuarded ? gap : 0 }

  /// From one slot to the next.
  var stride: Int { gap + stackSize }

  var slotsPerArena: Int { min(Self.mostSlots, max(1, Self.mostArenaBytes / stride)) }

  static func roundedToPages(_ bytes: Int) -> Int {
    (bytes + pageSize - 1) & ~(pageSize - 1)
  }
}
