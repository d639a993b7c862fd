import CCoroutineUnwind
import Context
import Coroutine
import CoroutineDebug
import Glibc

/// Activity that the detector must count, although a look at the threads hardly shows it.
enum SingleLooks {
  // Used by the main thread alone.
  nonisolated(unsafe) private static var isDone = false

  // MARK: A thread does something after the others were looked at, and before it waits itself

  /// A handler of a signal, installed by a thread that has ended since.
  static func handlerCounts() -> Bool {
    startThread { _ in
      while pause() != 0 {}
      return nil
    }
    return look(expecting: "signal \(SIGALRM) has a handler") {
      var thread = pthread_t()
      pthread_create(
        &thread, nil,
        { _ in
          signal(SIGALRM) { _ in }
          return nil
        }, nil)
      pthread_join(thread, nil)
      SingleLooks.isDone = true
      return true
    }
  }

  /// A child, which has the same eventfds.
  static func childCounts() -> Bool {
    startThread { _ in
      Outside.waitForEvent(SingleLooks.event)
      return nil
    }
    return look(expecting: "reads from a file or the network") {
      SingleLooks.child = Outside.makeChild()
      SingleLooks.isDone = true
      return true
    }
  }

  // MARK: The only thread waits for work that it would have to run itself

  static func blockTheMainQueue() throws {
    let numbers = Channel<Int>()
    Coroutine(on: .main) { try numbers.send(1) }
    print(try numbers.receiveBlocking())
  }

  // MARK: The main thread waits, and looks meanwhile whether coroutines wait for it

  static func standStillWithTheMainThread() throws {
    // In place of a rescue, which would be activity.
    alarm(120)
    let numbers = Channel<Int>(name: "numbers")
    let waiter = Coroutine(on: ThreadPool(threads: 1), name: "waiter") { try numbers.receive() }
    try DeadlockDetector.start(every: .milliseconds(10)) { report in
      print(report)
      exit(report.kind == .standstill && report.coroutines.map(\.name) == ["waiter"] ? 0 : 1)
    }
    print(try waiter.getBlocking())
  }

  // MARK: A thread that waits for the runtime's lock, and looks at it again without being woken

  static func sleeperOfALockCounts() -> Bool {
    lock.lock()
    startThread { _ in
      SingleLooks.lock.lock()
      return nil
    }
    while true {
      let found = look(Futex.idleMark) { true }
      print(found ?? quiet)
      // The thread also runs: when it starts, and each time it looks at the lock.
      guard let found, found != "waits until a deadline" else { return found != nil }
    }
  }

  // MARK: Looking

  private static let lock = Lock()
  private static let event = Outside.makeEvent()
  nonisolated(unsafe) private static var child: pid_t = 0  // likewise
  private static let quiet = "the process is said to be quiet"

  private static func startThread(_ body: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer?) {
    var thread = pthread_t()
    pthread_create(&thread, nil, body, nil)
  }

  /// Repeats the look until it has called `change`, which it does once the thread waits.
  private static func look(expecting: String, _ change: @convention(c) () -> Bool) -> Bool {
    var found = ""
    while !isDone { found = look(nil, change) ?? quiet }
    if child != 0 { Outside.end(child) }
    print(found)
    return found == expecting
  }

  /// Looks at the threads once. Returns what can still happen, or `nil` if nothing can.
  private static func look(_ idleMark: UnsafeRawPointer?, _ isStill: @convention(c) () -> Bool) -> String? {
    var activity = census_activity()
    guard !coroutine_census_is_quiet(idleMark, isStill, &activity) else { return nil }
    return withUnsafeBytes(of: activity.what) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
  }
}
