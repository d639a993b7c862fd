// SPDX-License-Identifier: Apache-2.0

import Context
import Coroutine

/// Where the coroutines stand that block all workers of a pool, for the runtime's report of that.
///
/// The program has not asked for it, so it must not change what the program does: a thread is asked only where it does not
/// notice, which leaves out those whose system call would return early. And nothing is kept from running but such a thread,
/// while its stack is copied: a walk takes the loader's lock, which a blocked thread may hold.
enum BlockedStacks {
  /// From now on reports have backtraces.
  static func addToReports() { BlockedPoolReport.use(backtraces) }

  /// Of a coroutine's frames, without the runtime's, so many are shown.
  private static let shown = 8
  /// The runtime's and the compiler's may be among them.
  private static let frameLimit = 64

  @Sendable private static func backtraces(of stacks: [Stack]) -> [String] {
    guard let unwinder = try? Unwinder() else {
      return stacks.map { _ in "     (there is no memory to unwind it with)\n" }
    }
    var running = RunningStacks(asking: .unnoticed, frameLimit: frameLimit)
    let found = stacks.map { running.find($0, unwinder)?.addresses }
    var symbolicator = Symbolicator(namesFunctions: isMemoryAvailable(64 << 20))
    return found.map { addresses in
      guard let addresses else {
        return "     (unknown: its thread does not take the signal, or that would end its system call early)\n"
      }
      let frames = symbolicator.frames(of: addresses).filter { !$0.isRuntime }
      var text = ""
      DumpStyle().write(Array(frames.prefix(shown)), to: &text)
      if frames.count > shown || addresses.count > frameLimit { text += "     … and further frames\n" }
      return text
    }
  }
}
