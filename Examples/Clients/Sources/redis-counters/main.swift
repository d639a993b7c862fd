// Hundreds of coroutines share a few connections to Redis, through hiredis, its own client library.
//
//     redis-counters 6379

import ConnectionPool
import Coroutine
import CoroutineIO

guard CommandLine.arguments.count == 2, let port = Int32(CommandLine.arguments[1]) else {
  fatalError("usage: redis-counters <port>")
}

try runUntilComplete {
  let pool = try ConnectionPool(size: 4) { try RedisConnection(host: "127.0.0.1", port: port, timeout: .seconds(10)) }
  _ = try pool.withConnection { try $0.command("DEL", "visits") }
  try withScope { scope in
    for visitor in 0..<300 {
      scope.launch(on: .pool) {
        for _ in 0..<20 { _ = try pool.withConnection { try $0.command("INCR", "visits") } }
        _ = try pool.withConnection { try $0.command("SET", "visitor:\(visitor)", "\(visitor)", "EX", "60") }
      }
    }
  }
  let visits = try pool.withConnection { try $0.command("GET", "visits") } ?? "none"
  let last = try pool.withConnection { try $0.command("GET", "visitor:299") } ?? "none"
  print("300 coroutines over 4 connections: \(visits) visits, the last visitor is \(last)")
}
