import Coroutine
import CoroutineDebug
import Dispatch
import Glibc

/// Waits until all of the program's `count` coroutines are suspended, and prints where.
///
/// The walker calls it from inside its generator. That suspends the walker: its backtrace leads from here through the
/// recursion of the walk, on the generator's stack, to the loop that consumes the generator, on its own. As nobody finds
/// files meanwhile, the others come to rest as well, each where it waits for its next element.
func showBacktraces(of count: Int) throws {
  try withSuspension { resume in
    // On a thread of Dispatch: a coroutine that looks at the suspended ones isn't one of them.
    DispatchQueue.global().async {
      do {
        var dump = try CoroutineDump.capture()
        while dump.coroutines.count(where: { $0.state == .suspended }) < count {
          sched_yield()  // somebody is still busy with the last files
          dump = try CoroutineDump.capture()
        }
        StandardError().write("\nHalfway, the coroutines are suspended here:\n\n\(dump)\n")
      } catch {
        // Not all systems allow it, and the files can be counted without.
        StandardError().write("\nHalfway, but there are no backtraces: \(error)\n\n")
      }
      resume()
    }
  }
}
