import Context
import ContextASM
import CoroutineTestSupport
import Testing

/// Every backend keeps the contract of `ContextBackend`.
///
/// Not under sanitizers: at this level nothing tells them of the switches. The runtime does, and its own suites run
/// there.
@Suite(.ownThreads, .disabled(if: isSanitized, "the sanitizers are not told of bare switches"))
struct BackendConformanceTests {
  @Test(arguments: Backends.names, BackendConformance<ASMContext>.names)
  func aBackendKeepsTheContract(_ name: String, _ check: String) throws {
    func run<B: TestedBackend>(_: B.Type) throws { try BackendConformance<B>().check(check) }
    try run(Backends.named(name))
  }

  @Test(arguments: Backends.names)
  func anEntryThatReturnsTraps(_ name: String) async {
    await #expect(processExitsWith: .trap) { [name] in letTheEntryReturn(ofBackend: name) }
  }

  @Test(arguments: Backends.names)
  func switchingInsideAnAsyncActorMethod(_ name: String) async throws {
    actor Counter {
      private var total: UInt = 0
      func add<B: TestedBackend>(_: B.Type) async throws -> UInt {
        let fiber = try TestFiber<B> { fiber, first in
          var word = first
          while word < 10 { word = fiber.suspend(word + 1) }
        }
        fiber.start()
        var word: UInt = 0
        while word != .max {
          total &+= word
          word = fiber.resume(word)
        }
        await Task.yield()
        return total
      }
    }
    func check<B: TestedBackend>(_ backend: B.Type) async throws {
      let counter = Counter()
      #expect(try await counter.add(backend) == 55)
      #expect(try await counter.add(backend) == 110)
    }
    try await check(Backends.named(name))
  }
}

private func letTheEntryReturn(ofBackend name: String) {
  func run<B: TestedBackend>(_: B.Type) { BackendConformance<B>.letTheEntryReturn() }
  run(Backends.named(name))
}
