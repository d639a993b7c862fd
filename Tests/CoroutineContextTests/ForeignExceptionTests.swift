import Context
import CoroutineTestSupport
import Glibc
import Testing

/// Exceptions that leave a context's entry function, such as C++'s.
@Suite(.ownThreads, .disabled(if: isSanitized, "the sanitizers are not told of bare switches"))
struct ForeignExceptionTests {
  /// A C++ `throw` terminates the process if the unwinder finds no handler. On the assembly's backend the unwind
  /// information leads from a stack into the resumer's, for backtraces. The search for a handler must not get there.
  @Test(arguments: Backends.names)
  func noHandlerIsSearchedInTheResumersFrames(_ name: String) throws {
    typealias Raise = @convention(c) (UnsafeMutableRawPointer) -> CInt
    let symbol = try #require(dlsym(nil, "_Unwind_RaiseException"))
    // Right because the platform's ABI declares this type.
    let raise = unsafeBitCast(symbol, to: Raise.self)
    func check<B: TestedBackend>(_: B.Type) throws {
      // An exception of an unknown class, without cleanup, followed by the unwinder's own words. It is never caught,
      // and so never freed.
      let exception = UnsafeMutableRawPointer.allocate(byteCount: 64, alignment: 16)
      exception.initializeMemory(as: UInt8.self, repeating: 0, count: 64)
      defer { exception.deallocate() }
      var reason: CInt?
      let fiber = try TestFiber<B> { _, _ in reason = raise(exception) }
      fiber.start()
      #expect(fiber.resume() == .max)
      // _URC_FATAL_PHASE1_ERROR where the search was stopped, _URC_END_OF_STACK where it came to the end of the
      // stack.
      #expect(reason == (name == "ASM" ? 3 : 5))
    }
    try check(Backends.named(name))
  }
}
