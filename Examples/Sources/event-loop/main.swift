// A program's own event loop as a scheduler: coroutines run on its thread, and wait for its descriptors. (CoroutineIO
// has a better one. This shows what it takes for a loop that a program has anyway: a game's, a user interface's, a
// library's.)

import Coroutine
import Glibc

/// The two ends of a new pipe.
func makePipe() -> (read: CInt, write: CInt) {
  var ends: [CInt] = [0, 0]
  guard pipe(&ends) == 0 else { fatalError("no pipe: \(errno)") }
  return (ends[0], ends[1])
}

/// A loop that waits by poll(2), and runs coroutines between two waits. It runs on the thread that makes it.
// Unchecked: what changes belongs to the loop's thread.
final class EventLoop: Scheduler, @unchecked Sendable {
  private let ready = CoroutineJobQueue()
  private let thread = pthread_self()
  private let wakeUps = makePipe()
  private var waiting: [(descriptor: CInt, resume: Resumption<Void>)] = []

  /// May be called from any thread. The loop looks into the queue before it sleeps. So only other threads have to
  /// wake it, and only if the queue was empty.
  func enqueue(_ job: consuming CoroutineJob) {
    if ready.append(job), !isCurrent { write(wakeUps.write, "!", 1) }
  }

  var isCurrent: Bool { pthread_equal(thread, pthread_self()) != 0 }
  var isSerial: Bool { true }

  /// Suspends the calling coroutine, which must run on this loop, until there is something to read.
  func waitUntilReadable(_ descriptor: CInt) throws {
    precondition(isCurrent)
    precondition(!waiting.contains { $0.descriptor == descriptor }, "one waiter for each descriptor")
    try withSuspension { resume in
      waiting.append((descriptor, resume))
    } onCancel: {
      waiting.removeAll { $0.descriptor == descriptor }
    }
  }

  /// Runs coroutines until the given one has ended.
  func run<Success, Failure>(until coroutine: Coroutine<Success, Failure>) {
    while true {
      // Not all of them, so that descriptors get their turn, too.
      let isMore = ready.run(limit: 64)
      if coroutine.isFinished { return }
      let descriptors = [wakeUps.read] + waiting.map(\.descriptor)
      var polled = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
      poll(&polled, nfds_t(polled.count), isMore ? 0 : -1)
      let readable = Set(polled.filter { $0.revents != 0 }.map(\.fd))
      var byte: UInt8 = 0
      if readable.contains(wakeUps.read) { read(wakeUps.read, &byte, 1) }
      let due = waiting.filter { readable.contains($0.descriptor) }
      waiting.removeAll { readable.contains($0.descriptor) }
      for (_, resume) in due { resume() }
    }
  }
}

let loop = EventLoop()
let messages = makePipe()

let reader = Coroutine(on: loop, name: "reader") {
  var buffer = [UInt8](repeating: 0, count: 100)
  while true {
    try loop.waitUntilReadable(messages.read)
    let count = read(messages.read, &buffer, buffer.count)
    guard count > 0 else { return print("the end") }
    print("read \(String(decoding: buffer[..<count], as: UTF8.self)), on the loop's thread: \(loop.isCurrent)")
  }
}
Coroutine(on: loop, name: "writer") {
  for number in 1...3 {
    // The timers' thread wakes this coroutine.
    try Coroutine.sleep(for: .milliseconds(10))
    write(messages.write, "message \(number)", 9)
  }
  close(messages.write)
}
loop.run(until: reader)
