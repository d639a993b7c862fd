import Coroutine
import CoroutineIO

extension Operation {
  static var all: [Operation] {
    [
      Operation("an element of a generator") {
        let numbers = Generator<Int> { yield in
          while true { try yield(1) }
        }
        return counted { _ = numbers.next() }
      },
      Operation("a turn") {
        try runUntilComplete {
          withPartner({ Coroutine.yield() }) { counted { Coroutine.yield() } }
        }
      },
      Operation("a message that is waited for on both sides") {
        try runUntilComplete {
          let (there, back) = (Channel<Int>(), Channel<Int>())
          let partner = Coroutine {
            for number in there.received { try back.send(number) }
          }
          defer { there.close() }
          return try withExtendedLifetime(partner) {
            try counted {
              try there.send(1)
              _ = try back.receive()
            }
          }
        }
      },
      Operation("a message through a buffer that is full") {
        try runUntilComplete {
          let channel = Channel<Int>(capacity: .buffered(4))
          let sender = Coroutine {
            while true { try channel.send(1) }
          }
          defer { sender.cancel() }
          return try counted { _ = try channel.receive() }
        }
      },
      Operation("a select that waits") {
        try runUntilComplete {
          let (left, right, back) = (Channel<Int>(), Channel<Int>(), Channel<Int>())
          let partner = Coroutine {
            for number in back.received { try number % 2 == 0 ? left.send(number) : right.send(number) }
          }
          defer { back.close() }
          var number = 0
          return try withExtendedLifetime(partner) {
            try counted {
              try back.send(number)
              number += try select {
                left.onReceive { _ in 1 }
                right.onReceive { _ in 1 }
              }
            }
          }
        }
      },
      Operation("a mutex that is waited for") {
        try runUntilComplete {
          let mutex = CoroutineMutex(0)
          return withPartner({ try mutex.withLock { _ in Coroutine.yield() } }) {
            (try? counted { try mutex.withLock { _ in Coroutine.yield() } }) ?? -1
          }
        }
      },
      Operation("a permit that is waited for") {
        try runUntilComplete {
          let (mine, yours) = (Semaphore(permits: 0), Semaphore(permits: 0))
          let partner = Coroutine {
            while true {
              try yours.acquire()
              mine.release()
            }
          }
          defer { partner.cancel() }
          return try counted {
            yours.release()
            try mine.acquire()
          }
        }
      },
      Operation("a sleep") {
        try runUntilComplete { try counted { try Coroutine.sleep(for: .microseconds(1)) } }
      },
      Operation("a deadline around a wait", most: 3 * repeats + spare) {
        try runUntilComplete {
          let channel = Channel<Int>()
          let sender = Coroutine {
            while true { try channel.send(1) }
          }
          defer { sender.cancel() }
          return try counted { _ = try withTimeout(.seconds(60)) { try channel.receive() } }
        }
      },
      Operation("a value of a promise that is waited for") {
        try runUntilComplete {
          let promises = (0..<2 * repeats).map { _ in Promise<Int>.makePromise() }
          let resolver = Coroutine {
            for (_, resolver) in promises {
              Coroutine.yield()
              resolver.fulfill(1)
            }
          }
          var position = 0
          return try withExtendedLifetime(resolver) {
            try counted {
              _ = try promises[position].0.get()
              position += 1
            }
          }
        }
      },
      Operation("bytes of a socket that are waited for") {
        try runUntilComplete {
          let (near, far) = try UnixConnection.pair()
          let partner = Coroutine {
            withUnsafeTemporaryAllocation(byteCount: 16, alignment: 1) { bytes in
              while let count = try? far.read(into: bytes), count > 0 {
                try? far.write(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
              }
            }
          }
          defer { near.close() }
          return try withExtendedLifetime(partner) {
            try withUnsafeTemporaryAllocation(byteCount: 16, alignment: 1) { bytes in
              try counted {
                try near.write(UnsafeRawBufferPointer(bytes))
                _ = try near.read(into: bytes)
              }
            }
          }
        }
      },
      Operation("an element of a coroutine's generator") {
        try runUntilComplete {
          let numbers = AsyncGenerator<Int> { yield in
            while true {
              Coroutine.yield()
              try yield(1)
            }
          }
          defer { numbers.cancel() }
          return try counted { _ = try numbers.next() }
        }
      },
      Operation("a message with a timeout") {
        try runUntilComplete {
          let channel = Channel<Int>()
          let sender = Coroutine {
            while true { try channel.send(1, timeout: .seconds(60)) }
          }
          defer { sender.cancel() }
          return try counted { _ = try channel.receive(timeout: .seconds(60)) }
        }
      },
      Operation("a broadcast that is waited for") {
        try runUntilComplete {
          let news = BroadcastChannel<Int>(capacity: 1)
          let subscription = news.subscribe()
          let sender = Coroutine {
            while true { try news.send(1) }
          }
          defer { sender.cancel() }
          return try counted { _ = try subscription.receive() }
        }
      },
      Operation("a message between two threads") {
        let pool = ThreadPool(threads: 2)
        let (there, back) = (Channel<Int>(), Channel<Int>())
        let partner = Coroutine(on: pool) {
          for number in there.received { try back.send(number) }
        }
        defer { there.close() }
        return try withExtendedLifetime(partner) {
          try Coroutine(on: pool) {
            try counted {
              try there.send(1)
              _ = try back.receive()
            }
          }.getBlocking()
        }
      },
      Operation("a coroutine and its end", most: 2 * repeats + spare) {
        try runUntilComplete { try counted { _ = try Coroutine { 1 }.get() } }
      },
      Operation("a scope with a child", most: 6 * repeats + spare) {
        try runUntilComplete {
          try counted {
            try withScope { scope in scope.launch { Coroutine.yield() } }
          }
        }
      },
      Operation("a generator and its end", most: repeats + spare) {
        counted {
          for _ in Generator<Int>({ yield in try yield(1) }) {}
        }
      },
      Operation("a promise and its value", most: repeats + spare) {
        try runUntilComplete {
          try counted {
            let (promise, resolver) = Promise<Int>.makePromise()
            resolver.fulfill(1)
            _ = try promise.get()
          }
        }
      },
      Operation("an ask that is answered") {
        try runUntilComplete {
          let actor = MessageActor<Question> { messages in
            for question in messages { question.answer.complete(1) }
          }
          defer { actor.cancel() }
          return try counted { _ = try actor.ask { Question(answer: $0) } }
        }
      },
    ]
  }

  private struct Question: Sendable {
    let answer: Reply<Int>
  }

  /// Runs `body` while another coroutine repeats `step`.
  private static func withPartner(_ step: @escaping @Sendable () throws -> Void, _ body: () -> Int) -> Int {
    let partner = Coroutine {
      while !Coroutine.isCancelled { try step() }
    }
    defer { partner.cancel() }
    return body()
  }
}
