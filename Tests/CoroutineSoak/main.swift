// A load for minutes: channels under random operations whose sums are checked, and coroutines that are launched,
// cancelled, timed out and put to sleep. Memory must stay flat.
//
//     CoroutineSoak <seconds> [<channels> [<seed>]]      10000 channels, a seed by chance
//     CoroutineSoak short [sums]                         small rounds; with `sums`, memory may grow
//
// Prints a line for each round, with the seed. Ends with 0 if all sums are right and the memory has stayed flat.
// `make soak` runs it on each backend; its short form is a test.

import Coroutine
import Glibc

if ["short"] == CommandLine.arguments.dropFirst().prefix(1) {
  let soak = Soak(channelCount: 200, userCount: 200, mostGrowth: 3 << 20, seed: UInt64.random(in: 0..<1 << 32))
  exit(try soak.run(for: .rounds(20), looksAtMemory: CommandLine.arguments.last != "sums") ? 0 : 1)
}
private let arguments = CommandLine.arguments.dropFirst().map { UInt64($0) }
guard let first = arguments.first, let seconds = first, !arguments.contains(nil) else {
  print("usage: CoroutineSoak <seconds> [<channels> [<seed>]], or short [sums]")
  exit(2)
}
private let channels = arguments.count > 1 ? Int(arguments[1]!) : 10_000
private let seed = arguments.count > 2 ? arguments[2]! : UInt64.random(in: 0..<1 << 32)
private let soak = Soak(channelCount: channels, userCount: 2_000, mostGrowth: 16 << 20, seed: seed)
exit(try soak.run(for: .time(.seconds(Int(seconds)))) ? 0 : 1)
