// The Fibonacci numbers: an infinite sequence, of which only the elements that are asked for are computed.

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

// It goes on at its current element: like an iterator, it has one position.
print(fibonacci.next()!, fibonacci.next()!)

// A generator is a `Sequence`: `for`, `prefix`, `lazy`, `zip` and all the rest work.
for (index, number) in zip(1..., fibonacci) {
  if number > 1_000 { break }
  print("\(index). \(number)")
}

// The body is suspended in the middle of its loop. Dropping the generator would unwind it, too.
fibonacci.cancel()
print(fibonacci.next() as Any)
