import CCoroutineSystem
import CoroutineTestSupport
import Glibc
import Testing

@testable import Coroutine
@testable import CoroutineIO

/// What the process's poller needs of the system is refused, or taken away. In processes of their own, which have not
/// had a poller yet.
@Suite(.ownThreads) struct RefusedPollerTests {
  /// From this number on no descriptor is open; all before it are.
  private static let firstFree: Int32 = 100

  /// Runs `body` with so many descriptors left to the process, and only for that long: under load Dispatch looks for its threads
  /// in /proc once a second, and ends a process in which it can't.
  private static func withRoom(for count: Int32, _ body: () throws -> Void) rethrows {
    var number = dup(0)
    while number >= 0, number < firstFree { number = dup(0) }
    close(number)
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    let usual = limit.rlim_cur
    func set(_ most: rlim_t) {
      limit.rlim_cur = most
      setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
    set(rlim_t(firstFree + count))
    defer { set(usual) }
    try body()
  }

  /// How many sets of epoll and counters the process has open. Other code of the process may open and close files meanwhile.
  private static func countPollersDescriptors() -> Int {
    (0..<Int32(128)).count { number in
      var target = [UInt8](repeating: 0, count: 64)
      let length = readlink("/proc/self/fd/\(number)", &target, target.count)
      return length > 0 && String(decoding: target[..<length], as: UTF8.self).hasPrefix("anon_inode:[event")
    }
  }

  /// `poll` is refused to a process that may have no descriptors, as in a sandbox.
  @Test func aLookThatIsRefusedEndsTheWait() async {
    await #expect(processExitsWith: .success) {
      let (reader, writer) = try makePipe()
      try await Coroutine {
        try writer.write("x")
        // The event has come by then.
        try Coroutine.sleep(for: .milliseconds(100))
      }.value
      try Self.withRoom(for: -Self.firstFree) {
        try Coroutine { try reader.descriptor.waitUntilReadable(timeout: .seconds(10)) }.getBlocking()
      }
    }
  }

  /// A listener that has not ended and a child that runs are not taken for the opposite.
  @Test func aLookThatIsRefusedDecidesNothing() async {
    await #expect(processExitsWith: .success) {
      let listener = try TCPListener()
      let connections = RunningConnections(limit: 1, name: "test")
      let child = try ChildProcess("sleep", ["60"], input: .null, output: .null, error: .null)
      // What begins with the first wait is there before.
      try await Coroutine { try Coroutine.sleep(for: .milliseconds(1)) }.value
      try Self.withRoom(for: -Self.firstFree) {
        try Coroutine {
          guard try connections.waitForRoom(or: listener.onEnded) else { exit(2) }
          let end = try withTimeoutOrNil(.milliseconds(10)) { try connections.waitForRoom(or: listener.onEnded) }
          guard end == nil else { exit(3) }
          let hasEnded = try select {
            child.onEnd { _ in true }
            onTimeout(.milliseconds(10)) { false }
          }
          guard !hasEnded else { exit(4) }
        }.getBlocking()
      }
    }
  }

  @Test func aPollerThatWasRefusedIsMadeWithTheNextDescriptor() async {
    await #expect(processExitsWith: .success) {
      var ends: [Int32] = [0, 0]
      guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0 else { exit(2) }
      // The test library keeps a backtrace of each error, and what does that has descriptors of its own from the first on.
      #expect(throws: IOError.self) { throw IOError(operation: "test", code: EBADF, subject: "") }
      // Dispatch makes its own set and timers at the first sleep by each clock, and ends a process that is refused them.
      try await ContinuousClock().sleep(for: .milliseconds(1))
      try await SuspendingClock().sleep(for: .milliseconds(1))
      // The set, and the two counters that interrupt a wait: refused at each of them, nothing is left open. Until two counts are
      // equal: what other code of the process opens meanwhile, Dispatch as a rule, it opens a few times at most.
      for room in Int32(0)..<3 {
        var counts: [Int] = []
        while counts.count < 2 || counts.suffix(2).first != counts.last {
          guard counts.count < 10 else { exit(4) }
          do {
            try Self.withRoom(for: room) { _ = try Descriptor(adopting: ends[0]) }
            exit(3)
          } catch let error as IOError where error.code == EMFILE {}
          counts.append(Self.countPollersDescriptors())
        }
      }
      let one = try Descriptor(adopting: ends[0])
      let other = try Descriptor(adopting: ends[1])
      let reader = Coroutine {
        try one.waitUntilReadable()
        return try one.take(1)
      }
      try other.put([7])
      guard try await reader.get() == [7] else { exit(5) }
    }
  }

  @Test func aThreadThatIsRefusedToThePollerIsAnError() async {
    await #expect(processExitsWith: .success) {
      var ends: [Int32] = [0, 0]
      guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0 else { exit(2) }
      coroutine_system_refuse_threads(1)
      let error = #expect(throws: IOError.self) { try Descriptor(adopting: ends[0]) }
      #expect(error?.operation == "pthread_create" && error?.code == EAGAIN)
      let one = try Descriptor(adopting: ends[0])
      #expect(!one.isClosed)
    }
  }

  /// A program that closes all that it finds open, as daemons do, closes what the poller waits with.
  @Test func aPollerWhoseDescriptorsWereClosedTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try runInExitTest {
        let (left, right) = try makePair()
        try right.put([1])
        try left.waitUntilReadable()
        for number in 3..<Int32(1024) { close(number) }
        try left.waitUntilWritable()
        try Coroutine.sleep(for: .seconds(60))
      }
    }
    let text = result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
    #expect(text.contains("on the poller's own descriptor was refused: Bad file descriptor (errno 9)"), "\(text)")
  }
}
