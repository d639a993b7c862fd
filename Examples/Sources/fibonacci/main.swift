// The Fibonacci numbers: a sequence without an end, of which only what is asked for is computed.

import Coroutine

let fibonacci = Generator<Int> { yield in
  defer { print("the body is unwound") }
  var (current, next) = (1, 1)
  while true {
    try yield(current)
    (current, next) = (next, current + next)
  }
}

print(fibonacci.take(10))

// It goes on where it stands: it has one position, as an iterator has.
print(fibonacci.next()!, fibonacci.next()!)

// A generator is a `Sequence`: `for`, `prefix`, `lazy`, `zip` and all the rest work.
for (index, number) in zip(1..., fibonacci) {
  if number > 1_000 { break }
  print("\(index). \(number)")
}

// Its body stands in the middle of its loop. Dropping it would unwind it, too.
fibonacci.cancel()
print(fibonacci.next() as Any)
