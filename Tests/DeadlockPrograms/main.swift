// Programs with known faults, which are all to be found, and healthy look-alikes, of which none is to be reported:
//
//     DeadlockPrograms faulty
//     DeadlockPrograms healthy
//     DeadlockPrograms show        # prints what is found of the faulty ones
//
// Ends with 0 if all is as it should be. In a process of their own, since nothing else may happen there: not even the
// test library's doings.

import Glibc

switch CommandLine.arguments.dropFirst().first {
case "faulty": exit(try Theatre.play(FaultyProgram.all, shows: false) ? 0 : 1)
case "show": exit(try Theatre.play(FaultyProgram.all, shows: true) ? 0 : 1)
case "healthy": exit(try Theatre.play(HealthyProgram.all) ? 0 : 1)
default:
  print("usage: DeadlockPrograms faulty | healthy | show")
  exit(2)
}
