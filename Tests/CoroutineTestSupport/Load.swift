/// Threads that repeat the same work. Each has done it once before the load counts as started. Code that uses a type
/// for the first time takes locks of the Swift runtime, and a child by `fork` can't wait for those.
public final class Load: Sendable {
  private let flag: Flag
  private let threads: [PlainThread<Void>]

  public init(threads count: Int, _ work: @escaping @Sendable () -> Void) {
    let flag = Flag()
    self.flag = flag
    threads = (0..<count).map { _ in
      let begun = Gate()
      let thread = PlainThread {
        work()
        begun.open()
        while !flag.isSet { work() }
      }
      begun.pass()
      return thread
    }
  }

  public func stop() {
    flag.set()
    for thread in threads { thread.join() }
  }
}
