// What `withScope` returns is not lost without a word.

import Coroutine

func losesWithoutAWord(_ numbers: Channel<Int>) throws {
  // expected-warning@+1 {{result of call to}}
  try withScope { scope in scope.launch { 1 }.id }
  // expected-warning@+1 {{result of call to}}
  try withScope { scope in
    scope.launch {}
    return try numbers.receive()
  }
  // expected-warning@+1 {{result of call to}}
  try withScope { _ in try numbers.receive() }
}

func losesInAsyncCode(_ numbers: Channel<Int>) async throws {
  // expected-warning@+1 {{result of call to}}
  try await withScope { scope in
    scope.launch {}
    return try await numbers.receive()
  }
  // expected-warning@+1 {{result of call to}}
  try await withScope { _ in try await numbers.receive() }
}

func losesOnPurpose(_ numbers: Channel<Int>) throws {
  _ = try withScope { scope in scope.launch {} }
  try withScope { scope in
    scope.launch {}
    _ = try numbers.receive()
  }
  _ = try withScope { _ in try numbers.receive() }
}
