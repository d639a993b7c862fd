// A counter that many coroutines use at once: an actor. Its state is a variable of its body, which no other code can
// access. It handles one message after another, whatever the sender and its thread.

import Coroutine

enum Counting {
  case increment
  case get(Reply<Int>)
}

let counter = MessageActor<Counting>(name: "counter") { mailbox in
  var count = 0
  for message in mailbox {
    switch message {
    case .increment: count += 1
    case .get(let reply): reply.complete(count)
    }
  }
  print("the counter ends at \(count)")
}

// Eight coroutines, on all threads of the pool.
let users = (1...8).map { _ in
  Coroutine(on: .pool) {
    for _ in 1...1_000 { try counter.tell(.increment) }
  }
}
for user in users { try user.getBlocking() }

print(try counter.askBlocking { .get($0) })

counter.cancel()
try counter.joinBlocking()

do {
  try counter.tellBlocking(.increment)
} catch {
  print(error)
}
