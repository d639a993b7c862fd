import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

/// Invariant 4, for task-local values: the code inside a binding sees it, wherever that code runs, and no other code
/// does.
@Suite(.ownThreads) struct TaskLocalTests {
  enum Local {
    @TaskLocal static var number = 0
    @TaskLocal static var word = "none"
  }

  @Test func aBindingAroundASuspensionDoesNotLeak() async throws {
    let queue = DispatchQueue(label: "serial")
    let coroutines = (1...5).map { index in
      Coroutine(on: queue) { () -> Bool in
        var right = Local.number == 0
        for round in 0..<10 {
          Local.$number.withValue(index * 100 + round) {
            Coroutine.yield()
            right = right && Local.number == index * 100 + round
          }
          right = right && Local.number == 0
          Coroutine.yield()
        }
        return right
      }
    }
    for coroutine in coroutines { #expect(try await coroutine.get()) }
    #expect(Local.number == 0)
  }

  @Test func aBindingMigrates() async throws {
    let coroutines = (0..<100).map { index in
      Coroutine { () -> Bool in
        Local.$number.withValue(index) {
          Local.$word.withValue("w\(index)") {
            for _ in 0..<20 {
              Coroutine.yield()
              guard Local.number == index, Local.word == "w\(index)" else { return false }
            }
            return true
          }
        }
      }
    }
    for coroutine in coroutines { #expect(try await coroutine.get()) }
  }

  @Test func bindingsAreInheritedFromATask() async throws {
    let value = try await Local.$number.withValue(7) {
      try await Coroutine { () -> Int in
        Coroutine.yield()
        return Local.number
      }.get()
    }
    #expect(value == 7)
  }

  @Test func bindingsAreInheritedFromAThread() throws {
    let coroutine = Local.$number.withValue(8) {
      Local.$word.withValue("thread") {
        Coroutine { () -> (Int, String) in
          Coroutine.yield()
          return (Local.number, Local.word)
        }
      }
    }
    let values = try coroutine.getBlocking()
    #expect(values == (8, "thread"))
  }

  @Test func bindingsAreInheritedFromACoroutine() async throws {
    let value = try await Coroutine { () throws -> (Int, Int) in
      let inner = Local.$number.withValue(9) { Coroutine { Local.number } }
      Coroutine.yield()
      return (try inner.get(), Local.number)
    }.get()
    #expect(value == (9, 0))
  }

  @Test func anImmediateOneInsideATaskKeepsToItself() async throws {
    let release = Channel<Void>()
    let coroutine = await Task {
      let coroutine = Local.$number.withValue(1) {
        Coroutine.immediate { () throws -> [Int] in
          var seen = [Local.number]
          try Local.$number.withValue(2) {
            seen.append(Local.number)
            try release.receive()
            seen.append(Local.number)
          }
          seen.append(Local.number)
          return seen
        }
      }
      #expect(Local.number == 0)
      return coroutine
    }.value
    try await release.send(())
    #expect(try await coroutine.get() == [1, 2, 2, 1])
  }

  @Test func aGeneratorSeesItsConsumersBindings() {
    let generator = Generator<Int> { yield in while true { try yield(Local.number) } }
    #expect(generator.next() == 0)
    Local.$number.withValue(5) { #expect(generator.next() == 5) }
    #expect(generator.next() == 0)
  }

  @Test func aBindingThatIsOpenAtAYieldIsTheBodysAlone() {
    func check() {
      let generator = Generator<Int> { yield in
        try Local.$number.withValue(7) {
          try yield(Local.number)
          try Local.$word.withValue("inner") {
            try yield(Local.number + 1)
          }
          try yield(Local.word == "none" ? 1 : 0)
        }
        try yield(Local.number)
      }
      let before = Local.number
      var seen: [Int] = []
      while let element = generator.next() {
        seen.append(element)
        #expect(Local.number == before && Local.word == "none")
        Local.$number.withValue(100) { #expect(Local.number == 100) }
      }
      #expect(seen == [7, 8, 1, before])
    }
    check()
    Local.$number.withValue(3) { check() }
    #expect(Local.number == 0)
  }

  /// An inner body yields for the outer one. It then runs among the bindings that the consumer has at that time, and
  /// no longer among those of the time when the inner generator was asked.
  @Test func aYieldOnAnInnerBodysStackFollowsTheConsumersBindings() async {
    @Sendable func outer(depth: Int, opens: Bool = false) -> Generator<Int> {
      Generator { yield in
        func nested(_ depth: Int) -> Generator<Int> {
          Generator { inner in
            while true {
              if depth > 0 {
                let deeper = nested(depth - 1)
                for _ in 0..<2 { try inner(deeper.next() ?? -1) }
              } else {
                try yield(Local.number)
                try inner(Local.number)
              }
            }
          }
        }
        let innermost = nested(depth)
        while true {
          let asked = opens ? Local.$word.withValue("outer") { innermost.next() } : innermost.next()
          try yield(asked == Local.number ? Local.number : -1)
        }
      }
    }
    @Sendable func check() {
      let before = Local.number
      for depth in 0..<3 {
        let generator = outer(depth: depth)
        for round in 1...12 {
          // At each step between the two kinds of yields the bindings are others, or none.
          if round % 3 != 0 {
            Local.$number.withValue(round) {
              #expect(generator.next() == round)
              #expect(Local.number == round)
            }
          }
          if round % 4 != 0 { #expect(generator.next() == before) }
          #expect(Local.number == before && Local.word == "none")
        }
        let within = outer(depth: depth, opens: true)
        for _ in 0..<6 {
          #expect(within.next() == before)
          #expect(Local.number == before && Local.word == "none")
        }
        Local.$number.withValue(50) { generator.cancel() }
        #expect(Local.number == before)
      }
    }
    check()
    Local.$number.withValue(3) { check() }
    await Task { check() }.value
    await Local.$number.withValue(4) { await Task { check() }.value }
    #expect(Local.number == 0)
  }

  /// Loops that only sum. There the compiler removes checks for bindings, and must not remove one that matters.
  @Test func aTightLoopMissesNoBinding() async throws {
    @Sendable func sum(_ generator: Generator<Int>, _ count: Int) -> Int {
      var (sum, left) = (0, count)
      for element in generator {
        sum &+= element
        left -= 1
        if left == 0 { break }
      }
      return sum
    }
    @Sendable func check() {
      let before = Local.number
      let generator = Generator<Int> { yield in
        while true {
          // First the consumer's bindings with none of the body's own, and then with a binding of the body's open at
          // two yields.
          for _ in 0..<5 { try yield(Local.number) }
          try Local.$number.withValue(1000) {
            try yield(Local.number)
            try yield(Local.number)
          }
        }
      }
      for round in 1...20 {
        #expect(sum(generator, 7) == 5 * before + 2000)
        #expect(Local.number == before)
        // In the middle of the five, so that the body's binding begins and ends among the same bindings of the
        // consumer.
        #expect(sum(generator, 2) == 2 * before)
        let inside = Local.$number.withValue(round) { sum(generator, 2) + Local.number }
        #expect(inside == 2 * round + round)
        #expect(sum(generator, 3) == before + 2000)
        #expect(Local.number == before)
      }
    }
    check()
    Local.$number.withValue(3) { check() }
    await Task { check() }.value
    try await Coroutine { check() }.get()
    try await Local.$number.withValue(4) { try await Coroutine { check() }.get() }
    let done = DispatchSemaphore(value: 0)
    DispatchQueue(label: "plain").async {
      check()
      done.signal()
    }
    blockingWait(done)
  }

  @Test func theSameInACoroutineAndATask() async throws {
    try await Coroutine { TaskLocalTests().aBindingThatIsOpenAtAYieldIsTheBodysAlone() }.get()
    try await Local.$word.withValue("none") {
      try await Coroutine { TaskLocalTests().aBindingThatIsOpenAtAYieldIsTheBodysAlone() }.get()
    }
    await Task { TaskLocalTests().aBindingThatIsOpenAtAYieldIsTheBodysAlone() }.value
  }

  @Test func theSameOnAThreadWithoutAnyBinding() {
    let done = DispatchSemaphore(value: 0)
    DispatchQueue(label: "plain").async {
      TaskLocalTests().aBindingThatIsOpenAtAYieldIsTheBodysAlone()
      done.signal()
    }
    blockingWait(done)
  }

  @Test func aGeneratorWithABindingOpenIsUnwoundWhereItBegan() {
    func drop() {
      let generator = Generator<Int> { yield in
        try Local.$number.withValue(7) { try yield(Local.number) }
      }
      let first = generator.next()
      #expect(first == 7 && Local.number == 0)
    }
    for _ in 0..<100 { drop() }
    #expect(Local.number == 0)
  }

  @Test func resumingAnOpenBindingElsewhereTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      nonisolated(unsafe) let generator = Generator<Int> { yield in
        try Local.$number.withValue(7) {
          try yield(1)
          try yield(2)
        }
      }
      try await Coroutine { _ = generator.next() }.get()
      try await Coroutine { _ = generator.next() }.get()
    }
    #expect(result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) }?.contains("binding open") == true)
  }

  @Test func inheritedValuesAreReleased() async throws {
    final class Witness: Sendable {}
    enum Holder { @TaskLocal static var witness: Witness? }
    weak var gone: Witness?
    do {
      let witness = Witness()
      gone = witness
      let seen = try await Holder.$witness.withValue(witness) {
        try await Coroutine { Holder.witness != nil }.get()
      }
      #expect(seen)
    }
    #expect(gone == nil)
  }
}
