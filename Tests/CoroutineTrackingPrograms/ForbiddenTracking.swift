import Coroutine
import Observation

@Observable final class Model {
  var name = ""
  var size = 0
}

/// Each leaves the closure of `withObservationTracking` by a suspension.
enum ForbiddenTracking {
  static func waits() throws {
    try Coroutine(on: ThreadPool(threads: 1), name: "reader") {
      let model = Model()
      withObservationTracking {
        _ = model.name
        try? Coroutine.sleep(for: .milliseconds(1))
      } onChange: {
      }
    }.getBlocking()
  }

  /// A turn that passes from one to the next without the worker's loop.
  static func yields() throws {
    let pool = ThreadPool(threads: 1)
    let other = Coroutine(on: pool) { for _ in 0..<100 { Coroutine.yield() } }
    let reader = Coroutine(on: pool, name: "reader") {
      Coroutine.yield()
      let model = Model()
      withObservationTracking {
        _ = model.name
        Coroutine.yield()
      } onChange: {
      }
    }
    try reader.getBlocking()
    try other.getBlocking()
  }

  /// On the stack of the generator that the coroutine consumes.
  static func waitsInABody() throws {
    try Coroutine(on: ThreadPool(threads: 1), name: "reader") {
      let names = Generator<String> { yield in
        let model = Model()
        let name = withObservationTracking {
          try? Coroutine.sleep(for: .milliseconds(1))
          return model.name
        } onChange: {
        }
        try yield(name)
      }
      _ = names.next()
    }.getBlocking()
  }

  /// Two elements outside, then two inside.
  static func yieldsAnElement() {
    let sizes = Generator<Int> { yield in
      let model = Model()
      for size in 0..<2 { try yield(size) }
      withObservationTracking {
        for size in 2..<4 { try? yield(size + model.size) }
      } onChange: {
      }
    }
    for _ in sizes {}
  }

  /// By the `yield` of the generator that consumes it.
  static func yieldsThroughAnotherBody() {
    let outer = Generator<Int> { yield in
      let inner = Generator<Int> { own in
        let model = Model()
        try own(model.size)
        withObservationTracking {
          try? yield(model.size)
        } onChange: {
        }
      }
      while inner.next() != nil {}
    }
    while outer.next() != nil {}
  }
}
