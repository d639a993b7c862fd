// Unread messages are read from a database on a background queue, one at a time, when the user interface wants the
// next one. The consumer drives the producer, nothing is read in vain, and there is no shared state, so no lock.

import Coroutine
import Dispatch

struct Message: Sendable {
  let text: String
}

/// Stands for a database, which must not be used on the main thread.
struct Database {
  private var read = 0

  mutating func queryNewMessage(of user: String) -> Message? {
    dispatchPrecondition(condition: .notOnQueue(.main))
    read += 1
    print("  query \(read) of \(user)")
    return Message(text: "message \(read)")
  }
}

@main @MainActor struct MessageQueue {
  static func main() async throws {
    let messages = AsyncGenerator<Message>(on: DispatchQueue(label: "messages")) { yield in
      var database = Database()
      while let message = database.queryNewMessage(of: "Ann") { try yield(message) }
    }

    // A coroutine of the main actor runs on the main queue, which does other work while the coroutine waits.
    try await Coroutine {
      for _ in 1...3 {
        guard let message = try messages.next() else { break }
        dispatchPrecondition(condition: .onQueue(.main))
        print("show \(message.text)")
      }
    }.get()

    // The generator is an `AsyncSequence`, too, and goes on at its current position.
    for try await message in messages.prefix(2) {
      print("show \(message.text)")
    }
  }
}
