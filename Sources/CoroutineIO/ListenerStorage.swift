// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import Context
import Coroutine
import CoroutineLibc
import Synchronization

/// What the copies of a listener share. The socket is closed with the last one.
final class ListenerStorage: Sendable {
  let descriptor: Descriptor
  let address: SocketAddress
  /// The socket in the file system that belongs to it, if one does.
  private let file: SocketFile?
  /// For one removal at a time.
  private let removal = Lock()
  private let isRemoved = Atomic<Bool>(false)
  /// When a shortage was last reported, in nanoseconds; 0: never.
  private let lastReport = Atomic<UInt64>(0)
  /// In nanoseconds: a minute, since a shortage may last, and be met by each client.
  private static var timeBetweenReports: UInt64 { 60_000_000_000 }
  /// `Fork.count` of the process that listens. A child closes its copy, and leaves the name to its parent.
  private let madeIn = Fork.count

  init(_ descriptor: Descriptor, at address: SocketAddress, file: SocketFile? = nil) {
    self.descriptor = descriptor
    self.address = address
    self.file = file
  }

  deinit { close() }

  func close() {
    // First the name: a client that finds it finds a listener. (Unless its descriptor was closed by itself.)
    if Fork.count == madeIn { removeFile() }
    descriptor.close()
  }

  /// By the first of those that close it at the same time; the others wait for that. A second removal might be that of another
  /// listener's socket, which is at the path by then: many file systems give a new file the number of one that has just gone.
  func removeFile() {
    guard let file else { return }
    removal.withLock {
      if !isRemoved.exchange(true, ordering: .relaxed) { file.remove() }
    }
  }

  /// Suspends the calling coroutine until there is a connection. `name` gets the peer's address.
  func accept(_ limit: WaitLimit, name: (SocketAddress) -> String) throws -> (Descriptor, SocketAddress) {
    var shortage = DescriptorShortage.Waiter()
    while true {
      // Also where connections are always waiting, so that nothing else would see a cancel.
      try Coroutine.checkCancellation()
      do {
        var peer: SocketAddress?
        let number = try descriptor.perform(.accept, limit) { listener in
          let (result, address) = SocketAddress.filled { Int(coroutine_io_accept(listener, $0, $1)) }
          // It waits for a peer now. (A connection may still be refused by the poller.)
          if result < 0, coroutine_io_errno() == EAGAIN { shortage.end() }
          peer = address
          return result
        }
        let connection = Int32(number)
        let address = peer ?? SocketAddress(.unix([]))
        return try SocketSetup.closingOnError(connection) {
          (try Descriptor(adopting: connection, name: name(address)), address)
        }
      } catch let error as IOError {
        switch error.code {
        // The peer has gone before it was accepted, or its network has: accept(2) has the list.
        case ECONNABORTED, EPROTO, ENETDOWN, ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH:
          continue
        // EPERM: a firewall has refused this one. Or a policy refuses each, and leaves it in the queue.
        case EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC, EPERM:
          report(error)
          try shortage.wait(limit)
        default: throw error
        }
      }
    }
  }

  private func report(_ error: IOError) {
    // Never 0.
    let now = WaitDeadline.after(.nanoseconds(1))
    let last = lastReport.load(ordering: .relaxed)
    guard last == 0 || now &- last > Self.timeBetweenReports,
      lastReport.compareExchange(expected: last, desired: now, ordering: .relaxed).exchanged
    else { return }
    CoroutineErrors.unhandled(AcceptSuspended(cause: error), descriptor.name)
  }
}

/// A listener of this module: its descriptor shows its close.
protocol DescriptorListener {
  var descriptor: Descriptor { get }
}

extension DescriptorListener {
  /// A case of a `select`: chosen when it is closed. A socket that listens has never room for bytes; so it is chosen also
  /// when that was shut down, and then throws what an `accept` would.
  var onEnded: Select.Case<Select.DescriptorReadiness, Bool> {
    descriptor.onWritable {
      guard descriptor.isClosed else { throw IOError(operation: "accept", code: EINVAL, subject: descriptor.name) }
      return false
    }
  }
}
