// What a mutex guards stays inside, unless it is `Sendable`. What Swift 6.3 does not see comes last.

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

func takesAnOptionalOut(_ mutex: CoroutineMutex<Parser?>) throws {
  // expected-error@+1 {{cannot be returned}} expected-note@+1 {{risks concurrent access}}
  _ = try mutex.withLock { $0.take() }
}

func exchangesAndSends(_ mutex: CoroutineMutex<[Parser]>, _ all: Channel<[Parser]>) throws {
  _ = all.trySend(try mutex.exchange(with: [Parser()]))
  let parsers = [Parser()]
  // expected-error@+1 {{risks causing data races}} expected-note@+1 {{used after being passed}}
  _ = try mutex.exchange(with: parsers)
  parsers[0].position += 1  // expected-note {{access can happen concurrently}}
}

@MainActor
func makesAnotherOnTheMainActor(_ mutex: CoroutineMutex<Parser>, _ parsers: Channel<Parser>) throws {
  var count = 0
  let own = Parser()
  let parser = try mutex.withLock { parser in
    count += parser.position + own.position
    return Parser()
  }
  parser.position += count
}

struct Handle: ~Copyable {}

func returnsWhatCannotBeCopied(_ mutex: CoroutineMutex<Int>) async throws {
  let own = Parser()
  let first = mutex.withLockIfAvailable { _ in Handle() }
  let second = try await mutex.withLock { count in
    count += own.position
    return Handle()
  }
  _ = consume first
  _ = consume second
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

// MARK: - What Swift 6.3 does not refuse

// Should a compiler refuse this, the sentence in the documentation of CoroutineMutex can go.

func leak(_ parser: inout Parser) -> Parser { parser }

func letsTheValueOutByAFunction(_ mutex: CoroutineMutex<Parser>) throws {
  let parser = try mutex.withLock(leak)
  parser.position += 1
}

func letsTheValueOutByAParameterThatIsNotSending(_ mutex: CoroutineMutex<Parser>) throws {
  let parser = try mutex.withLock { (parser: inout Parser) in parser }
  parser.position += 1
}
