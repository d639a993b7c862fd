// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import CCoroutineIO
import Context
import Coroutine
import CoroutineLibc

/// The process's epoll set, and which descriptors are in it.
///
/// An event carries a descriptor's number and a generation, not an address: between the moment in which the kernel hands an
/// event over and the one in which it is delivered, the descriptor may be closed and its number given to another one. Then
/// the generation differs, and the event is dropped.
// Unchecked: the lock guards the table; all else is constant.
final class EpollPoller: EventQueue, @unchecked Sendable {
  /// Made with the first descriptor; with a later one where the kernel has refused what it needs, which may be there by then.
  private static let shared = Shared()

  private final class Shared: Sendable {
    let lock = Lock()
    /// Guarded by the lock.
    nonisolated(unsafe) private var poller: EpollPoller?

    // It guards nothing that could be half done. (To take it before a fork could wait for a thread that waits for the C
    // library's lock of these handlers.)
    init() { Fork.handle(child: { EpollPoller.shared.lock.freeInChild() }) }

    func get() throws(IOError) -> EpollPoller {
      try lock.withLock { () throws(IOError) in
        if let poller { return poller }
        let made = try EpollPoller()
        poller = made
        return made
      }
    }
  }

  /// The poller of this process.
  static func current() throws(IOError) -> EpollPoller {
    let poller = try shared.get()
    guard poller.madeIn == Fork.count else {
      throw IOError(operation: "adopt", code: EBADF, subject: "a child of fork, which has no poller of its own")
    }
    return poller
  }

  private struct Entry {
    var generation: UInt32 = 0
    var storage: DescriptorStorage?
  }

  private let set: CInt
  /// What interrupts the worker that polls, and the thread.
  let workerWake: CInt
  let threadWake: CInt
  /// `Fork.count` of the process that has the poller's thread.
  private let madeIn = Fork.count
  private let lock = Lock()
  /// By number. Guarded by the lock. An entry keeps its descriptor's storage alive until it is closed.
  @exclusivity(unchecked) private var entries: [Entry] = []

  /// Events per look. With their deliveries, each list takes at most 1 KiB: above that Swift takes temporary memory from the
  /// heap.
  private static var eventLimit: Int { 64 }
  // No descriptor has these numbers.
  private static var workerWakeData: UInt64 { .max }
  private static var threadWakeData: UInt64 { .max - 1 }

  private init() throws(IOError) {
    set = coroutine_io_epoll_create()
    workerWake = coroutine_io_eventfd()
    threadWake = coroutine_io_eventfd()
    do throws(IOError) {
      try Self.check(set, "epoll_create")
      try Self.check(workerWake, "eventfd")
      try Self.check(threadWake, "eventfd")
      try Self.check(coroutine_io_epoll_add_wake(set, workerWake, Self.workerWakeData), "epoll_ctl")
      try Self.check(coroutine_io_epoll_add_wake(set, threadWake, Self.threadWakeData), "epoll_ctl")
      coroutine_note_poller_wakes(workerWake, threadWake)
      try Self.check(-EventPoller.install(self), "pthread_create")
    } catch {
      coroutine_note_poller_wakes(-1, -1)
      for descriptor in [set, workerWake, threadWake] where descriptor >= 0 { close(descriptor) }
      throw error
    }
  }

  private static func check(_ result: CInt, _ operation: String) throws(IOError) {
    guard result >= 0 else { throw IOError(operation: operation, code: -result, subject: "the poller") }
  }

  /// Ends the program where what the poller has does not work any more: no wait for a descriptor would end, and its
  /// threads would look for events without a pause.
  private static func require(_ result: CInt, _ operation: StaticString) -> CInt {
    guard result >= 0 else {
      fatalError(
        "\(operation) on the poller's own descriptor was refused: \(String(cString: strerror(-result))) (errno \(-result)). "
          + "The program, or a library, has closed a descriptor that is not its own, or a sandbox's filter forbids the call."
      )
    }
    return result
  }

  // MARK: Descriptors

  /// Registers a descriptor. Its events go to `storage` from here on.
  func add(_ storage: DescriptorStorage, _ number: CInt) throws(IOError) {
    // The system call is made under the lock: an event that comes at once finds the entry, and a refused one leaves the
    // entry to the descriptor that has the number already.
    let (result, former): (CInt, DescriptorStorage?) = lock.withLock {
      let generation = entries.indices.contains(Int(number)) ? entries[Int(number)].generation &+ 1 : 1
      let data = UInt64(generation) << 32 | UInt64(UInt32(bitPattern: number))
      let result = coroutine_io_epoll_add(set, number, data)
      // Only now: what is no descriptor may be any number.
      guard result >= 0 else { return (result, nil) }
      if entries.count <= Int(number) {
        entries.append(contentsOf: repeatElement(Entry(), count: Int(number) + 1 - entries.count))
      }
      let former = entries[Int(number)].storage
      entries[Int(number)] = Entry(generation: generation, storage: storage)
      return (result, former)
    }
    // Other code has closed that one's number: its close would be that of the new one. Not under the lock, as this wakes waiters,
    // and what it lets go of may run code.
    former?.disown()
    guard result >= 0 else { throw IOError(operation: "adopt", code: -result, subject: storage.name) }
  }

