// Programs with known faults, which are all to be found, and healthy look-alikes, of which none is to be reported:
//
//     DeadlockPrograms faulty
//     DeadlockPrograms healthy
//     DeadlockPrograms aio | ring | orphan | child | parent     # healthy too, but nothing else may be played beside it
//     DeadlockPrograms late-handler | late-child     # what comes while the threads are looked at counts
//     DeadlockPrograms lock-sleeper                  # and so does who waits for the runtime's lock
//     DeadlockPrograms show        # prints what is found of the faulty ones
//
// Ends with 0 if all is as it should be. In a process of their own, since nothing else may happen there: not even the
// test library's doings.

import Glibc

private let what = CommandLine.arguments.dropFirst().first
switch what {
case "faulty": exit(try Theatre.play(FaultyProgram.all, shows: false) ? 0 : 1)
case "show": exit(try Theatre.play(FaultyProgram.all, shows: true) ? 0 : 1)
case "late-handler": exit(SingleLooks.handlerCounts() ? 0 : 1)
case "late-child": exit(SingleLooks.childCounts() ? 0 : 1)
case "lock-sleeper": exit(SingleLooks.sleeperOfALockCounts() ? 0 : 1)
case "healthy": exit(try Theatre.play(HealthyProgram.all) ? 0 : 1)
default:
  if let program = what.flatMap({ HealthyProgram.alone[$0] }) {
    if what == "parent" { Outside.goOnAsChild(delay: HealthyProgram.longMoment) }
    exit(try Theatre.play([program]) ? 0 : 1)
  }
  print(
    "usage: DeadlockPrograms faulty | healthy | aio | ring | orphan | child | parent | late-handler | late-child "
      + "| lock-sleeper | show"
  )
  exit(2)
}
