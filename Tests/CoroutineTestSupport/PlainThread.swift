import Glibc

/// A thread that belongs to no executor and no queue.
// Unchecked: the result is written by the thread before it ends, and read after it was joined.
public final class PlainThread<Result>: @unchecked Sendable {
  private var thread = pthread_t()
  private var result: Result?

  public init(_ body: @escaping @Sendable () -> Result) {
    let job = Unmanaged.passRetained(Job { self.result = body() })
    let failure = pthread_create(
      &thread, nil,
      { argument in
        Unmanaged<Job>.fromOpaque(argument!).takeRetainedValue().run()
        return nil
      }, job.toOpaque())
    precondition(failure == 0)
  }

  @discardableResult public func join() -> Result {
    pthread_join(thread, nil)
    return result!
  }
}

private final class Job {
  let run: () -> Void
  init(_ run: @escaping () -> Void) { self.run = run }
}
