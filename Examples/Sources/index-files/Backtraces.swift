import Coroutine
import CoroutineDebug
import Dispatch
import Glibc

/// Waits until all of the program's `count` coroutines are suspended, and prints where.
///
/// The walker calls this from inside its generator, which suspends the walker. Its backtrace leads through the walk's
/// recursion, on the generator's stack, to the loop that consumes it, on its own. As no more files are found meanwhile,
/// the other coroutines come to rest as well, each where it waits for its next element.
func showBacktraces(of count: Int) throws {
  try withSuspension { resume in
    // On a thread of Dispatch, so that the coroutine that takes the backtraces is not one of them.
    DispatchQueue.global().async {
      do {
        var dump = try CoroutineDump.capture()
        while dump.coroutines.count(where: { $0.state == .suspended && $0.operation != "blocking" }) < count {
          sched_yield()  // a worker still counts the last files, or waits for the disk
          dump = try CoroutineDump.capture()
        }
        StandardError().write("\nHalfway, the coroutines are suspended here:\n\n\(dump)\n")
      } catch {
        // Some systems do not allow it. The files can be counted without backtraces.
        StandardError().write("\nHalfway, but there are no backtraces: \(error)\n\n")
      }
      resume()
    }
  }
}
