import CCoroutine
import Coroutine
import CoroutineDebug
import Dispatch
import Foundation
import Testing

/// Without end, as far as the compiler can tell, and nothing that it could make a loop of.
@inline(never)
private func recurse(_ depth: Int) -> Int {
  guard depth >= 0 else { return 0 }
  return (recurse(depth + 1) &* 3) ^ depth
}

/// Not under sanitizers: they handle the fault themselves, and end the process in another way.
@Suite(.disabled(if: coroutine_sanitizers_active(), "the sanitizers handle the fault themselves"))
struct StackOverflowTests {
  /// What the process said before it died by SIGSEGV.
  private func report(_ result: ExitTest.Result?) -> String {
    String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
  }

  @Test func anOverflowIsToldByNameAndEndsTheProcessAsUsual() async {
    let result = await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
      _ = try await Coroutine(name: "parser", stackSize: 128 << 10) { recurse(0) }.value
    }
    let text = report(result)
    #expect(text.contains("stack overflow in coroutine 1 \"parser\" ("))
    #expect(text.contains("recurse(_:) at StackOverflowTests.swift:"))
    #expect(text.contains("in StackOverflowTests.anOverflowIsToldByName"))
  }

  @Test func anOverflowOnADispatchThreadIsToldToo() async {
    let result = await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
      _ = try await Coroutine(on: DispatchQueue(label: "q"), name: "queued") { recurse(0) }.value
    }
    #expect(report(result).contains("stack overflow in coroutine 1 \"queued\" ("))
  }

  @Test func anOverflowOfAGeneratorNamesItsConsumer() async {
    let result = await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
      let consumer = Coroutine(name: "consumer") {
        let numbers = Generator<Int> { yield in try yield(recurse(0)) }
        return numbers.next() ?? 0
      }
      _ = try await consumer.value
    }
    #expect(report(result).contains("stack overflow in a generator of coroutine 1 \"consumer\" ("))
  }

  @Test func aStrayPointerIsNoOverflow() async {
    let result = await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
      try await Coroutine { UnsafeMutablePointer<Int>(bitPattern: 8)!.pointee = 1 }.value
    }
    #expect(!report(result).contains("stack overflow"))
  }
}
