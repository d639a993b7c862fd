// SPDX-License-Identifier: Apache-2.0

import Coroutine

extension TestRun {
  /// Ends the program where the body of a run that is over has not ended and is inside an access to a variable, which code of the run's
  /// caller may use from now on: that body shares its variables, unless it is `Sendable`, as that of the `async` forms.
  func requireNoAccess(of body: CoroutineCore) {
    guard !body.isFinished, body.isSuspendedInsideAccess, !RunThread.isApart else { return }
    fatalError(
      "a test is over, and its body is suspended inside an access to a variable (a mutating call such as sort, or an inout "
        + "argument) and ignores its cancel: the variable may be half changed, and no code may use it again. Let the body end when "
        + "it is cancelled, or wait outside of the access")
  }
}
