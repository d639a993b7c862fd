// Programs whose system calls are refused, each call in turn: what is refused must be survived, or told by an error or by
// a trap with the reason, and nothing may be lost or hang.
//
//     CoroutineFaultPrograms quick [<fault>...]     not each call in turn: the first ones, then ever fewer
//     CoroutineFaultPrograms all [<fault>...]       each call
//     CoroutineFaultPrograms show [<fault>...]      quick, and prints how each run has ended
//     CoroutineFaultPrograms one <fault> <program> <call> [<times>]     that call of that program, again and again
//
//     CoroutineFaultPrograms possible     prints this word if the system lets a process refuse another's calls
//
// Ends with 0 if all is as it should be, with 77 where the system does not let a process refuse another's calls.

import CCoroutineFaults
import Glibc

private let what = CommandLine.arguments.dropFirst().first
guard let what, ["quick", "all", "show", "one", "possible"].contains(what) else {
  print("usage: CoroutineFaultPrograms quick | all | show [<fault>...], or one <fault> <program> <call> [<times>]")
  exit(2)
}
// A trap's crash report takes seconds, and would be all of its text. The Swift runtime reads this before `main`.
if getenv("SWIFT_BACKTRACE") == nil {
  setenv("SWIFT_BACKTRACE", "enable=no", 1)
  var arguments = CommandLine.arguments.map { strdup($0) } + [nil]
  execv("/proc/self/exe", &arguments)
}
if what == "one" { exit(Series.repeatOne(Array(CommandLine.arguments.dropFirst(2))) ? 0 : 1) }
private let names = CommandLine.arguments.dropFirst(2)
private let chosen = Supervisor.faults.filter { names.isEmpty || names.contains(String(cString: $0.name)) }
guard !chosen.isEmpty else {
  print("no such fault: one of \(Supervisor.faults.map { String(cString: $0.name) }.joined(separator: ", "))")
  exit(2)
}
guard Supervisor.isPossible() else {
  print("the system does not let a process refuse another's calls (SECCOMP_RET_USER_NOTIF, Linux 5.5)")
  exit(what == "possible" ? 0 : 77)
}
if what == "possible" {
  print("possible")
  exit(0)
}
var isRight = true
for fault in chosen {
  var refused = 0
  for program in FaultProgram.all {
    let series = Series(program, fault, isQuick: what != "all", shows: what == "show")
    isRight = series.run(&refused) && isRight
  }
  // Else nothing was tried.
  if refused == 0, !fault.is_storm {
    print("FAILED, no program makes the call \(String(cString: fault.name)), or it was not seen")
    isRight = false
  }
}
exit(isRight ? 0 : 1)
