import CoroutineTestSupport
import Foundation
import Testing

@testable import Coroutine

/// Packages of one graph may ask for different context backends.
@Suite(.ownThreads) struct BackendChoiceTests {
  @Test func aProgramOnAnotherBackendThanItCountsOnEnds() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      Coroutine.requireBackend("Other")
    }
    let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(text.contains("counts on the context backend"))
  }

  @Test func severalBackendsInOneGraphAreTold() {
    #expect(BackendChoice.message(traits: ["ASM"], selected: "ASM") == nil)
    #expect(BackendChoice.message(traits: [], selected: "ASM") == nil)
    let message = BackendChoice.message(traits: ["ASM", "Ucontext"], selected: "Ucontext")
    #expect(message?.contains("ASM and Ucontext: Ucontext is used") == true)
  }
}
