// Overflows the stack of a coroutine.

import Coroutine

func sum(upTo number: Int) -> Int { number == 0 ? 0 : sum(upTo: number - 1) ^ number }

print(try Coroutine(on: .pool, name: "deep") { sum(upTo: 100_000_000) }.getBlocking())
