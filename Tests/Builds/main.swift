// What the ways to compile and to link could break, see scripts/test-builds.sh: a switch, the words that a thread has for a
// coroutine and for Swift's runtime, a descriptor, a look-up of a type by its name.

import Coroutine
import CoroutineIO

enum Local {
  @TaskLocal static var number = 0
}

let numbers = Generator<Int> { yield in
  for number in 1...3 { try yield(number) }
}
let (reader, writer) = try makePipe()
let received = Coroutine(on: .pool, name: "reader") { try reader.readExactly(5) }
try Coroutine(on: .pool) { try writer.write("hello") }.getBlocking()

let coroutines = (1...100).map { number in
  Coroutine(on: .pool) {
    Local.$number.withValue(number) {
      for _ in 0..<20 { Coroutine.yield() }
      return Local.number == number
    }
  }
}
let right = coroutines.count { (try? $0.getBlocking()) == true }

print(
  Coroutine.backendName, numbers.reduce(0, +), String(decoding: try received.getBlocking(), as: UTF8.self), right,
  Local.number, _typeName([String: [Int]].self))
