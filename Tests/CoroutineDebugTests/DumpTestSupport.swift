import Coroutine
import CoroutineDebug
import Foundation
import Testing

/// A backtrace as tests compare it: the program's own functions, innermost first.
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
  /// What the text of a dump shows.
  var visibleFrames: [Frame] { frames.filter { !$0.isRuntime } }
  /// That the optimizer has merged a function with others is no matter of those who compare.
  var steps: [Step] {
    visibleFrames.map { Step($0.function.map { String($0.trimmingPrefix("merged ")) } ?? "???", $0.line) }
  }
}

extension CoroutineDump {
  /// A coroutine's backtrace: tests run at the same time as others, whose coroutines are in the dump too, and whose
  /// generators, which have numbers of their own.
  subscript(id: UInt64) -> CoroutineBacktrace? { coroutines.first { $0.id == id && !$0.isGenerator } }

  /// The same for many, at once: there may be a hundred thousand others.
  subscript(ids: [UInt64]) -> [CoroutineBacktrace?] {
    let places = Dictionary(
      coroutines.indices.lazy.filter { !coroutines[$0].isGenerator }.map { (coroutines[$0].id, $0) },
      uniquingKeysWith: { first, _ in first })
    return ids.map { id in places[id].map { coroutines[$0] } }
  }
}

extension String {
  /// Without for how long somebody has been suspended: that is told from a second on, and what takes no time at all takes
  /// a busy machine longer.
  var withoutTimes: String { replacing(/suspended for [^,\n]*/, with: "suspended") }
}

/// Looks until it is so, and lets others run for as long as it has looked: nobody goes on during a look, and beside the
/// thousands of coroutines of other tests a look takes long.
func look(until isSo: () throws -> Bool) rethrows {
  while true {
    let start = ContinuousClock.now
    if try isSo() { return }
    let pause = max(.microseconds(500), ContinuousClock.now - start)
    usleep(UInt32(min(pause / .microseconds(1), 1_000_000)))
  }
}

/// A dump's backtrace of one coroutine, which must be suspended already.
func backtrace<Value, Problem>(of coroutine: Coroutine<Value, Problem>) throws -> CoroutineBacktrace {
  try #require(try CoroutineDump.capture()[coroutine.id])
}

/// Ends an exit test's process while coroutines are suspended: what they hold is no leak, and no leak checker is asked.
func leave(_ code: CInt = EXIT_SUCCESS) -> Never {
  fflush(nil)
  _exit(code)
}
