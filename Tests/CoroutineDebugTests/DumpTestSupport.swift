import Coroutine
import CoroutineDebug
import Foundation
import Testing

/// A frame of a backtrace as tests compare it: a function of the program, and its line.
struct Step: Equatable, CustomStringConvertible {
  let function: String
  let line: Int?

  init(_ function: String, _ line: Int?) {
    self.function = function
    self.line = line
  }

  var description: String { "\(function):\(line.map(String.init) ?? "?")" }
}

extension CoroutineBacktrace {
  /// The frames that the text of a dump shows.
  var visibleFrames: [Frame] { frames.filter { !$0.isRuntime } }
  /// The visible frames for comparison. Whether the optimiser has merged a function with others does not count.
  var steps: [Step] {
    visibleFrames.map { Step($0.function.map { String($0.trimmingPrefix("merged ")) } ?? "???", $0.line) }
  }
}

extension CoroutineDump {
  /// The backtrace of the coroutine with this number. The dump has the coroutines of other tests, too, and
  /// generators, which are numbered separately.
  subscript(id: UInt64) -> CoroutineBacktrace? { coroutines.first { $0.id == id && !$0.isGenerator } }

  /// The same for many, at once: the dump may have a hundred thousand others.
  subscript(ids: [UInt64]) -> [CoroutineBacktrace?] {
    let places = Dictionary(
      coroutines.indices.lazy.filter { !coroutines[$0].isGenerator }.map { (coroutines[$0].id, $0) },
      uniquingKeysWith: { first, _ in first })
    return ids.map { id in places[id].map { coroutines[$0] } }
  }
}

extension String {
  /// The text without suspension times. A dump shows them from one second on, and on a busy machine anything may take
  /// that long.
  var withoutTimes: String { replacing(/suspended for [^,\n]*/, with: "suspended") }
}

/// Repeats `isSo` until it is true. Between two calls it pauses for as long as a call took: nothing runs during a
/// dump, and with the thousands of coroutines of other tests a dump takes long.
func look(until isSo: () throws -> Bool) rethrows {
  while true {
    let start = ContinuousClock.now
    if try isSo() { return }
    let pause = max(.microseconds(500), ContinuousClock.now - start)
    usleep(UInt32(min(pause / .microseconds(1), 1_000_000)))
  }
}

/// The backtrace that a dump has of one coroutine, which must be suspended already.
func backtrace<Value, Problem>(of coroutine: Coroutine<Value, Problem>) throws -> CoroutineBacktrace {
  try #require(try CoroutineDump.capture()[coroutine.id])
}

/// Ends the process of an exit test while coroutines are suspended. What they hold is no leak, so no leak checker
/// runs.
func leave(_ code: CInt = EXIT_SUCCESS) -> Never {
  fflush(nil)
  _exit(code)
}
