import Context
import CoroutineTestSupport
import Glibc
import Testing

/// What leaves a context's entry function by unwinding, such as an exception of C++.
@Suite(.ownThreads, .disabled(if: isSanitized, "the sanitizers are not told of bare switches"))
struct ForeignExceptionTests {
  /// The thrower terminates the process where it is told that nobody handles the exception. The assembly's stacks are unwound
  /// into the resumer's, for backtraces: the search must not get there.
  @Test(arguments: Backends.names)
  func noHandlerIsSearchedInTheResumersFrames(_ name: String) throws {
    typealias Raise = @convention(c) (UnsafeMutableRawPointer) -> CInt
    let symbol = try #require(dlsym(nil, "_Unwind_RaiseException"))
    // Right because that is how the platform's ABI declares it.
    let raise = unsafeBitCast(symbol, to: Raise.self)
    func check<B: TestedBackend>(_: B.Type) throws {
      // A class of nobody's, no cleanup, the unwinder's own words: it outlives the search, which nobody ends by catching.
      let exception = UnsafeMutableRawPointer.allocate(byteCount: 64, alignment: 16)
      exception.initializeMemory(as: UInt8.self, repeating: 0, count: 64)
      defer { exception.deallocate() }
      var reason: CInt?
      let fiber = try TestFiber<B> { _, _ in reason = raise(exception) }
      fiber.start()
      #expect(fiber.resume() == .max)
      // _URC_FATAL_PHASE1_ERROR where the search was ended, _URC_END_OF_STACK where there was nothing more to search.
      #expect(reason == (name == "ASM" ? 3 : 5))
    }
    try check(Backends.named(name))
  }
}
