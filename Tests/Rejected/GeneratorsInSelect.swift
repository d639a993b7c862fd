// Generators that run when they are asked, as cases of a select: the compiler says why they are none.

import Coroutine

func choosesFromGenerators(_ numbers: Generator<Int>, _ rows: ThrowingGenerator<Int>, _ stop: Channel<Void>) throws {
  try select {
    // expected-error@+1 {{'onNext' is unavailable: a Generator has nothing to wait for: call 'next()'}}
    numbers.onNext { _ in }
    stop.onReceive { _ in }
  }
  try select {
    // expected-error@+1 {{'onNext' is unavailable: a ThrowingGenerator has nothing to wait for: call 'next()'}}
    rows.onNext { _ in }
    stop.onReceive { _ in }
  }
}
