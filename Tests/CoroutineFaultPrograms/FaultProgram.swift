import Coroutine
import CoroutineDebug
import CoroutineIO
import Glibc
import Synchronization

/// A small program whose system calls are refused. Each counts what it has begun and what has come of it, so that a lost
/// result or a lost error is found, and throws the first error when everything has ended.
struct FaultProgram: Sendable {
  let name: String
  /// Those that sleep in system calls.
  var threads: [StormyThreads] = []
  let body: @Sendable () throws -> Void

  static let all = [
    FaultProgram(name: "coroutines", threads: [.first, .pool], body: coroutines),
    FaultProgram(name: "generators", threads: [.running], body: generators),
    FaultProgram(name: "channels", threads: [.first, .pool, .timer], body: channels),
    FaultProgram(name: "blocking", threads: [.first, .pool, .blocking], body: blockingWork),
    FaultProgram(name: "sockets", threads: [.first, .pool], body: sockets),
    FaultProgram(name: "interrupts", threads: [.running], body: interrupts),
    FaultProgram(name: "child", threads: [.first, .pool], body: child),
    FaultProgram(name: "dump", threads: [.first, .pool], body: dump),
  ]

  private final class Sum: Sendable {
    let value = Atomic<Int>(0)
  }

  /// A result that is not what it should be.
  struct Wrong: Error, CustomStringConvertible {
    let description: String
  }

  private static func require(_ condition: Bool, _ problem: @autoclosure () -> String) throws {
    if !condition { throw Wrong(description: problem()) }
  }

  /// Waits for all of them. Then throws the first error, if there was one: but a wrong result before others.
  private static func settle(_ coroutines: [Coroutine<Int, any Error>]) throws -> [Int?] {
    var first: (any Error)?
    let results = try coroutines.map { coroutine -> Int? in
      do {
        return try coroutine.getBlocking()
      } catch let wrong as Wrong {
        throw wrong
      } catch {
        first = first ?? error
        return nil
      }
    }
    for (number, result) in results.enumerated() where result != nil && result != number {
      throw Wrong(description: "coroutine \(number) returned \(result!)")
    }
    if let first { throw first }
    return results
  }

  // MARK: The programs

  /// More stacks than a pool's first arena has, on two threads.
  private static func coroutines() throws {
    let pool = ThreadPool(threads: 2)
    let gate = Promise<Void>.makePromise()
    let all = (0..<40).map { number in
      Coroutine(on: pool) { () throws -> Int in
        try gate.promise.get()
        Coroutine.yield()
        return number
      }
    }
    let opener = Coroutine(on: pool) { gate.resolver.fulfill(()) }
    do {
      _ = try opener.getBlocking()
    } catch {
      gate.resolver.fulfill(())
      _ = try settle(all)
      throw error
    }
    _ = try settle(all)
  }

  /// Generators inside one another, each with its stack, and one that ends early.
  private static func generators() throws {
    var made = (0..<20).map { start in
      Generator<Int> { yield in
        for number in start..<start + 10 { try yield(number) }
      }
    }
    let outer = Generator<Int> { yield in
      for generator in made {
        for number in generator { try yield(number) }
      }
    }
    var sum = 0
    for number in outer { sum += number }
    for generator in made + [outer] {
      if let failure = generator.failure { throw failure }
    }
    try require(sum == 20 * 45 + 10 * 190, "the generators' sum is \(sum)")
    made.removeAll()
  }

  /// Senders and receivers, with timeouts, sleeps and a ticker's clock.
  private static func channels() throws {
    let pool = ThreadPool(threads: 2)
    let channel = Channel<Int>(capacity: .buffered(2))
    let received = Sum()
    let senders = (0..<4).map { number in
      Coroutine(on: pool) { () throws -> Int in
        for element in 1...10 {
          try channel.send(element, timeout: .seconds(300))
          if element % 4 == 0 { try Coroutine.sleep(for: .microseconds(100)) }
        }
        return number
      }
    }
    let receivers = (0..<2).map { number in
      Coroutine(on: pool) { () throws -> Int in
        for element in channel.received { received.value.add(element, ordering: .relaxed) }
        return number
      }
    }
    let silent = Channel<Int>()
    let late = Coroutine(on: pool) { () throws -> Int in
      do {
        _ = try silent.receive(timeout: .milliseconds(1))
        throw Wrong(description: "a channel without a sender was received from")
      } catch is TimeoutError {
        return 0
      }
    }
    let results = Result { try settle(senders) }
    channel.close()
    let others = [Result { try settle(receivers) }, Result { try settle([late]) }]
    _ = try results.get()
    for other in others { _ = try other.get() }
    let sum = received.value.load(ordering: .relaxed)
    try require(sum == 4 * 55, "the channel's sum is \(sum)")
  }

