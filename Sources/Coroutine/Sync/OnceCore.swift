// SPDX-License-Identifier: Apache-2.0

import Context
public import Synchronization

/// The making of a value, whatever it is.
@usableFromInline
// Unchecked: the name is constant, the words are atomic, and the lock guards the machine.
class OnceCore: Waitable, @unchecked Sendable {
  @usableFromInline let name: String
  /// Guarded by the lock.
  @exclusivity(unchecked) private var machine = OnceStateMachine()
  @usableFromInline final let made = Atomic<Bool>(false)
  /// The holder that makes it, for debuggers and against waiting for oneself: written under the lock.
  private let maker = Atomic<UInt64>(0)
  private let makerBlock = Atomic<UInt>(0)

  @usableFromInline
  init(name: String) {
    self.name = name
  }

  /// Whether the value can be read.
  @inlinable
  final var isMade: Bool { made.load(ordering: .acquiring) }  // litmus: end-result

  /// Waits until the value is there, or its maker has failed. Whether the calling coroutine has to make it.
  @usableFromInline
  final func begin(timeout: Duration?) throws -> Bool {
    let core = CoroutineCore.running(for: "Once.get(_:)")
    let (holder, block) = (LockHolder(core), HolderBlock(core))
    requireNotMaker(holder)
    return try wait(core, .once, timeout: timeout) {
      OnceNode(wait: WaitNode($0), holder: holder, block: block)
    } attempt: {
      attempt($0)
    } withdraw: {
      machine.withdraw($0)
    }.mustMake
  }

  /// The same for the calling task.
  @usableFromInline
  nonisolated(nonsending) final func begin(timeout: Duration?) async throws -> Bool {
    let holder = LockHolder.current
    requireNotMaker(holder)
    var mustMake = false
    try await wait(timeout: timeout) {
      OnceNode(wait: WaitNode($0), holder: holder, block: .none)
    } attempt: {
      attempt($0)
    } withdraw: {
      machine.withdraw($0)
    } afterwards: {
      mustMake = $0.mustMake
    }
    return mustMake
  }

  private final func attempt(_ node: OnceStateMachine.Node) -> Attempt {
    defer { publish() }
    return machine.begin(node)
  }

  /// The value is there.
  @usableFromInline
  final func succeed() {
    made.store(true, ordering: .releasing)  // litmus: end-result
    lock.lock()
    let woken = machine.succeed()
    publish()
    lock.unlock()
    woken.wakeAll()
  }

  /// It could not be made: the next one tries.
  @usableFromInline
  final func fail() {
    lock.lock()
    let next = machine.fail()
    publish()
    lock.unlock()
    next?.wake()
  }

  private final func requireNotMaker(_ holder: LockHolder) {
    require(
      LockHolder(word: maker.load(ordering: .relaxed)) != holder,
      "\(CoroutineCore.current?.description ?? "async code") asks for the value of \(named("once", name)) while it makes "
        + "it: it would wait for itself for ever. Make it without asking for it")
  }

  /// After each change. The caller holds `lock`.
  private final func publish() {
    maker.store(machine.maker.word, ordering: .relaxed)
    makerBlock.store(machine.makerBlock.address, ordering: .relaxed)
  }

  override package final func wakers(_ operation: WaitReason.Operation) -> Wakers {
    Wakers(holder: LockHolder(word: maker.load(ordering: .relaxed)).coroutineID)
  }

  override package final func describe(_ operation: WaitReason.Operation) -> String {
    let maker = LockHolder(word: maker.load(ordering: .relaxed))
    return WaitText.once(
      name, maker: maker.description(at: HolderBlock(address: makerBlock.load(ordering: .relaxed))))
  }
}
