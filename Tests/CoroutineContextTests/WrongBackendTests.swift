#if arch(x86_64)
  import CCoroutineContextTests
  import Context
  import CoroutineTestSupport
  import Glibc
  import Testing

  /// The conformance suite finds what is wrong with a backend. A toy backend breaks the contract in one way at a
  /// time.
  @Suite(.ownThreads, .disabled(if: isSanitized, "the sanitizers are not told of bare switches"))
  struct WrongBackendTests {
    @Test(arguments: BackendConformance<DefectiveContext>.names)
    func theToyKeepsTheContract(_ check: String) throws {
      try BackendConformance<DefectiveContext>().check(check)
    }

    @Test func aRegisterThatIsLostIsFound() async {
      await #expect(processExitsWith: .failure) { checkToy(toy_loses_a_register) }
    }

    @Test func aStackThatIsMisalignedIsFound() async {
      await #expect(processExitsWith: .failure) { checkToy(toy_misaligns_the_stack) }
    }

    @Test func aWordThatIsTruncatedIsFound() async {
      await #expect(processExitsWith: .failure) { checkToy(toy_truncates_the_word) }
    }

    @Test func aWrongDepartedContextIsFound() async {
      await #expect(processExitsWith: .failure) { checkToy(toy_tells_the_wrong_departed) }
    }

    @Test func aWrongFramePointerIsFound() async {
      await #expect(processExitsWith: .failure) { checkToy(toy_tells_the_wrong_frame_pointer) }
    }

    @Test func aWrongLayoutIsFound() async {
      await #expect(processExitsWith: .failure) { checkToy(toy_tells_the_wrong_layout) }
    }

    @Test func aLayoutThatIsMissingIsFound() async {
      await #expect(processExitsWith: .failure) { checkToy(toy_has_no_layout) }
    }

    @Test func aModuleOfAnotherNameIsFound() async {
      await #expect(processExitsWith: .failure) { checkToy(toy_names_another_module) }
    }

    @Test func symbolsOfAnotherNameAreFound() async {
      await #expect(processExitsWith: .failure) { checkToy(toy_names_other_symbols) }
    }

    @Test func theToyTrapsIfItsEntryReturns() async {
      await #expect(processExitsWith: .trap) {
        BackendConformance<DefectiveContext>.letTheEntryReturn()
      }
    }

    /// The status is no trap's, so the test of a real backend would fail.
    @Test func anEntryThatMayReturnIsFound() async {
      await #expect(processExitsWith: .exitCode(EXIT_SUCCESS)) {
        toy_context_break(toy_lets_the_entry_return)
        BackendConformance<DefectiveContext>.letTheEntryReturn()
      }
    }

    @Test func aStackWithoutAnEndForUnwindersIsFound() async {
      await #expect(processExitsWith: .failure) { checkToy(toy_has_no_end_for_unwinders) }
    }

    @Test func aContextThatStaysLiveIsFound() async {
      await #expect(processExitsWith: .failure) { checkToy(toy_stays_live_when_destroyed) }
    }

    @Test func aRoundingModeThatIsKeptIsFound() async {
      await #expect(processExitsWith: .failure) { checkToy(toy_keeps_the_rounding_mode) }
    }
  }

  /// Fails, or crashes, if one of the checks finds the toy backend wrong.
  private func checkToy(_ defect: toy_defect) {
    // A check that hangs has found the fault, too.
    alarm(60)
    toy_context_break(defect)
    for name in BackendConformance<DefectiveContext>.names {
      // The issue is expected: like a crash, it ends the process.
      try? withKnownIssue(isIntermittent: true) {
        try BackendConformance<DefectiveContext>().check(name)
      } matching: { _ in
        exit(EXIT_FAILURE)
      }
    }
    exit(EXIT_SUCCESS)
  }

  /// A backend as a new contributor would write it, by the recipe in Sources/Context/Context.docc/WritingABackend.md.
  enum DefectiveContext: ContextBackend {
    typealias Context = toy_context

    static var name: String { "Toy" }

    static func initialize(
      _ context: UnsafeMutablePointer<toy_context>, stack: UnsafeMutableRawBufferPointer,
      resumer: UnsafeMutablePointer<toy_context>, entry: @convention(c) (UInt) -> Void
    ) {
      toy_context_initialize(context, stack.baseAddress! + stack.count, entry)
    }

    static func switchContext(
      from: UnsafeMutablePointer<toy_context>, to: UnsafeMutablePointer<toy_context>, passing word: UInt
    ) -> ContextArrival<toy_context> {
      let arrival = toy_context_switch(from, to, word)
      return ContextArrival(word: arrival.word, departed: arrival.departed!)
    }

    static func registers(of context: UnsafeMutablePointer<toy_context>) -> ContextRegisters? {
      ContextRegisters { toy_context_registers(context, $0) }
    }

    static var layout: ContextLayout? { ContextLayout(reading: toy_context_layout) }

    static var code: ContextCode {
      let module = toy_context_has(toy_names_another_module) ? "ContextToy" : "CoroutineContextTests"
      let prefix = toy_context_has(toy_names_other_symbols) ? "context_toy_" : "toy_context_"
      return ContextCode(module: module, symbolPrefixes: [prefix])
    }

    static func destroy(_ context: UnsafeMutablePointer<toy_context>) { toy_context_destroy(context) }
  }

  extension DefectiveContext: TestedBackend {
    static var resuming: @convention(c) (UnsafeMutableRawPointer?) -> Void {
      { _ = DefectiveContext.resume(ContextLink<DefectiveContext>.at($0), passing: 0) }
    }
    static var suspending: @convention(c) (UnsafeMutableRawPointer?) -> Void {
      { _ = DefectiveContext.suspend(ContextLink<DefectiveContext>.at($0), passing: 0) }
    }
  }
#endif
