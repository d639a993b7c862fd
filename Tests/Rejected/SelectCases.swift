// The cases of a select are the runtime's. Another type could let go of what a select waits for, while it waits.

import Coroutine

// expected-error@+1 {{does not conform to protocol 'SelectCases'}} expected-note@+1 {{add stubs for conformance}}
struct Stale: SelectCase {
  typealias Output = Int
  typealias Operations = Select.Receive<Int>

  var operations: Select.Receive<Int> { Select.Receive<Int>(Channel<Int>()) }
  func keepAlive() {}
  func finish<Memory>(_ index: Int, of operations: Select.Receive<Int>, _ memory: Memory) throws -> Int { 0 }
}

struct Forged: SelectCase {
  typealias Output = Int
  typealias Operations = Select.Receive<Int>

  // expected-error@+1 {{initializer is inaccessible}}
  static var seal: Select.Seal<Self> { Select.Seal<Self>() }
  var operations: Select.Receive<Int> { Select.Receive<Int>(Channel<Int>()) }
  func keepAlive() {}
  func finish<Memory>(_ index: Int, of operations: Select.Receive<Int>, _ memory: Memory) throws -> Int { 0 }
}

// MARK: - Accepted

func choosesByAnArray(_ numbers: Channel<Int>, _ words: Channel<String>) throws -> Int {
  let cases: [any SelectCase<Int>] = [numbers.onReceive { $0 }, words.onReceive { $0.count }]
  return try select(cases)
}
