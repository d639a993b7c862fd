// Programs with known faults, which must all be found, and healthy look-alikes, which must not be reported:
//
//     CoroutineDeadlockPrograms faulty
//     CoroutineDeadlockPrograms healthy
//     CoroutineDeadlockPrograms aio | ring | orphan | child | parent     # a healthy program that runs alone
//     CoroutineDeadlockPrograms late-handler | late-child     # changes during a look at the threads must count
//     CoroutineDeadlockPrograms lock-sleeper                  # so must a thread that waits for the runtime's lock
//     CoroutineDeadlockPrograms main-thread                   # stands still, and the main thread with it
//     CoroutineDeadlockPrograms main-queue                    # ends by a trap that names the line
//     CoroutineDeadlockPrograms show                          # prints the reports of the faulty programs
//
// Ends with 0 if everything is as it should be. A program of its own, since nothing else may run in the process, not even
// the test library.

import Glibc

private let what = CommandLine.arguments.dropFirst().first
switch what {
case "faulty": exit(try ProgramRunner.run(FaultyProgram.all, shows: false) ? 0 : 1)
case "show": exit(try ProgramRunner.run(FaultyProgram.all, shows: true) ? 0 : 1)
case "late-handler": exit(SingleLooks.handlerCounts() ? 0 : 1)
case "late-child": exit(SingleLooks.childCounts() ? 0 : 1)
case "lock-sleeper": exit(SingleLooks.sleeperOfALockCounts() ? 0 : 1)
case "main-thread": try SingleLooks.standStillWithTheMainThread()
case "main-queue": try SingleLooks.blockTheMainQueue()
case "healthy": exit(try ProgramRunner.run(HealthyProgram.all) ? 0 : 1)
default:
  if let program = what.flatMap({ HealthyProgram.alone[$0] }) {
    if what == "parent" { Outside.goOnAsChild(delay: HealthyProgram.longMoment) }
    exit(try ProgramRunner.run([program]) ? 0 : 1)
  }
  print(
    "usage: CoroutineDeadlockPrograms faulty | healthy | aio | ring | orphan | child | parent | late-handler | late-child "
      + "| lock-sleeper | main-thread | main-queue | show"
  )
  exit(2)
}
