// SPDX-License-Identifier: Apache-2.0

import Coroutine

/// Connects to the first of a host's addresses that answers (RFC 8305): each one begins 250 ms after the one before it, or
/// as soon as that has failed.
struct ConnectionRace {
  let addresses: [SocketAddress]
  let host: String
  let port: Int
  let noDelay: Bool
  let limit: WaitLimit

  private typealias Outcome = Result<TCPConnection, AttemptFailure>

  private struct AttemptFailure: Error {
    let address: SocketAddress
    let error: any Error
  }

  static var headStart: Duration { .milliseconds(250) }

  init(to addresses: [SocketAddress], host: String, port: Int, noDelay: Bool, _ limit: WaitLimit) {
    self.addresses = Self.alternating(addresses)
    self.host = host
    self.port = port
    self.noDelay = noDelay
    self.limit = limit
  }

  func run() throws -> TCPConnection {
    // Nothing to race: in the calling coroutine.
    if addresses.count == 1 { return try winner(of: [attempt(addresses[0])]) }
    // Room for all: no attempt ever waits to hand over its outcome.
    let outcomes = Channel<Outcome>(capacity: .buffered(addresses.count), name: "connections to \(host)")
    defer {
      // Those that have answered at the same time. The scope has ended: no more will come.
      while case .received(let outcome) = outcomes.tryReceive() { try? outcome.get().close() }
    }
    return try withScope(name: "connecting to \(host)") { scope in
      defer { scope.cancel() }
      var known: [Outcome] = []
      var begun = 0
      while known.count < addresses.count {
        if begun < addresses.count {
          let address = addresses[begun]
          begun += 1
          scope.launch(name: "connecting to \(address)") {
            // An answer that finds no receiver stays in the channel, and is closed from there.
            try outcomes.send(self.attempt(address))
          }
        }
        do {
          let isLast = begun == addresses.count
          known.append(try outcomes.receive(timeout: isLast ? nil : Self.headStart))
        } catch is TimeoutError {
          continue
        }
        if case .success = known[known.count - 1] { break }
      }
      return try winner(of: known)
    }
  }

  private func attempt(_ address: SocketAddress) -> Outcome {
    do {
      return .success(try TCPConnection(to: address, noDelay: noDelay, limit))
    } catch {
      return .failure(AttemptFailure(address: address, error: error))
    }
  }

  /// The connection, or the reason why there is none: a timeout or a cancel ends the whole race, whatever the outcomes
  /// of other attempts.
  private func winner(of outcomes: [Outcome]) throws -> TCPConnection {
    var attempts: [(SocketAddress, any Error)] = []
    for outcome in outcomes {
      switch outcome {
      case .success(let connection): return connection
      case .failure(let failure): attempts.append((failure.address, failure.error))
      }
    }
    try Coroutine.checkCancellation()
    if let (_, error) = attempts.first(where: { $0.1 is TimeoutError || $0.1 is CancellationError }) { throw error }
    throw ConnectionFailed(host: host, port: port, attempts: attempts)
  }

  /// The families alternately, beginning with that of the first; within each, in the given order.
  static func alternating(_ addresses: [SocketAddress]) -> [SocketAddress] {
    guard let first = addresses.first else { return [] }
    let same = addresses.filter { $0.family == first.family }
    let other = addresses.filter { $0.family != first.family }
    var result: [SocketAddress] = []
    for index in 0..<max(same.count, other.count) {
      if index < same.count { result.append(same[index]) }
      if index < other.count { result.append(other[index]) }
    }
    return result
  }
}
