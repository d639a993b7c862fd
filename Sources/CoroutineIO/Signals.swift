// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import Context
public import Coroutine
import CoroutineLibc

/// Signals of the process, such as SIGTERM, as values.
///
/// A handler that writes to a pipe catches them. Not a signalfd: that would need the signal to be blocked in all
/// threads, and a library can't block it in those that exist already.
public enum Signals {
  /// A channel that gets each of these signals when it comes. The signal loses its former effect.
  ///
  /// ```swift
  /// let signals = try Signals.received(SIGTERM, SIGINT)
  /// try withScope { scope in
  ///   scope.launch { try listener.serve { … } }
  ///   _ = try signals.receive()     // a server that fails ends this wait, too
  ///   signals.close()               // a second signal ends the process at once
  ///   scope.cancel()
  /// }
  /// ```
  ///
  /// Several channels may subscribe to one signal: each gets it. A signal that comes again before it was delivered is
  /// delivered once, as the kernel does it; a channel that is not received from keeps the newest 64. Close the channel,
  /// and the signal has its former effect again at once, unless another channel subscribes to it. One that has come, and
  /// that no channel has got by then, is raised anew.
  ///
  /// A channel that is dropped and not closed stays subscribed: then no code hears of the signal.
  ///
  /// Callable from any thread.
  ///
  /// - Parameter numbers: not SIGKILL and SIGSTOP, which can't be caught, nor those after which the program can't go on
  ///   where it is (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS): traps otherwise.
  /// - Throws: `IOError`: EINVAL if a number is no signal's; EMFILE if there is no descriptor left; ECHILD in a child by `fork`
  ///   of a process that has received signals in this way.
  public static func received(_ numbers: Int32...) throws -> Channel<Int32> {
    for number in numbers {
      require(!uncatchable.contains(number), "signal \(number) can't be received as a value")
      guard (1...coroutine_io_signal_last()).contains(number) else {
        throw IOError(operation: "sigaction", code: EINVAL, subject: "signal \(number)")
      }
    }
    let channel = Channel<Int32>(
      capacity: .newest(64), name: "signals " + numbers.map { "\($0)" }.joined(separator: ", "))
    try SignalReceivers.current().add(channel, for: numbers)
    return channel
  }

  private static var uncatchable: [Int32] {
    [SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS]
  }
}

/// The subscribers of each signal. One for the process, as its signals are.
// Unchecked: the lock guards what changes.
private final class SignalReceivers: @unchecked Sendable {
  private static let making = Lock()
  /// Guarded by `making`.
  nonisolated(unsafe) private static var made: SignalReceivers?

  /// Made with the first subscription; with a later one where there was no descriptor left.
  static func current() throws -> SignalReceivers {
    try making.withLock {
      let receivers = try made ?? make()
      guard receivers.madeIn == Fork.count else {
        throw IOError(
          operation: "receive", code: ECHILD, subject: "signals in a child of fork, whose parent receives them")
      }
      made = receivers
      receivers.beginDelivering()
      return receivers
    }
  }

  /// `Fork.count` of the process whose signals these are.
  private let madeIn = Fork.count
  private let lock = Lock()
  // Guarded by the lock, both.
  private var channels: [Int32: [Channel<Int32>]] = [:]
  /// Whether there is a coroutine that delivers signals.
  private var isDelivering = false
  /// Kept open, for the handlers: a write to a pipe without a reader would end the process.
  private let reader: PipeReader
  private let writer: PipeWriter

  // Nothing in it throws: Swift 6.3 crashes where the optimiser takes an initialiser apart that may.
  private init(_ reader: PipeReader, _ writer: PipeWriter) { (self.reader, self.writer) = (reader, writer) }

  private static func make() throws -> SignalReceivers {
    let (reader, writer) = try makePipe()
    coroutine_io_signals_begin(try writer.descriptor.withFileDescriptor { $0 })
    return SignalReceivers(reader, writer)
  }

  /// Goes with the body of the coroutine that delivers signals: that ends only where it gets no stack, and so never begins.
  private final class Deliverer: Sendable {
    let receivers: SignalReceivers

    init(of receivers: SignalReceivers) { self.receivers = receivers }

    deinit { receivers.endDelivering() }
  }

  private func beginDelivering() {
    let begins = lock.withLock {
      defer { isDelivering = true }
      return !isDelivering
    }
    guard begins else { return }
    let deliverer = Deliverer(of: self)
    let coroutine = Coroutine.detached(name: "signals") {
      // Each byte says that some signal has come; the records say which.
      while try deliverer.receivers.reader.read() != nil { deliverer.receivers.deliver() }
    }
    Inspection.noteLasting(coroutine.id)
  }

  /// The receivers of signals must hear that none will come. A later subscription tries again.
  private func endDelivering() {
    let all = lock.withLock {
      defer { channels = [:] }
      isDelivering = false
      for number in channels.keys { _ = coroutine_io_signal_release(number) }
      return channels.values.flatMap(\.self)
    }
    for channel in all { channel.close(throwing: Self.notDelivered) }
  }

  private static var notDelivered: IOError {
    IOError(operation: "start", code: ENOMEM, subject: "the coroutine that tells of signals")
  }

  func add(_ channel: Channel<Int32>, for numbers: [Int32]) throws {
    try lock.withLock {
      guard isDelivering else { throw Self.notDelivered }
      // All or none.
      var caught: [Int32] = []
      for number in Set(numbers) {
        // Also one that has subscribers: other code may have given it another handler since.
        guard coroutine_io_signal_catch(number) == 0 else {
          let code = coroutine_io_errno()
          for number in caught { _ = coroutine_io_signal_release(number) }
          throw IOError(operation: "sigaction", code: code, subject: "signal \(number)")
        }
        if channels[number] == nil { caught.append(number) }
      }
      for number in Set(numbers) { channels[number, default: []].append(channel) }
    }
    // Not with the next signal only: that should end a program whose threads are all taken, so that nothing delivers it.
    channel.whenClosed { _ in self.lock.withLock { for number in numbers { _ = self.isCaught(number) } } }
  }

  /// Whether a signal still has subscribers. Forgets those whose channels are closed. The caller holds `lock`.
  private func isCaught(_ number: Int32) -> Bool {
    channels[number]?.removeAll { $0.isClosed }
    if channels[number]?.isEmpty == true {
      channels[number] = nil
      _ = coroutine_io_signal_release(number)
    }
    return channels[number] != nil
  }

  private func deliver() {
    for number in 1...coroutine_io_signal_last() {
      let record = coroutine_io_signal_take(number)
      guard record != 0 else { continue }
      var isDelivered = false
      for channel in lock.withLock({ channels[number] ?? [] }) where !channel.isClosed {
        if case .sent = channel.trySend(number) { isDelivered = true }
      }
      guard !isDelivered else { continue }
      // Also one that came just before it was released, and is found by the look after that. A channel that has subscribed since
      // then gets it. Where other code has put the handler back after the release, it would be found here again and again. (One
      // that had come before that is none of these: the program may have a handler of its own by now.)
      let isRaised = lock.withLock { isCaught(number) || record != 2 || coroutine_io_signal_release(number) }
      if isRaised { coroutine_io_signal_raise(number) }
    }
  }
}
