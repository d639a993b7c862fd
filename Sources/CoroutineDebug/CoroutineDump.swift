import Coroutine

/// What the coroutines of the process are waiting for: a backtrace of each that does not run.
///
/// ```swift
/// print(try CoroutineDump.capture())
/// ```
///
///     coroutine 12 "reader": suspended, receive on channel "files"
///        0  0x00005581f00e45d1 readNext(_:) at Reader.swift:31
///        1  0x00005581f00e4710 closure #1 in main() at main.swift:14
///
///     1,000 coroutines: suspended, receive on channel "jobs"
///        17 "worker", 18 "worker", 19 "worker", 20 "worker", and 996 more
///        0  0x00005581f00e4c52 closure #1 in startWorkers(_:) at Workers.swift:8
///
/// Coroutines that run at the moment of the capture are not in it, nor are those that have not run yet, or have ended.
public struct CoroutineDump: Sendable {
  /// One for each coroutine that did not run, in the order of their numbers.
  public let coroutines: [CoroutineBacktrace]

  /// Reads the stacks of all coroutines that do not run.
  ///
  /// They are kept from running meanwhile, about 5 us for each of them and 0.1 us a frame. Names and lines are looked up
  /// after that, once for each place in the program: some milliseconds, or as many as the debug information has megabytes.
  ///
  /// Callable from any thread, also inside a coroutine: that is not in the dump, since it runs, and must have 32 KiB of
  /// its stack left. Not in a signal handler.
  ///
  /// - Parameter frameLimit: how many frames of a coroutine are kept, innermost first; at least 1.
  /// - Throws: `Unavailable`.
  public static func capture(frameLimit: Int = 1000) throws(Unavailable) -> CoroutineDump {
    precondition(frameLimit > 0, "a dump of at most \(frameLimit) frames a coroutine shows nothing")
    let capture: StackCapture
    do {
      capture = try StackCapture(frameLimit: frameLimit)
    } catch {
      throw Unavailable(description: "\(error)")
    }
    var symbolicator = Symbolicator()
    let backtraces = capture.coroutines.map { coroutine in
      CoroutineBacktrace(
        id: coroutine.id, name: coroutine.name, state: coroutine.isReady ? .ready : .suspended,
        waitsFor: coroutine.waitsFor, frames: symbolicator.frames(of: capture.stack(of: coroutine)),
        isTruncated: coroutine.isTruncated)
    }
    return CoroutineDump(coroutines: backtraces.sorted { $0.id < $1.id })
  }

  /// Coroutines can't be kept from running here, and so can't be looked at.
  public struct Unavailable: Error, CustomStringConvertible {
    /// What is missing.
    public let description: String
  }
}
