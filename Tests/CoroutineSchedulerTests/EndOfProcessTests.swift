import CoroutineTestSupport
import Glibc
import Testing

@testable import Coroutine

/// A process that ends while its pool, its timers and its blocking threads work.
@Suite(.ownThreads) struct EndOfProcessTests {
  /// Coroutines that go on for ever: they exchange elements, sleep, compute, block.
  private static func work() {
    for _ in 0..<4 {
      let channel = Channel<Int>(capacity: .buffered(2))
      Coroutine.detached {
        while true { try channel.send(1) }
      }
      Coroutine.detached {
        while true { _ = try channel.receive(timeout: .milliseconds(1)) }
      }
      Coroutine.detached {
        while true { try Coroutine.sleep(for: .microseconds(50)) }
      }
      Coroutine.detached {
        while true { try blocking { _ = usleep(50) } }
      }
      Coroutine.detached {
        while true {
          for number in Generator<Int>({ yield in for number in 0..<100 { try yield(number) } }) where number == 50 {
            break
          }
          Coroutine.yield()
        }
      }
    }
  }

  /// Each in a process of its own, at another moment.
  private static var rounds: Int { amount(20, sanitized: 3) }

  @Test func exitWhileThePoolRunsIsAnEnd() async {
    for round in 0..<Self.rounds {
      await #expect(processExitsWith: .exitCode(7), "round \(round)") { [round = round as Int] in
        Self.work()
        try await Coroutine { try Coroutine.sleep(for: .microseconds(250 * round)) }.get()
        exit(7)
      }
    }
  }

  @Test func exitInACoroutineIsAnEnd() async {
    for round in 0..<Self.rounds {
      await #expect(processExitsWith: .exitCode(7), "round \(round)") { [round = round as Int] in
        Self.work()
        try await Coroutine { () throws -> Void in
          try Coroutine.sleep(for: .microseconds(250 * round))
          exit(7)
        }.get()
      }
    }
  }
}
