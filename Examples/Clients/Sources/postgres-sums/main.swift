// Hundreds of coroutines share a few connections to PostgreSQL, through libpq, the database's own client library.
//
//     postgres-sums "host=127.0.0.1 dbname=postgres"
//     postgres-sums "host=127.0.0.1 dbname=postgres" --while-it-restarts    # waits until the server has gone and is back

import ConnectionPool
import Coroutine
import CoroutineIO
import Glibc

guard let parameters = CommandLine.arguments.dropFirst().first else {
  fatalError("usage: postgres-sums <connection parameters> [--while-it-restarts]")
}

try runUntilComplete {
  let pool = try ConnectionPool(size: 8) { try PostgresConnection(parameters, timeout: .seconds(10)) }
  if CommandLine.arguments.contains("--while-it-restarts") { try surviveARestart(pool) } else { try sum(pool) }
}

/// Each coroutine lets the server add numbers, and checks the result.
func sum(_ pool: ConnectionPool<PostgresConnection>) throws {
  let wrong = CoroutineMutex(0)
  try withScope { scope in
    for one in 0..<200 {
      scope.launch(on: .pool) {
        for other in 0..<100 {
          let rows = try pool.withConnection { try $0.query("SELECT $1::int + $2::int", ["\(one)", "\(other)"]) }
          if rows != [["\(one + other)"]] { try wrong.withLock { $0 += 1 } }
        }
      }
    }
  }
  print("20000 queries of 200 coroutines over 8 connections, \(try wrong.withLock { $0 }) wrong sums")
}

/// Queries on all connections until each has lost the server, and then until each has an answer again.
func surviveARestart(_ pool: ConnectionPool<PostgresConnection>) throws {
  try withScope { scope in
    let begun = WaitGroup()
    for _ in 0..<8 {
      begun.add()
      scope.launch(on: .pool) {
        // Each coroutine keeps one connection, so that every connection loses the server.
        try pool.withConnection { connection in
          _ = try connection.query("SELECT 1")
          begun.done()
          do {
            while true { _ = try connection.query("SELECT pg_sleep(0.01)") }
          } catch is PostgresError {}
        }
        while (try? pool.withConnection { try $0.query("SELECT 1") }) != [["1"]] {
          try Coroutine.sleep(for: .milliseconds(20))
        }
      }
    }
    try begun.wait()
    print("asking")
    fflush(nil)
  }
  print("8 connections broke, and 8 were made again")
}
