import Coroutine
import CoroutineTestSupport
import Glibc
import Synchronization
import Testing

/// Coroutines on a pool in a process whose address space is limited. In a process of its own, as the limit holds for all of it.
@Suite(.ownThreads, .disabled(if: isSanitized, "sanitizers end the process where they get no memory for themselves"))
struct AddressSpaceTests {
  @Test func noRoomForAStackIsAnErrorOfThatCoroutineAlone() async {
    await #expect(processExitsWith: .success) { try useMoreStacksThanThereIsRoomFor() }
  }
}

private func useMoreStacksThanThereIsRoomFor() throws {
  let pool = ThreadPool(threads: 2)
  // From here on the pool has both threads, and stacks for these coroutines.
  let (questions, answers) = (Channel<Int>(), Channel<Int>())
  let others = (0..<8).map { _ in
    Coroutine(on: pool) { for question in questions.received { try answers.send(-question) } }
  }
  func ask() throws {
    for number in 1...100 {
      try questions.sendBlocking(number)
      guard try answers.receiveBlocking() == -number else { exit(2) }
    }
  }
  try startBothThreads(of: pool)
  try ask()

  let usual = limitAddressSpace(toMore: 512 << 20)
  let (gate, opener) = Promise.makePromise(of: Void.self)
  let begun = Began()
  // Together 1.6 GiB. Half of them are started by `start()`.
  let large = (0..<200).map { number in
    Coroutine(on: pool, start: number % 2 == 0 ? .lazy : .atomic, stackSize: 8 << 20) { () throws -> Int in
      begun.count.add(1, ordering: .relaxed)
      try gate.get()
      Coroutine.yield()
      return number
    }
  }
  for coroutine in large { coroutine.start() }
  for coroutine in large {
    while coroutine.state != .suspended && coroutine.state != .finished { sched_yield() }
  }
  // Meanwhile the others go on.
  try ask()
  opener.fulfill(())
  var ended = 0
  for (number, coroutine) in large.enumerated() {
    do {
      guard try coroutine.getBlocking() == number else { exit(3) }
      ended += 1
    } catch let error as StackError {
      guard case .outOfMemory(_, ENOMEM, _, _) = error, "\(error)".contains("RLIMIT_AS") else { exit(4) }
    }
  }
  guard ended == begun.count.load(ordering: .relaxed), ended > 0, ended < large.count else { exit(5) }
  try ask()

  setAddressSpace(usual)
  let again = (0..<100).map { number in Coroutine(on: pool, stackSize: 8 << 20) { number } }
  for (number, coroutine) in again.enumerated() {
    guard try coroutine.getBlocking() == number else { exit(6) }
  }
  try ask()
  questions.close()
  for coroutine in others { try coroutine.getBlocking() }
}

private final class Began: Sendable {
  let count = Atomic<Int>(0)
}

private func startBothThreads(of pool: ThreadPool) throws {
  let gates = [Gate(), Gate()]
  let blockers = (0..<2).map { number in
    Coroutine(on: pool) {
      gates[number].open()
      gates[1 - number].pass()
    }
  }
  for blocker in blockers { try blocker.joinBlocking() }
}

/// Lets the process map so many bytes more than it has. Returns the limit before.
private func limitAddressSpace(toMore bytes: Int) -> rlimit {
  var usual = rlimit()
  getrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &usual)
  var tight = usual
  tight.rlim_cur = rlim_t(mappedBytes() + bytes)
  setAddressSpace(tight)
  return usual
}

private func setAddressSpace(_ limit: rlimit) {
  var limit = limit
  setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
}

/// What RLIMIT_AS counts.
private func mappedBytes() -> Int {
  guard let file = fopen("/proc/self/statm", "r") else { return 0 }
  defer { fclose(file) }
  var line: [CChar] = Array(repeating: 0, count: 128)
  return fgets(&line, 128, file) == nil ? 0 : atol(line) * Int(getpagesize())
}
