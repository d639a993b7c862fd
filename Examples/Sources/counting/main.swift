// Counting from 1 to 9 is a lot of work, so three generators count three numbers each, and a fourth one yields what
// they yield. An element costs the same at any depth of such nesting.

import Coroutine

func count(from first: Int) -> TwoWayGenerator<Void, Int, Int> {
  TwoWayGenerator { yield in
    try yield(first)
    try yield(first + 1)
    return first + 2
  }
}

let numbers = Generator<Int> { yield in
  for first in [1, 4, 7] {
    let last = try yield(from: count(from: first))
    try yield(last)
  }
}

print(Array(numbers))

// The same by recursion: instead of nested generators, a function that yields calls itself.
func count(_ range: ClosedRange<Int>, _ yield: Generator<Int>.Yield) throws {
  guard range.count > 1 else { return try yield(range.lowerBound) }
  let middle = (range.lowerBound + range.upperBound) / 2
  try count(range.lowerBound...middle, yield)
  try count(middle + 1...range.upperBound, yield)
}

print(Array(Generator<Int> { yield in try count(1...9, yield) }))
