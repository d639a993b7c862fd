public import Dispatch

/// A gate for threads, which stays shut until it is opened.
public final class Gate: Sendable {
  private let semaphore = DispatchSemaphore(value: 0)
  public init() {}
  public func open() { semaphore.signal() }
  public func pass() {
    semaphore.wait()
    semaphore.signal()
  }
}

/// Blocks the thread of a test that is `async`, where the compiler refuses a call of `wait()`.
public func blockingWait(_ semaphore: DispatchSemaphore) { semaphore.wait() }
