import CUnwind
import Glibc

/// What a thread brings about when the others have been looked at once already, and before it waits itself: it must count.
enum LateChanges {
  // Of the main thread.
  nonisolated(unsafe) private static var isDone = false

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
      LateChanges.isDone = true
      return true
    }
  }

  /// A child, which has the same eventfds.
  static func childCounts() -> Bool {
    startThread { _ in
      Outside.waitForEvent(LateChanges.event)
      return nil
    }
    return look(expecting: "reads from a file or the network") {
      LateChanges.child = Outside.makeChild()
      LateChanges.isDone = true
      return true
    }
  }

  private static let event = Outside.makeEvent()
  nonisolated(unsafe) private static var child: pid_t = 0  // the main thread's too

  private static func startThread(_ body: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer?) {
    var thread = pthread_t()
    pthread_create(&thread, nil, body, nil)
  }

  /// Looks until `change` was asked for: not before the thread waits.
  private static func look(expecting: String, _ change: @convention(c) () -> Bool) -> Bool {
    var found = ""
    while !isDone {
      var activity = census_activity()
      let isQuiet = census_is_quiet(nil, change, &activity)
      found = withUnsafeBytes(of: activity.what) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      if isQuiet { found = "the process is said to be quiet" }
    }
    if child != 0 { Outside.end(child) }
    print(found)
    return found == expecting
  }
}
