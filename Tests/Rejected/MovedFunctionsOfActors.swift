// A coroutine does not take a function of an actor along to another scheduler.

import Coroutine

@globalActor actor Other {
  static let shared = Other()
}

@MainActor final class Model {
  func bump() {}
}

@Other final class Store {
  func bump() throws {}
}

@MainActor func movesTheMainActor(_ model: Model) {
  // expected-warning@+2 {{a function of an actor can't be moved to another scheduler}}
  // expected-error@+1 {{call to global actor 'FunctionsOfNoActorOnly'-isolated}}
  on(.pool, operation: model.bump)
}

@Other func movesAnotherActor(_ store: Store) throws {
  // expected-warning@+2 {{a function of an actor can't be moved to another scheduler}}
  // expected-error@+1 {{call to global actor 'FunctionsOfNoActorOnly'-isolated}}
  try on(.pool, operation: store.bump)
}

// expected-note@+1 {{add '@FunctionsOfNoActorOnly' to make}}
func movesFromOutside(_ model: Model) {
  // expected-warning@+2 {{a function of an actor can't be moved to another scheduler}}
  // expected-error@+1 {{call to global actor 'FunctionsOfNoActorOnly'-isolated}}
  on(.pool) { @MainActor in model.bump() }
}

func movesOthers() throws -> Int {
  var count = 0
  on(.pool) { count += 1 }
  return try on(.main) {
    if count == 0 { throw CancellationError() }
    return on(.pool, operation: free) + count
  }
}

func free() -> Int { 3 }
