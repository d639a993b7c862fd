// The compiler refuses to pass a generator on as a value, and says what to send instead.

import Coroutine

func sends<Value: Sendable>(_ value: Value) {}

func sends(_ numbers: Generator<Int>, _ others: ThrowingGenerator<Int>, _ asked: TwoWayGenerator<Int, Int, Void>) {
  // expected-error@+1 {{a generator is part of the code that consumes it: make it there, or send an AsyncGenerator}}
  sends(numbers)
  // expected-error@+1 {{or send an AsyncGenerator}}
  sends(others)
  // expected-error@+1 {{or send an AsyncGenerator}}
  sends(asked)
}

/// Here it has words of its own, which the page on generators quotes.
func captures(_ numbers: Generator<Int>, _ elements: AsyncGenerator<Int>) {
  // expected-error@+1 {{capture of 'numbers' with non-Sendable type 'Generator<Int>' in a '@Sendable' closure}}
  Coroutine { numbers.next() }
  Coroutine { try elements.next() }
}
