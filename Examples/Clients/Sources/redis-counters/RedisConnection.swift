import CHiredis
import ConnectionPool
import Coroutine
import CoroutineIO
import Glibc

/// What hiredis, or the server, says of an error.
struct RedisError: Error, CustomStringConvertible {
  let description: String
}

/// A connection of hiredis. Its waits suspend the coroutine, not the thread.
// Unchecked: the pool lends it to one coroutine at a time.
final class RedisConnection: PooledConnection, @unchecked Sendable {
  private let context: UnsafeMutablePointer<redisContext>
  private let socket: Descriptor
  private var isInCommand = false

  init(host: String, port: Int32, timeout: Duration) throws {
    guard let context = redisConnectNonBlock(host, port) else { throw RedisError(description: "no memory") }
    do {
      if context.pointee.err != 0 { throw Self.error(of: context) }
      socket = try Self.socket(of: context)
      // Connected, or refused: the first command shows which.
      try socket.waitUntilWritable(timeout: timeout)
    } catch {
      redisFree(context)
      throw error
    }
    self.context = context
  }

  /// A descriptor is closed by its owner. hiredis owns its own, so this is a copy.
  private static func socket(of context: UnsafeMutablePointer<redisContext>) throws -> Descriptor {
    let copy = dup(context.pointee.fd)
    guard copy >= 0 else { throw RedisError(description: String(cString: strerror(errno))) }
    do { return try Descriptor(adopting: copy, name: "Redis") } catch {
      close(copy)
      throw error
    }
  }

  deinit { redisFree(context) }

  var isUsable: Bool { !isInCommand && context.pointee.err == 0 }

  private static func error(of context: UnsafeMutablePointer<redisContext>) -> RedisError {
    RedisError(
      description: withUnsafeBytes(of: context.pointee.errstr) {
        String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
      })
  }

  /// Sends a command, and waits for the reply: a number, a text, or nothing.
  func command(_ words: String...) throws -> String? {
    isInCommand = true
    try send(words)
    let reply = try receive()
    defer { freeReplyObject(reply) }
    isInCommand = false
    switch reply.pointee.type {
    case REDIS_REPLY_INTEGER: return "\(reply.pointee.integer)"
    case REDIS_REPLY_NIL: return nil
    case REDIS_REPLY_ERROR: throw RedisError(description: String(cString: reply.pointee.str))
    default: return String(cString: reply.pointee.str)
    }
  }

  private func send(_ words: [String]) throws {
    let copies = words.map { strdup($0) }
    defer { for copy in copies { free(copy) } }
    var pointers = copies.map { UnsafePointer($0) }
    let lengths = words.map { $0.utf8.count }
    guard redisAppendCommandArgv(context, Int32(words.count), &pointers, lengths) == REDIS_OK else {
      throw Self.error(of: context)
    }
    var isDone: Int32 = 0
    while true {
      guard redisBufferWrite(context, &isDone) == REDIS_OK else { throw Self.error(of: context) }
      if isDone == 1 { return }
      try socket.waitUntilWritable()
    }
  }

  private func receive() throws -> UnsafeMutablePointer<redisReply> {
    while true {
      var reply: UnsafeMutableRawPointer?
      guard redisGetReplyFromReader(context, &reply) == REDIS_OK else { throw Self.error(of: context) }
      if let reply { return reply.assumingMemoryBound(to: redisReply.self) }
      try socket.waitUntilReadable()
      guard redisBufferRead(context) == REDIS_OK else { throw Self.error(of: context) }
    }
  }
}
