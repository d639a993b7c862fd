// What a program outside of this project does with it: a generator, coroutines of a pool, a pipe, a dump.

import Coroutine
import CoroutineDebug
import CoroutineIO

let numbers = Generator<Int> { yield in
  for number in 1...3 { try yield(number) }
}

let (reader, writer) = try makePipe()
let received = Coroutine(on: .pool, name: "reader") { try reader.readExactly(5) }
while try !CoroutineDump.capture().coroutines.contains(where: { $0.name == "reader" && $0.state == .suspended }) {}
try Coroutine(on: .pool) { try writer.write("hello") }.getBlocking()

print(Coroutine.backendName, numbers.reduce(0, +), String(decoding: try received.getBlocking(), as: UTF8.self))
