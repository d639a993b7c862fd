// A closure that does nothing but wait, without `try`: that is what the compiler says, whatever forms there are for closures that
// return something and for those that don't, for `async` ones and for those of the main actor.

import Coroutine

func waitsWithoutTry(_ promise: Promise<Int>, _ ended: Coroutine<Void, any Error>, _ scope: CoroutineScope) throws {
  // expected-error@+1 {{call can throw, but it is not marked with 'try' and the error is not handled}}
  Coroutine { promise.get() }
  // expected-error@+1 {{call can throw, but it is not marked with 'try' and the error is not handled}}
  Coroutine { ended.get() }
  // expected-error@+1 {{call can throw, but it is not marked with 'try' and the error is not handled}}
  Coroutine(on: .pool) { ended.join() }
  // expected-error@+1 {{call can throw, but it is not marked with 'try' and the error is not handled}}
  Coroutine.immediate { ended.get() }
  // expected-error@+1 {{call can throw, but it is not marked with 'try' and the error is not handled}}
  scope.launch { promise.get() }
  // expected-error@+1 {{call can throw, but it is not marked with 'try' and the error is not handled}}
  promise.then { _ in ended.get() }
  // expected-error@+1 {{call can throw, but it is not marked with 'try' and the error is not handled}}
  promise.finally { ended.get() }
  // expected-error@+1 {{call can throw, but it is not marked with 'try' and the error is not handled}}
  try withTimeout(.seconds(1)) { ended.get() }
}

func waits(_ promise: Promise<Int>, _ ended: Coroutine<Void, any Error>, _ scope: CoroutineScope) throws {
  Coroutine { try promise.get() }
  let silent: Coroutine<Void, any Error> = Coroutine { try ended.get() }
  let scoped: Coroutine<Void, any Error> = Coroutine { try withScope { scope in scope.launch { try ended.get() } } }
  scope.launch { try scoped.get() }
  promise.then { _ in try silent.get() }
  promise.finally { try ended.join() }
  try withTimeout(.seconds(1)) { try ended.get() }
  try runUntilComplete { try ended.get() }
}
