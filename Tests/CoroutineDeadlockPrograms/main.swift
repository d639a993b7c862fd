// Programs with known faults, which are all to be found, and healthy look-alikes, of which none is to be reported:
//
//     CoroutineDeadlockPrograms faulty
//     CoroutineDeadlockPrograms healthy
//     CoroutineDeadlockPrograms aio | ring | orphan | child | parent     # healthy too, but nothing else may be played beside it
//     CoroutineDeadlockPrograms late-handler | late-child     # what comes while the threads are looked at counts
//     CoroutineDeadlockPrograms lock-sleeper                  # and so does who waits for the runtime's lock
//     CoroutineDeadlockPrograms main-queue                    # ends by a trap that names the place
//     CoroutineDeadlockPrograms show        # prints what is found of the faulty ones
//
// Ends with 0 if all is as it should be. In a process of their own, since nothing else may happen there: not even the
// test library's doings.

import Glibc

private let what = CommandLine.arguments.dropFirst().first
switch what {
case "faulty": exit(try ProgramRunner.run(FaultyProgram.all, shows: false) ? 0 : 1)
case "show": exit(try ProgramRunner.run(FaultyProgram.all, shows: true) ? 0 : 1)
case "late-handler": exit(SingleLooks.handlerCounts() ? 0 : 1)
case "late-child": exit(SingleLooks.childCounts() ? 0 : 1)
case "lock-sleeper": exit(SingleLooks.sleeperOfALockCounts() ? 0 : 1)
case "main-queue": try SingleLooks.blockTheMainQueue()
case "healthy": exit(try ProgramRunner.run(HealthyProgram.all) ? 0 : 1)
default:
  if let program = what.flatMap({ HealthyProgram.alone[$0] }) {
    if what == "parent" { Outside.goOnAsChild(delay: HealthyProgram.longMoment) }
    exit(try ProgramRunner.run([program]) ? 0 : 1)
  }
  print(
    "usage: CoroutineDeadlockPrograms faulty | healthy | aio | ring | orphan | child | parent | late-handler | late-child "
      + "| lock-sleeper | main-queue | show"
  )
  exit(2)
}
