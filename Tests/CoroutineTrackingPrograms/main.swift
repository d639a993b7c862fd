// Programs that track what they read of observable objects: some where they must not suspend, and one where they may.
//
//     CoroutineTrackingPrograms wait | yield | body | element | outer     # each ends by a trap
//     CoroutineTrackingPrograms healthy                                   # ends with 0
//
// Programs of their own: where the module Observation is loaded each suspension, and each element of a generator, is looked at.

import Glibc

switch CommandLine.arguments.dropFirst().first {
case "wait": try ForbiddenTracking.waits()
case "yield": try ForbiddenTracking.yields()
case "body": try ForbiddenTracking.waitsInABody()
case "element": ForbiddenTracking.yieldsAnElement()
case "outer": ForbiddenTracking.yieldsThroughAnotherBody()
case "healthy":
  guard try AllowedTracking.isRight() else { exit(1) }
  // Not in silence: the test reads the output by Foundation, which leaks a page where a file is empty.
  print("all is as it should be")
default:
  print("usage: CoroutineTrackingPrograms wait | yield | body | element | outer | healthy")
  exit(2)
}
