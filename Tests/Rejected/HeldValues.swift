// What a mutex guards stays inside, unless it is `Sendable`.

import Coroutine

final class Parser {
  var position = 0
}

func letsTheValueOut(_ mutex: CoroutineMutex<Parser>) throws {
  // expected-error@+1 {{cannot be returned}} expected-note@+1 {{risks concurrent access}}
  let parser = try mutex.withLock { $0 }
  parser.position += 1
}

func letsAPartOut(_ mutex: CoroutineMutex<[Parser]>) throws {
  // expected-error@+1 {{cannot be returned}} expected-note@+1 {{risks concurrent access}}
  _ = try mutex.withLock { $0[0] }
  // expected-error@+1 {{cannot be returned}} expected-note@+1 {{risks concurrent access}}
  _ = try mutex.withLock { $0.popLast() }
  // expected-error@+1 {{cannot be returned}} expected-note@+1 {{risks concurrent access}}
  _ = mutex.withLockIfAvailable { $0.first }
}

func letsTheValueOutInATask(_ mutex: CoroutineMutex<Parser>) async throws {
  // expected-error@+1 {{cannot be returned}} expected-note@+1 {{risks concurrent access}}
  _ = try await mutex.withLock { $0 }
}

func sendsWhatItKeeps(_ mutex: CoroutineMutex<Void>, _ parsers: Channel<Parser>) throws {
  let parser = Parser()
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{risks causing races}}
  _ = parsers.trySend(try mutex.withLock { parser })
  parser.position += 1  // expected-note {{access can happen concurrently}}
}

func takesTheValueAndLeavesAnother(_ mutex: CoroutineMutex<[Parser]>, _ parsers: Channel<Parser>) throws {
  let all = try mutex.withLock { parsers in
    let taken = parsers
    parsers = []
    return taken
  }
  all.first?.position += 1
  _ = parsers.trySend(try mutex.withLock { _ in Parser() })
  _ = try mutex.withLock { $0.count }
}
