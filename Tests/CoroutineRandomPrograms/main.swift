// Random programs of operations: coroutines that send, receive, select, close, cancel, launch, join, lock, throw, with and
// without timeouts. Each is run by seeded schedules and on a pool of threads, and compared with a model: Rest.swift and
// Account.swift say what must hold.
//
//     CoroutineRandomPrograms kept [<seeds>]              the kept programs and those of some seeds, 60
//     CoroutineRandomPrograms new <seconds> [<seed>]      new programs, from a seed by chance on
//     CoroutineRandomPrograms defects [show]              puts defects in, each of which must be found
//     CoroutineRandomPrograms replay <recipe>             what a line with FAILED says; a program on the pool 1000 times
//
// Ends with 0 if nothing is wrong. `make fuzz` runs it; its short form is a test.

import Glibc

CrashNote.install()
private let arguments = CommandLine.arguments.dropFirst()
private let numbers = arguments.dropFirst().compactMap { UInt64($0) }
var campaign = Campaign()
switch arguments.first {
case "kept": campaign.runKept(0..<(numbers.first ?? 60))
case "new" where !numbers.isEmpty:
  campaign.run(for: .seconds(numbers[0]), from: numbers.count > 1 ? numbers[1] : UInt64.random(in: 0..<1 << 40))
case "defects":
  exit(Campaign.findDefects(0..<1000, shows: arguments.dropFirst().first == "show") ? 0 : 1)
case "replay":
  guard let recipe = Recipe(arguments.dropFirst()) else { fallthrough }
  campaign.run(recipe, repeats: recipe.place == .pool ? 1000 : Recipe.repeats)
default:
  print("usage: CoroutineRandomPrograms kept [<seeds>] | new <seconds> [<seed>] | defects [show] | replay <recipe>")
  exit(2)
}
print(campaign.summary)
exit(campaign.failures == 0 ? 0 : 1)
