// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import CCoroutineSystem
import Synchronization

/// The holder of a lock: a coroutine, a task or a thread, in one word, so that it can be exchanged and read atomically.
///
/// The lowest bit is always 0: a mutex keeps a mark of its own there.
@usableFromInline
package struct LockHolder: Equatable, Sendable {
  @usableFromInline let word: UInt64

  static var none: LockHolder { LockHolder(word: 0) }

  private static var kinds: UInt64 { 0b110 }
  private static var coroutine: UInt64 { 0b010 }
  private static var task: UInt64 { 0b100 }
  private static var thread: UInt64 { 0b110 }

  package init(word: UInt64) {
    self.word = word
  }

  init(_ core: CoroutineCore) {
    word = core.id << 3 | Self.coroutine
  }

  /// The coroutine, task or thread that runs the calling code.
  static var current: LockHolder {
    let task = withUnsafeCurrentTask { task in
      // A task's handle is one pointer; it only has to be different for each task.
      task.map { unsafeBitCast($0, to: UInt.self) }
    }
    if let task { return LockHolder(word: UInt64(task) << 3 | Self.task) }
    if let core = CoroutineCore.current { return LockHolder(core) }
    return LockHolder(word: UInt64(coroutine_system_own_thread()) << 3 | Self.thread)
  }

  /// The same, and where the block of a coroutine lies. A task that runs on a coroutine's stack holds for itself.
  static var currentWithBlock: (holder: LockHolder, block: HolderBlock) {
    let holder = current
    guard holder.coroutineID != nil, let core = CoroutineCore.current else { return (holder, .none) }
    return (holder, HolderBlock(core))
  }

  /// The number of the coroutine, if it is one.
  var coroutineID: UInt64? { word & Self.kinds == Self.coroutine ? word >> 3 : nil }

  /// In words; `nil` if there is no holder. `block` is where a coroutine's block was when it became the holder.
  ///
  /// For a debugger, while suspended coroutines can't run: then the name of one that does not run can be read.
  func description(at block: HolderBlock) -> String? {
    description { block.name(of: $0) }
  }

  /// The same; `name` returns a coroutine's name by its number, if it is known.
  package func description(name: (UInt64) -> String?) -> String? {
    guard self != .none else { return nil }
    guard let id = coroutineID else { return word & Self.kinds == Self.task ? "async code" : "a thread" }
    return CoroutineCore.describe(id: id, name: name(id) ?? "")
  }
}

/// Where on a stack the code is that has taken a lock. A holder is a coroutine or a task, whatever runs in it: by this its closure
/// is known from other code of the same one, such as the consumer of a generator whose body has yielded inside of the closure.
///
/// As long as the closure has not ended, that stack is in use, and nothing else lies there.
struct HolderFrame: BitwiseCopyable {
  let address: UInt
  /// The newest access to a variable that the coroutine had open there; 0: none; `notNoted`.
  var access = Self.notNoted

  /// No access lies at this address.
  static var notNoted: UInt { 1 }

  /// That of the calling code.
  @inline(__always)
  static var here: HolderFrame { HolderFrame(address: coroutine_stack_pointer()) }

  /// Async code is on no stack of its own.
  static var none: HolderFrame { HolderFrame(address: 0) }

  /// The same, and the access. As the coroutine.
  func notingAccess(of core: CoroutineCore) -> HolderFrame { HolderFrame(address: address, access: core.newestAccess) }

  /// Whether the running coroutine `core` has begun an access since then, and not ended it. False where that was not noted.
  func isInsideNewerAccess(of core: CoroutineCore) -> Bool {
    guard access != Self.notNoted else { return false }
    let newest = core.newestAccess
    // The noted one may have ended, as a generator's whose body has gone on: then the others' ages are not known.
    return newest != 0 && newest != access && (access == 0 || coroutine_access_is_open(access))
  }

  /// Whether the calling code, in the running coroutine `core`, is inside of it: on the same stack, or in a generator's body that
  /// was resumed in there. Such a body that runs in another coroutine, or not at all, is none of those that run here.
  func isAround(_ core: CoroutineCore) -> Bool {
    if core.block?.pointee.stack.contains(address) == true { return true }
    return RunningBodies().contains { $0.pointee.stack.contains(address) }
  }
}

/// Where the holder's control block lies, if it is a coroutine: for debuggers, which find the name there.
///
/// It may be out of date, and the holder gone: blocks lie in memory that stays mapped, and show whether they are in use.
struct HolderBlock: BitwiseCopyable {
  let address: UInt

  init(_ core: CoroutineCore) {
    address = UInt(bitPattern: core.block)
  }

  init(address: UInt) {
    self.address = address
  }

  static var none: HolderBlock { HolderBlock(address: 0) }

  /// The name of the coroutine with this number, if it lies here and does not run.
  func name(of id: UInt64) -> String? {
    guard let block = UnsafeMutablePointer<ControlBlock>(bitPattern: address) else { return nil }
    let state = block.pointee.state.load(ordering: .acquiring)
    guard state == .ready || state == .suspended else { return nil }
    return CoroutineCore.core(of: block)._withUnsafeGuaranteedRef { core in core.id == id ? core.name : nil }
  }
}
