import Context
import Coroutine
import Foundation

/// The time of this run, and of its parts.
struct Measurements {
  /// One switch from a context to another, in nanoseconds.
  let switchTime: Double
  /// One element of a generator of integers, in nanoseconds.
  let generatorTime: Double
  /// The whole work, in milliseconds.
  let programTime: Double

  init(program: Duration) throws {
    switchTime = try timeOfSwitch()
    generatorTime = timeOfGeneratorElement()
    programTime = program / .milliseconds(1)
  }

  /// The report for people.
  var report: String {
    """
    On the backend \(Coroutine.backendName):
      one switch between contexts   \(String(format: "%10.2f", switchTime)) ns
      one element of a generator    \(String(format: "%10.2f", generatorTime)) ns
      the whole program             \(String(format: "%10.0f", programTime)) ms
    """
  }

  /// A line for scripts.
  var line: String {
    "backend=\(Coroutine.backendName) "
      + String(format: "switch_ns=%.2f generator_ns=%.2f total_ms=%.0f\n", switchTime, generatorTime, programTime)
  }
}

private let repeats = 7
private let rounds = 100_000

/// The median time that one of `steps` equal steps takes in `body`, in nanoseconds.
private func median(of steps: Int, _ body: () -> Void) -> Double {
  let times = (0..<repeats).map { _ in ContinuousClock().measure(body) }
  return times.sorted()[repeats / 2] / .nanoseconds(steps)
}

// MARK: - An element of a generator

private func timeOfGeneratorElement() -> Double {
  median(of: rounds) {
    let numbers = Generator<Int> { yield in
      for number in 1...rounds { try yield(number) }
    }
    var sum = 0
    for number in numbers { sum += number }
    precondition(sum == rounds * (rounds + 1) / 2, "a generator lost an element")
  }
}

// MARK: - A switch

/// Two records in which a suspended side's registers are saved: this thread's, and the other context's.
private typealias Contexts = UnsafeMutablePointer<SelectedBackend.Context>

/// The backend's switch and nothing else, to another context and back.
private func timeOfSwitch() throws -> Double {
  let stack = try StackPool.default.allocate()
  defer { StackPool.default.release(stack) }
  let contexts = Contexts.allocate(capacity: 2)
  defer { contexts.deallocate() }
  let memory = UnsafeMutableRawBufferPointer(start: stack.limit, count: stack.size)
  SelectedBackend.initialize(contexts + 1, stack: memory, resumer: contexts) { word in
    answer(Contexts(bitPattern: word)!)
  }
  defer { SelectedBackend.destroy(contexts + 1) }

  // The first word that is passed has the address of the records.
  _ = SelectedBackend.switchContext(from: contexts, to: contexts + 1, passing: UInt(bitPattern: contexts))
  return median(of: 2 * rounds) {
    precondition(call(contexts) == 2 * rounds, "a switch lost its word")
  }
}

// The loops are functions of their own: the switch is inlined into them, but not into a closure that C can call.

/// Switches over and back again and again. Each side adds one to the word that travels, which is the only count.
@inline(never)
private func call(_ contexts: Contexts) -> UInt {
  var word: UInt = 0
  while word < 2 * rounds {
    word = SelectedBackend.switchContext(from: contexts, to: contexts + 1, passing: word + 1).word
  }
  return word
}

/// The other side. It never ends: at last it is left suspended, with nothing on its stack to release.
@inline(never)
private func answer(_ contexts: Contexts) -> Never {
  var word: UInt = 0
  while true {
    word = SelectedBackend.switchContext(from: contexts + 1, to: contexts, passing: word + 1).word
  }
}
