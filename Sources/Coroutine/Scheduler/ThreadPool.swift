import CCoroutine
import Context
import Glibc

/// Threads that run coroutines: the default scheduler.
///
/// One list of ready coroutines, first in, first out, and as many threads as the machine has processors. A thread that
/// finds nothing to run sleeps until something is ready. The threads start with the first coroutine and stay.
public final class ThreadPool: Scheduler {
  /// The pool that coroutines run on unless told otherwise: one thread for each processor that the process may use.
  public static let shared = ThreadPool(threads: processorCount)

  /// How many threads it has.
  public let threadCount: Int

  private let lock = Lock()
  // Guarded by the lock, all three.
  nonisolated(unsafe) private var ready = ReadyQueue()
  nonisolated(unsafe) private var sleeping = 0
  nonisolated(unsafe) private var hasStarted = false
  /// Counts the threads that were woken and have not looked yet.
  private let wakeups = Semaphore()

  /// A pool of its own.
  ///
  /// Its threads never end: make one for the life of the program.
  ///
  /// - Parameter threads: at least 1. With 1 the pool is serial.
  public init(threads: Int) {
    require(threads > 0, "a ThreadPool needs at least one thread, not \(threads)")
    self.threadCount = threads
  }

  public func enqueue(_ ready: consuming Ready) {
    lock.lock()
    self.ready.append(ready)
    let starts = !hasStarted
    hasStarted = true
    // One thread for one coroutine: whoever is awake already finishes its list before it sleeps.
    let wakes = sleeping > 0
    if wakes { sleeping -= 1 }
    lock.unlock()
    if starts { start() }
    if wakes { wakeups.signal() }
  }

  public var isCurrent: Bool { WorkerThread.pool == Unmanaged.passUnretained(self).toOpaque() }
  public var isSerial: Bool { threadCount == 1 }

  private func start() {
    for index in 0..<threadCount {
      WorkerThread.start(of: self, index: index)
    }
  }

  /// What each thread does, for ever.
  fileprivate func work() -> Never {
    while true {
      lock.lock()
      if let next = ready.popFirst() {
        lock.unlock()
        next.run()
      } else {
        sleeping += 1
        lock.unlock()
        wakeups.wait()
      }
    }
  }

  /// How many processors the process may use: its affinity, not the machine's size.
  public static let processorCount = Int(coroutine_processor_count())
}

extension Scheduler where Self == ThreadPool {
  /// The default pool of threads.
  public static var pool: ThreadPool { .shared }
}

/// One of a pool's threads.
private enum WorkerThread {
  /// The pool that the calling thread belongs to.
  static var pool: UnsafeMutableRawPointer? { pthread_getspecific(key) }

  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    let code = pthread_key_create(&key, nil)
    precondition(code == 0, "pthread_key_create: \(String(cString: strerror(code)))")
    return key
  }()

  static func start(of pool: ThreadPool, index: Int) {
    var thread = pthread_t()
    // The thread's reference; never released, since the thread never ends.
    let argument = Unmanaged.passRetained(pool).toOpaque()
    let code = pthread_create(&thread, nil, main, argument)
    guard code == 0 else {
      fatalError("the thread pool could not start thread \(index): \(String(cString: strerror(code)))")
    }
    pthread_detach(thread)
  }

  private static let main: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { argument in
    pthread_setspecific(key, argument)
    coroutine_name_thread("coroutine-pool")
    Unmanaged<ThreadPool>.fromOpaque(argument!).takeUnretainedValue().work()
  }
}