  /// Takes one out, before its number is given up.
  func remove(_ number: CInt) {
    // The set has it for as long as any copy of the descriptor is open, which another process may have.
    _ = coroutine_io_epoll_remove(set, number)
    // What this lets go of may run code: not under the lock.
    let entry = lock.withLock { entries[Int(number)].storage.take() }
    withExtendedLifetime(entry) {}
  }

  // MARK: Polling

  func interrupt(_ role: EventPoller.Role) {  // litmus: poller-interrupt
    _ = Self.require(coroutine_io_eventfd_add(role == .thread ? threadWake : workerWake), "eventfd's write")
  }

  func forgetInterruptOfThread() { _ = Self.require(coroutine_io_eventfd_clear(threadWake), "eventfd's read") }

  func poll(for duration: Duration?, as role: EventPoller.Role, beforeDelivery: () -> Void) -> Bool {
    withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: Self.eventLimit) { events in
      let result = coroutine_io_epoll_wait(
        set, events.baseAddress!, CInt(Self.eventLimit), duration.map { Int64(clamping: $0.nanosecondsRoundedUp) } ?? -1
      )
      let count = Int(Self.require(result, "epoll_wait"))
      guard count > 0 else { return false }
      return withUnsafeTemporaryAllocation(of: Delivery.self, capacity: count) { deliveries in
        let found = collect(UnsafeMutableBufferPointer(rebasing: events[..<count]), into: deliveries, as: role)
        guard found > 0 else { return false }
        beforeDelivery()
        for index in 0..<found {
          let delivery = deliveries[index]
          delivery.storage._withUnsafeGuaranteedRef { $0.becomeReady(delivery.readiness) }
          delivery.storage.release()
        }
        return true
      }
    }
  }

  /// A descriptor, retained, and what it has become.
  private struct Delivery {
    let storage: Unmanaged<DescriptorStorage>
    let readiness: Readiness
  }

  /// Finds the descriptors of the events. Returns how many deliveries there are.
  private func collect(
    _ events: UnsafeMutableBufferPointer<epoll_event>, into deliveries: UnsafeMutableBufferPointer<Delivery>,
    as role: EventPoller.Role
  ) -> Int {
    var found = 0
    lock.lock()
    for index in 0..<events.count {
      let event = events.baseAddress! + index
      let data = coroutine_io_event_data(event)
      switch data {
      case Self.workerWakeData: takeInterruptOfWorker(as: role)
      // It stays until the thread has seen it. One that came too late, when the thread had gone to sleep elsewhere, would
      // wake the worker that sleeps here again and again.
      case Self.threadWakeData:
        if role == .thread || role == .worker && EventPoller.isThreadDormant { forgetInterruptOfThread() }
      default:
        let number = Int(data & 0xffff_ffff)
        guard entries[number].generation == UInt32(data >> 32), let storage = entries[number].storage else { continue }
        deliveries.initializeElement(
          at: found,
          to: Delivery(storage: .passRetained(storage), readiness: Readiness(epoll: coroutine_io_event_bits(event))))
        found += 1
      }
    }
    lock.unlock()
    return found
  }

  /// An interrupt that is meant for the worker that sleeps here, and stays until that worker has seen it.
  ///
  /// One may come too late: the worker has left because of an event. The poller's thread clears a late interrupt, or it would
  /// find it at each look, and never sleep. If a worker has come in meanwhile, the thread raises the interrupt again, since it
  /// may be for that worker. A worker that it is not for just falls asleep again.
  private func takeInterruptOfWorker(as role: EventPoller.Role) {  // litmus: poller-interrupt
    guard role != .visitor else { return }
    _ = Self.require(coroutine_io_eventfd_clear(workerWake), "eventfd's read")
    if role == .thread, EventPoller.isWorkerAsleep { interrupt(.worker) }
  }
}

extension Readiness {
  fileprivate init(epoll bits: UInt32) {
    let failed = bits & coroutine_io_event_failed != 0
    self.init(rawValue: 0)
    if failed || bits & coroutine_io_event_readable != 0 { self = union(.readable) }
    if failed || bits & coroutine_io_event_writable != 0 { self = union(.writable) }
    // A read of TCP stops before an urgent byte: from there on a short one does not mean that there is no more.
    if failed || bits & coroutine_io_event_hung_up != 0 { self = union(.hungUp) }
  }
}
