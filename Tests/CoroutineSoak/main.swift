// A load for minutes: channels under random operations whose sums are checked, and coroutines that are launched,
// cancelled, timed out and put to sleep. Memory must stay flat.
//
//     CoroutineSoak <seconds> [<channels> [<seed>]]      10000 channels, a seed by chance
//
// Prints a line for each round, with the seed. Ends with 0 if all sums are right and the memory has stayed flat.
// `make soak` runs it on each backend; its short form is a test.

import Coroutine
import Glibc

private let arguments = CommandLine.arguments.dropFirst().map { UInt64($0) }
guard let first = arguments.first, let seconds = first, !arguments.contains(nil) else {
  print("usage: CoroutineSoak <seconds> [<channels> [<seed>]]")
  exit(2)
}
private let channels = arguments.count > 1 ? Int(arguments[1]!) : 10_000
private let seed = arguments.count > 2 ? arguments[2]! : UInt64.random(in: 0..<1 << 32)
exit(try Soak(channelCount: channels, seed: seed).run(for: .seconds(Int(seconds))) ? 0 : 1)
