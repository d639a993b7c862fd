// Counts how many times operations ask for memory, in a process of its own:
//
//     CoroutineAllocations                 # a table of all
//     CoroutineAllocations sleep           # of those with this word in their name
//     CoroutineAllocations check           # ends with 1 if one asks more often than it may
//
// An element, a turn, and whatever waits must not: a waiter's node lies on its stack.

import Glibc

let word = CommandLine.arguments.dropFirst().first ?? ""
let isCheck = word == "check"
var tooOften = 0
for operation in Operation.all where isCheck || word.isEmpty || operation.name.contains(word) {
  let found = try operation.measure()
  let isWrong = found < 0 || found > operation.most
  if isWrong { tooOften += 1 }
  if !isCheck || isWrong {
    print("\(operation.name): \(found) allocations in \(Operation.repeats) times, where \(operation.most) are allowed")
  }
}
print("\(tooOften) operations allocate more than they may")
exit(isCheck && tooOften > 0 ? 1 : 0)
