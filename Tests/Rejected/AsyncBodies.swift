// The compiler refuses a coroutine's body that awaits, and says what to write instead.

import Coroutine

func fetch() async throws -> Int { 3 }

@MainActor final class Model {
  var count = 0

  func start() {
    // expected-error@+1 {{a coroutine's body is not async: wait in it by 'try Coroutine.await { try await … }'}}
    Coroutine { self.count = try await fetch() }
  }
}

func awaits(_ scope: CoroutineScope) {
  // expected-error@+1 {{a coroutine's body is not async}}
  Coroutine { try await fetch() }
  // expected-error@+1 {{a coroutine's body is not async}}
  Coroutine(on: .pool, name: "fetch") {
    let number = try await fetch()
    print(number)
  }
  // expected-error@+1 {{a coroutine's body is not async}}
  Coroutine.detached { try await fetch() }
  // expected-error@+1 {{a coroutine's body is not async}}
  Coroutine.immediate { try await fetch() }
  // expected-error@+1 {{a coroutine's body is not async}}
  scope.launch { try await fetch() }
  // expected-error@+1 {{a coroutine's body is not async}}
  try? runUntilComplete { print(try await fetch()) }
}

func awaitsElsewhere(_ promise: Promise<Int>) throws {
  // expected-error@+1 {{a coroutine's body is not async}}
  _ = Coroutine(start: .lazy) { try await fetch() }
  // expected-error@+1 {{a coroutine's body is not async}}
  _ = Coroutine(on: .pool, start: .lazy, priority: .high) { try await fetch() }
  // expected-error@+1 {{a coroutine's body is not async}}
  Coroutine(on: .pool, priority: .high) { try await fetch() }
  // expected-error@+1 {{a coroutine's body is not async}}
  Coroutine.detached(priority: .high) { try await fetch() }
  // expected-error@+1 {{a coroutine's body is not async}}
  Coroutine.immediate(on: .pool, priority: .high) { try await fetch() }
  // expected-error@+1 {{a coroutine's body is not async}}
  CoroutineScope().launch(priority: .high) { try await fetch() }
  // expected-error@+1 {{a promise's closures are coroutines and not async: wait in them by 'try Coroutine.await}}
  promise.then { try await fetch() + $0 }
  // expected-error@+1 {{a promise's closures are coroutines and not async}}
  promise.catch { _ in print(try await fetch()) }
  // expected-error@+1 {{a promise's closures are coroutines and not async}}
  promise.finally { print(try await fetch()) }
  // expected-error@+1 {{a generator's body is a coroutine and not async}}
  _ = AsyncGenerator<Int> { _ in print(try await fetch()) }
  // expected-error@+1 {{a generator's body is not async}}
  _ = Generator<Int> { _ in print(try await fetch()) }
  // expected-error@+1 {{a generator's body is not async}}
  _ = ThrowingGenerator<Int> { _ in print(try await fetch()) }
  // expected-error@+1 {{a generator's body is not async}}
  _ = TwoWayGenerator<Int, Int, Void> { _ in print(try await fetch()) }
  // expected-error@+1 {{a generator's body is not async}}
  _ = TwoWayGenerator<Int, Int, Int> { _, first in try await fetch() + first }
  // expected-error@+1 {{a coroutine's cleanup is one too and not async: wait in it by 'try Coroutine.await}}
  Coroutine { 3 }.finally { print(try await fetch()) }
  // expected-error@+1 {{an actor's body is a coroutine and not async}}
  _ = MessageActor<Int> { _ in print(try await fetch()) }
  // expected-error@+1 {{what runs on another scheduler is not async}}
  _ = try on(.main) { try await fetch() }
  // expected-error@+1 {{work that blocks is not async}}
  _ = try blocking { try await fetch() }
}

func doesNot(_ scope: CoroutineScope, _ promise: Promise<Int>) async throws {
  let first = Coroutine { try promise.get() }
  let second = Coroutine { () throws -> Int in
    let number = try Coroutine.await { try await fetch() }
    return number + 1
  }
  let third = Coroutine(on: .pool) { 3 }
  Coroutine(priority: .low) { try Coroutine.sleep(for: .seconds(1)) }
  Coroutine.detached(priority: .low) { try Coroutine.sleep(for: .seconds(1)) }
  Coroutine.immediate(priority: .low) { try Coroutine.sleep(for: .seconds(1)) }
  _ = Coroutine(start: .atomic, priority: .low) { try Coroutine.sleep(for: .seconds(1)) }
  scope.launch { try Coroutine.sleep(for: .seconds(1)) }
  scope.launch(on: .pool, priority: .high) { try Coroutine.sleep(for: .seconds(1)) }
  promise.then { try Coroutine.await { try await fetch() } + $0 }.finally { print("done") }
  first.finally { print("done") }.finally { try Coroutine.sleep(for: .seconds(1)) }
  second.finally { @MainActor in print("done") }
  _ = Generator<Int> { yield in try yield(1) }
  _ = TwoWayGenerator<Int, Int, Int> { yield in try yield(1) }
  _ = TwoWayGenerator<Int, Int, Int> { yield, first in try yield(first) }
  _ = TwoWayGenerator<Int, Int, Never>(stackSize: 1 << 20) { yield in while true { try yield(1) } }
  _ = try await first.get() + second.get() + third.get()
}
