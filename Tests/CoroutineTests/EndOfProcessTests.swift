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

  @Test func exitWhileThePoolRunsIsAnEnd() async {
    await #expect(processExitsWith: .exitCode(7)) {
      Self.work()
      try await Coroutine { try Coroutine.sleep(for: .milliseconds(5)) }.get()
      exit(7)
    }
  }

  @Test func exitInACoroutineIsAnEnd() async {
    await #expect(processExitsWith: .exitCode(7)) {
      Self.work()
      try await Coroutine { () throws -> Void in
        try Coroutine.sleep(for: .milliseconds(5))
        exit(7)
      }.get()
    }
  }
}
