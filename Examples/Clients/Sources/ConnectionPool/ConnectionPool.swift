import Coroutine

/// A connection that a pool lends to one coroutine at a time.
public protocol PooledConnection: Sendable {
  /// Whether it can be lent again. False after an error in the middle of a query, whose answer may still come.
  var isUsable: Bool { get }
}

/// Some connections for many coroutines. A connection is made when it is first needed, and made anew when it has
/// broken.
public struct ConnectionPool<Connection: PooledConnection>: Sendable {
  // A channel is all there is to it: a coroutine that finds it empty waits. `nil` stands for a connection not made
  // yet.
  private let free: Channel<Connection?>
  private let connect: @Sendable () throws -> Connection

  public init(size: Int, connect: @escaping @Sendable () throws -> Connection) throws {
    self.connect = connect
    free = Channel(capacity: .buffered(size), name: "free connections")
    for _ in 0..<size { try free.send(nil) }
  }

  /// Lends a connection to `body`; waits while all are lent.
  public func withConnection<Value>(_ body: (Connection) throws -> Value) throws -> Value {
    var connection = try free.receive()
    // The channel has room for all, so this never waits: a cancelled coroutine gives its connection back, too.
    defer { _ = free.trySend(connection.flatMap { $0.isUsable ? $0 : nil }) }
    if connection?.isUsable != true { connection = try connect() }
    return try body(connection!)
  }
}
