// What the compiler says where a closure belongs to no actor, as the article `Isolation` quotes it, and which closures it
// takes there.

import Coroutine

@MainActor final class Gallery {
  var pages: [Int] = []  // expected-note {{mutation of this property is only permitted within the actor}}

  func load(_ numbers: Channel<Int>, _ scope: CoroutineScope) {
    Coroutine { self.pages.append(try numbers.receive()) }
    scope.launch { @MainActor in self.pages.append(try numbers.receive()) }
    // expected-error@+1 {{main actor-isolated property 'pages' can not be mutated from a nonisolated context}}
    scope.launch { self.pages.append(try numbers.receive()) }
  }
}

actor Account {
  var balance = 0  // expected-note {{mutation of this property is only permitted within the actor}}

  func deposit(_ scope: CoroutineScope) {
    // Traps, see Isolation.md: what lets a closure take over the main actor lets it take over any.
    Coroutine { self.balance += 1 }
    // expected-error@+1 {{actor-isolated property 'balance' can not be mutated from a nonisolated context}}
    scope.launch { self.balance += 1 }
  }
}
