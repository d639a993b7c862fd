import CLibPQ
import ConnectionPool
import Coroutine
import CoroutineIO
import Glibc

/// What libpq says of an error.
struct PostgresError: Error, CustomStringConvertible {
  let description: String
}

/// A connection of libpq. Its waits suspend the coroutine, not the thread.
// Unchecked: the pool lends it to one coroutine at a time.
final class PostgresConnection: PooledConnection, @unchecked Sendable {
  private let handle: OpaquePointer
  private let socket: Descriptor
  private var isInQuery = false

  /// Connects. A cancel or a timeout leaves nothing behind.
  init(_ parameters: String, timeout: Duration) throws {
    guard let handle = PQconnectStart(parameters) else { throw PostgresError(description: "no memory") }
    do {
      guard PQstatus(handle) != CONNECTION_BAD else { throw Self.error(of: handle) }
      try withTimeout(timeout) {
        // The first step is to wait for this: libpq's rule.
        try Self.socket(of: handle).waitUntilWritable()
        while try !Self.poll(handle) {}
      }
      guard PQsetnonblocking(handle, 1) == 0 else { throw Self.error(of: handle) }
      socket = try Self.socket(of: handle)
    } catch {
      PQfinish(handle)
      throw error
    }
    self.handle = handle
  }

  deinit { PQfinish(handle) }

  var isUsable: Bool { !isInQuery && PQstatus(handle) == CONNECTION_OK }

  /// One step towards a connection. Returns whether it is there. Each address that libpq tries has a socket of its
  /// own.
  private static func poll(_ handle: OpaquePointer) throws -> Bool {
    switch PQconnectPoll(handle) {
    case PGRES_POLLING_OK: return true
    case PGRES_POLLING_READING: try socket(of: handle).waitUntilReadable()
    case PGRES_POLLING_WRITING: try socket(of: handle).waitUntilWritable()
    default: throw error(of: handle)
    }
    return false
  }

  /// A descriptor is closed by its owner. libpq owns its own, so this is a copy.
  private static func socket(of handle: OpaquePointer) throws -> Descriptor {
    let copy = dup(PQsocket(handle))
    guard copy >= 0 else { throw error(of: handle) }
    do { return try Descriptor(adopting: copy, name: "PostgreSQL") } catch {
      close(copy)
      throw error
    }
  }

  private static func error(of handle: OpaquePointer) -> PostgresError {
    PostgresError(description: String(cString: PQerrorMessage(handle)))
  }

  /// Sends a query, and waits for its rows. An error or a cancel in the middle leaves the connection unusable.
  func query(_ text: String, _ values: [String] = []) throws -> [[String?]] {
    isInQuery = true
    try send(text, values)
    var rows: [[String?]] = []
    var failure: PostgresError?
    while let result = try nextResult() {
      defer { PQclear(result) }
      switch PQresultStatus(result) {
      case PGRES_TUPLES_OK: rows += Self.rows(of: result)
      case PGRES_COMMAND_OK: break
      default: failure = PostgresError(description: String(cString: PQresultErrorMessage(result)))
      }
    }
    isInQuery = false
    if let failure { throw failure }
    return rows
  }

  private func send(_ text: String, _ values: [String]) throws {
    let copies = values.map { strdup($0) }
    defer { for copy in copies { free(copy) } }
    let pointers = copies.map { UnsafePointer($0) }
    guard PQsendQueryParams(handle, text, Int32(values.count), nil, pointers, nil, nil, 0) == 1 else {
      throw Self.error(of: handle)
    }
    while true {
      switch PQflush(handle) {
      case 0: return
      case 1:
        // The server may have to be read from before it takes more.
        try select {
          socket.onWritable {}
          socket.onReadable { [handle] in if PQconsumeInput(handle) == 0 { throw Self.error(of: handle) } }
        }
      default: throw Self.error(of: handle)
      }
    }
  }

  private func nextResult() throws -> OpaquePointer? {
    while PQisBusy(handle) == 1 {
      try socket.waitUntilReadable()
      if PQconsumeInput(handle) == 0 { throw Self.error(of: handle) }
    }
    return PQgetResult(handle)
  }

  private static func rows(of result: OpaquePointer) -> [[String?]] {
    (0..<PQntuples(result)).map { row in
      (0..<PQnfields(result)).map { column in
        PQgetisnull(result, row, column) == 1 ? nil : String(cString: PQgetvalue(result, row, column))
      }
    }
  }
}
