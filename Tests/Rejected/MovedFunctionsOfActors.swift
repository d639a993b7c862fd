// A coroutine does not take a function of an actor along to another scheduler, nor does a task to a thread for what blocks.

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

@MainActor func blocksWithTheMainActor(_ model: Model) async throws {
  // expected-error@+1 {{converting function value of type '@MainActor @Sendable () -> ()' to '() throws -> ()' loses}}
  try await blocking(model.bump)
}

@Other func blocksWithAnotherActor(_ store: Store) async throws {
  // expected-error@+1 {{converting function value of type '@Other @Sendable () throws -> ()' to '() throws -> ()' loses}}
  try await blocking(store.bump)
}

func movesOthers() throws -> Int {
  var count = 0
  on(.pool) { count += 1 }
  return try on(.main) {
    if count == 0 { throw CancellationError() }
    return on(.pool, operation: free) + count
  }
}

func blocksWithOthers() async throws -> Int {
  try await blocking(free)
}

func free() -> Int { 3 }
