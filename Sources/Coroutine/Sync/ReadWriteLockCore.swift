// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context
import Synchronization

/// A read-write lock, whatever it guards.
@usableFromInline
// Unchecked: the name is constant, and the lock guards all else; debuggers read the words, which are atomic, without it.
class ReadWriteLockCore: Waitable, @unchecked Sendable {
  let name: String
  /// Guarded by the lock.
  @exclusivity(unchecked) private var machine = ReadWriteLockStateMachine()
  /// The holders, as the machine knows them, for debuggers: written under the lock.
  private let writer = Atomic<UInt64>(0)
  private let writerBlock = Atomic<UInt>(0)
  private let readers = Atomic<Int>(0)

  init(name: String) {
    self.name = name
  }

  // MARK: Reading

  /// Returns the new reader, for the unlock.
  @usableFromInline
  final func lockForReading(timeout: Duration?) throws -> LockHolder {
    let core = CoroutineCore.running(for: "ReadWriteLock.withReadLock(_:)")
    return try lock(core, ReadWriteLockNode.Kind.reader, timeout)
  }

  @usableFromInline
  nonisolated(nonsending) final func lockForReading(timeout: Duration?) async throws -> LockHolder {
    try await lock(.reader, timeout)
  }

  /// `nil` if it can't be had.
  @usableFromInline
  final func lockForReadingIfAvailable() -> LockHolder? {
    // A task that runs inside of a coroutine has ended its reading before the coroutine goes on: both may count as one.
    let holder = CoroutineCore.current.map { LockHolder($0) } ?? .none
    return lock.withLock {
      defer { publish() }
      return machine.tryRead(holder) ? holder : nil
    }
  }

  @usableFromInline
  final func unlockForReading(_ holder: LockHolder) {
    lock.lock()
    let woken = machine.endRead(holder)
    publish()
    lock.unlock()
    woken.wakeAll()
  }

  // MARK: Writing

  @usableFromInline
  final func lockForWriting(timeout: Duration?) throws {
    let core = CoroutineCore.running(for: "ReadWriteLock.withWriteLock(_:)")
    _ = try lock(core, .writer, timeout)
  }

  @usableFromInline
  nonisolated(nonsending) final func lockForWriting(timeout: Duration?) async throws {
    _ = try await lock(.writer, timeout)
  }

  @usableFromInline
  final func lockForWritingIfAvailable() -> Bool {
    let (holder, block) = LockHolder.currentWithBlock
    return lock.withLock {
      defer { publish() }
      return machine.tryWrite(holder, block)
    }
  }

  @usableFromInline
  final func unlockForWriting() {
    lock.lock()
    let woken = machine.endWrite()
    publish()
    lock.unlock()
    woken.wakeAll()
  }

  // MARK: Both

  private final func lock(
    _ core: CoroutineCore, _ kind: ReadWriteLockNode.Kind, _ timeout: Duration?
  ) throws -> LockHolder {
    let (holder, block) = (LockHolder(core), HolderBlock(core))
    requireNotWriter(holder)
    _ = try wait(core, .lock, timeout: timeout) {
      ReadWriteLockNode(wait: WaitNode($0), kind: kind, holder: holder, block: block)
    } attempt: {
      attempt($0, kind, holder)
    } withdraw: {
      withdraw($0)
    }
    return holder
  }

  nonisolated(nonsending) private final func lock(
    _ kind: ReadWriteLockNode.Kind, _ timeout: Duration?
  ) async throws -> LockHolder {
    let holder = LockHolder.current
    requireNotWriter(holder)
    try await wait(timeout: timeout) {
      ReadWriteLockNode(wait: WaitNode($0), kind: kind, holder: holder, block: .none)
    } attempt: {
      attempt($0, kind, holder)
    } withdraw: {
      withdraw($0)
    }
    return holder
  }

  private final func attempt(
    _ node: ReadWriteLockStateMachine.Node, _ kind: ReadWriteLockNode.Kind, _ holder: LockHolder
  ) -> Attempt {
    defer { publish() }
    let result = machine.lock(node)
    if kind == .writer, case .wait = result { requireNotReader(holder) }
    return result
  }

  private final func withdraw(_ node: ReadWriteLockStateMachine.Node) -> Attempt {
    defer { publish() }
    return .wakeAll(machine.withdraw(node))
  }

  private final func requireNotWriter(_ holder: LockHolder) {
    require(
      LockHolder(word: writer.load(ordering: .relaxed)) != holder,
      "\(CoroutineCore.current?.description ?? "async code") locks \(named("read-write lock", name)), whose writer it is: "
        + "it would wait for itself for ever. Use what the closure of withWriteLock was given.")
  }

  /// The caller holds `lock`.
  private final func requireNotReader(_ holder: LockHolder) {
    require(
      !machine.knownReaders.contains(holder),
      "\(CoroutineCore.current?.description ?? "async code") locks \(named("read-write lock", name)) for writing while it "
        + "reads: it would wait for itself for ever. End the read first, and look again.")
  }

  // MARK: For people

  /// After each change. The caller holds `lock`.
  private final func publish() {
    writer.store(machine.writer.word, ordering: .relaxed)
    writerBlock.store(machine.writerBlock.address, ordering: .relaxed)
    readers.store(machine.readers, ordering: .relaxed)
  }

  override package final func wakers(_ operation: WaitReason.Operation) -> Wakers {
    let writer = LockHolder(word: writer.load(ordering: .relaxed))
    guard writer == .none else { return Wakers(holder: writer.coroutineID) }
    coroutine_sanitizer_begin_unseen()
    defer { coroutine_sanitizer_end_unseen() }
    return .readers(machine.knownReaders.ids, queued: machine.waiters.count)
  }

  override package final func describe(_ operation: WaitReason.Operation) -> String {
    let writer = LockHolder(word: writer.load(ordering: .relaxed))
    return WaitText.readWriteLock(
      name, writer: writer.description(at: HolderBlock(address: writerBlock.load(ordering: .relaxed))),
      readers: readers.load(ordering: .relaxed))
  }
}
