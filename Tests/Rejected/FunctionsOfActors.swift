// A function of a global actor must not run away from its actor. An operation that runs its closure elsewhere refuses
// it, also in code of that actor, where Swift would convert it silently. What Swift 6.3 takes for a function without an actor
// comes last.

import Coroutine

@globalActor actor Other {
  static let shared = Other()
}

@MainActor final class Model {
  var count = 0
  func bump() { count += 1 }
  func take(_ number: Int) { count = number }
  func mend(_ problem: any Error) -> Int { count }
  func settle(_ resolver: Promise<Int>.Resolver) {}
  func report(_ resolver: ProgressPromise<Int, Int>.Resolver) {}
  func derive(_ number: Int) -> Promise<Int> { Promise(value: count) }
  func fill(_ yield: AsyncGenerator<Int>.Yield) {}
  func serve(_ mailbox: Mailbox<Int>) {}
  func handle(_ state: inout Int, _ message: Int) {}
  func begin(_ ready: ReadySignal<Int>) {}
}

@Other final class Store {
  var count = 0
  func bump() { count += 1 }
  func take(_ number: Int) { count = number }
  func mend(_ problem: any Error) -> Int { count }
  func fill(_ yield: AsyncGenerator<Int>.Yield) {}
  func serve(_ mailbox: Mailbox<Int>) {}
  func handle(_ state: inout Int, _ message: Int) {}
  func derive(_ number: Int) -> Promise<Int> { Promise(value: count) }
  func begin(_ ready: ReadySignal<Int>) {}
}

// MARK: - Where a scheduler is named

@MainActor func namesAScheduler(_ model: Model, _ scope: CoroutineScope, _ promise: Promise<Int>) throws {
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  Coroutine(on: .pool, model.bump)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  Coroutine(on: .pool) { @MainActor in model.bump() }
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  _ = Coroutine(on: .pool, start: .lazy, model.bump)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  Coroutine.detached(on: .pool, model.bump)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  Coroutine.immediate(on: .pool, model.bump)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  Coroutine.detached(on: .pool, priority: .high, model.bump)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  Coroutine.immediate(on: .pool, priority: .high, model.bump)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  scope.launch(on: .pool, model.bump)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  try blocking(model.bump)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  promise.then(on: .pool, model.take)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  promise.catch(on: .pool, model.mend)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  promise.finally(on: .pool, model.bump)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  _ = Promise(on: .pool, model.settle)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  _ = ProgressPromise(on: .pool, model.report)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  promise.then(on: .pool, model.derive)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  Coroutine(on: .pool, priority: .high, model.bump)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  scope.launch(on: .pool, priority: .high, model.bump)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  _ = try scope.start(on: .pool, model.begin)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  _ = AsyncGenerator(on: .pool, model.fill)
}

@MainActor func namesASchedulerOfActors(_ model: Model, _ supervisor: Supervisor, _ mailbox: Mailbox<Int>) {
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  _ = MessageActor(on: .pool, model.serve)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  _ = MessageActor(on: .pool, state: { 0 }, handle: model.handle)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  _ = supervisor.launch(on: .pool, model.serve)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  _ = supervisor.launch(on: .pool, state: { 0 }, handle: model.handle)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  _ = mailbox.launch(on: .pool, model.serve)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  _ = mailbox.launch(on: .pool, state: { 0 }, handle: model.handle)
}

@MainActor func namesASchedulerInAsyncCode(_ model: Model, _ scope: CoroutineScope) async throws {
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing main actor-isolated value}}
  _ = try await scope.start(on: .pool, model.begin)
}

// MARK: - Functions of other global actors

@Other func ofOtherActors(_ store: Store, _ scope: CoroutineScope, _ promise: Promise<Int>) throws {
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  Coroutine(on: .pool, store.bump)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  Coroutine.detached(store.bump)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  Coroutine.immediate(store.bump)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  Coroutine.detached(priority: .high, store.bump)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  Coroutine.immediate(priority: .high, store.bump)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  scope.launch(store.bump)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  scope.launch(priority: .high, store.bump)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  promise.then(store.take)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  promise.catch(store.mend)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  promise.finally(store.bump)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  _ = AsyncGenerator(store.fill)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  _ = MessageActor(store.serve)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  _ = MessageActor(state: { 0 }, handle: store.handle)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  promise.then(store.derive)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  _ = try scope.start(store.begin)
}

@Other func ofOtherActorsInActors(_ store: Store, _ supervisor: Supervisor, _ mailbox: Mailbox<Int>) {
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  _ = supervisor.launch(store.serve)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  _ = supervisor.launch(state: { 0 }, handle: store.handle)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  _ = mailbox.launch(store.serve)
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  _ = mailbox.launch(state: { 0 }, handle: store.handle)
}

@Other func ofOtherActorsInAsyncCode(_ store: Store, _ scope: CoroutineScope) async throws {
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{Passing global actor 'Other'-isolated value}}
  _ = try await scope.start(store.begin)
}

// MARK: - Accepted

func takesOthers(_ scope: CoroutineScope, _ promise: Promise<Int>) throws {
  let list = List()
  Coroutine(on: .pool) { list.numbers.append(1) }
  let method = List()
  Coroutine.detached(method.clear)
  let important = List()
  Coroutine.detached(priority: .high, important.clear)
  let inScope = List()
  scope.launch { inScope.clear() }
  let worked = List()
  try blocking { worked.clear() }
  let moved = List()
  on(.main) { moved.clear() }
  promise.then(free).then { print($0) }
}

@MainActor func takesThoseOfTheMainActor(_ model: Model, _ scope: CoroutineScope, _ promise: Promise<Int>) {
  Coroutine(model.bump)
  Coroutine.detached(model.bump)
  Coroutine.detached(priority: .high, model.bump)
  Coroutine.immediate(priority: .high, model.bump)
  scope.launch(model.bump)
  scope.launch(priority: .high, model.bump)
  promise.then(model.take)
}

final class List {
  var numbers: [Int] = []
  func clear() { numbers = [] }
}

func free(_ number: Int) -> Int { number + 1 }

// MARK: - What Swift 6.3 does not refuse

// Should a compiler refuse these, the warning in Isolation.md can go.

actor Counter {
  var count = 0
  func bump() { count += 1 }

  func leaves() throws {
    Coroutine(bump)
    Coroutine.detached(on: .pool, bump)
    try blocking(bump)
  }
}

@MainActor func leaves(by stored: @escaping @MainActor () -> Int) throws {
  Coroutine(on: .pool, stored)
  _ = try blocking(stored)
}