  private static func blockingWork() throws {
    let pool = ThreadPool(threads: 2)
    let threads = BlockingPool(threadLimit: 3)
    let all = (0..<12).map { number in
      Coroutine(on: pool) { () throws -> Int in
        try blocking(on: threads) {
          usleep(100)
          return number
        }
      }
    }
    _ = try settle(all)
  }

  /// A server and clients by TCP, and two ends of a pair.
  private static func sockets() throws {
    let pool = ThreadPool(threads: 2)
    let listener = try TCPListener()
    let server = Coroutine(on: pool) { () throws -> Int in
      // As many as there are clients. Where one can't connect, or can't be accepted, the other side hears of it.
      defer { listener.close() }
      for _ in 0..<3 {
        let connection: TCPConnection
        do { connection = try listener.accept(timeout: .seconds(10)) } catch is DescriptorClosed { break }
        defer { connection.close() }
        while let bytes = try connection.read() { try connection.write(bytes) }
      }
      return 0
    }
    let clients = Coroutine(on: pool) { () throws -> Int in
      defer { listener.close() }
      for number in 0..<3 {
        let connection = try TCPConnection(to: listener.address)
        defer { connection.close() }
        try connection.write("line \(number)\n")
        try Coroutine.sleep(for: .microseconds(200))
        let line = try connection.readLine()
        // Nothing: the server could not go on with this connection, and its error is the one to be told.
        guard line != nil else { throw IOError(operation: "readLine", code: ECONNRESET, subject: "the server") }
        try require(line == "line \(number)", "the echo is \(line ?? "none")")
      }
      return 0
    }
    let pair = Coroutine(on: pool) { () throws -> Int in
      let (one, other) = try UnixConnection.pair()
      let echo = Coroutine {
        defer { other.close() }
        while let line = try other.readLine() { try other.write("\(line)\n") }
      }
      let result = Result {
        defer { one.close() }
        for number in 0..<10 {
          try one.write("\(number)\n")
          let line = try one.readLine()
          try require(line == "\(number)" || line == nil, "the pair's echo is \(line ?? "none")")
          guard line != nil else { return }
        }
      }
      try echo.get()
      try result.get()
      return 0
    }
    let results = [clients, server, pair].map { coroutine in Result { try settle([coroutine]) } }
    listener.close()
    // The server's reason before what the client has seen of it.
    for result in [results[1], results[0], results[2]] { _ = try result.get() }
  }

  /// One for all runs of `interrupts`: a pool that goes could have the poller when the next one's worker falls asleep.
  private static let interruptedPool = ThreadPool(threads: 1)

  /// A worker that sleeps in the poller is woken for a coroutine that waits for no event, by another thread.
  private static func interrupts() throws {
    let pool = interruptedPool
    let (one, other) = try UnixConnection.pair()  // with the first descriptor the poller is there
    defer {
      one.close()
      other.close()
    }
    for _ in 0..<3 {
      let gate = Promise<Void>.makePromise()
      let waiter = Coroutine(on: pool) { () throws -> Int in
        try gate.promise.get()
        return 0
      }
      while waiter.state != .finished, waiter.state != .suspended || !EventPoller.isWorkerAsleep { sched_yield() }
      gate.resolver.fulfill(())
      _ = try settle([waiter])
    }
  }

  private static func child() throws {
    // Where no signal can be told, they have their former effect.
    _ = signal(SIGUSR1, SIG_IGN)
    let pool = ThreadPool(threads: 2)
    let signals = try Signals.received(SIGUSR1)
    let all = (0..<2).map { number in
      Coroutine(on: pool) { () throws -> Int in
        let output = try ChildProcess.run("cat", input: Array("words".utf8), timeout: .seconds(300))
        try require(output.end.isSuccess && output.output == Array("words".utf8), "cat wrote \(output)")
        return number
      }
    }
    let result = Result { try settle(all) }
    kill(getpid(), SIGUSR1)
    let receiver = Coroutine(on: pool) { () throws -> Int in try signals.receive() == SIGUSR1 ? 0 : 1 }
    _ = try settle([receiver])
    signals.close()
    _ = try result.get()
  }

  /// Others are looked at, and go on afterwards.
  private static func dump() throws {
    let pool = ThreadPool(threads: 2)
    let gate = Promise<Void>.makePromise()
    let all = (0..<6).map { number in
      Coroutine(on: pool, name: "waiter \(number)") { () throws -> Int in
        try gate.promise.get()
        return number
      }
    }
    for coroutine in all {
      while coroutine.state != .suspended && coroutine.state != .finished { sched_yield() }
    }
    let suspended = all.count { $0.state == .suspended }
    let result = Result { try CoroutineDump.capture() }
    gate.resolver.fulfill(())
    _ = try settle(all)
    let found = try result.get().coroutines.count { $0.name.hasPrefix("waiter") }
    try require(found == suspended, "the dump has \(found) of \(suspended) coroutines")
  }
}
