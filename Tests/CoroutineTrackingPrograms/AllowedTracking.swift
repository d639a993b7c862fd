import Context
import Coroutine
import Observation

/// Tracking that has ended by the next suspension, or that lies around the code which suspends.
enum AllowedTracking {
  static func isRight() throws -> Bool {
    let changes = changesThatAConsumerSees()
    let size = try sizeReadInsideOfAnotherTracking()
    if changes != 3 { print("the consumer has seen \(changes) of 3 changes") }
    if size != 0 { print("the size is \(size)") }
    return changes == 3 && size == 0
  }

  private static func sizeReadInsideOfAnotherTracking() throws -> Int {
    let model = Model()
    return try withObservationTracking {
      Result {
        try runUntilComplete {
          let size = withObservationTracking {
            model.size
          } onChange: {
          }
          Coroutine.yield()
          return size
        }
      }
    } onChange: {
    }.get()
  }

  /// A generator's body is a part of its consumer: what it reads is noted where the consumer tracks.
  private static func changesThatAConsumerSees() -> Int {
    let (model, changes) = (Model(), Count())
    let names = Generator<String> { yield in
      while true { try yield(model.name) }
    }
    for _ in 0..<3 {
      let name = withObservationTracking {
        names.next() ?? ""
      } onChange: {
        changes.add()
      }
      model.name = name + "x"
    }
    names.cancel()
    return changes.value
  }
}

private final class Count: Sendable {
  private let lock = Lock()
  nonisolated(unsafe) private var count = 0  // guarded by the lock

  func add() { lock.withLock { count += 1 } }
  var value: Int { lock.withLock { count } }
}
