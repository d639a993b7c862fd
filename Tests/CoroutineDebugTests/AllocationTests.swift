import CCoroutine
import CoroutineTestSupport
import Testing

/// What waits asks for no memory: `CoroutineAllocations` counts, in a process of its own. Optimised code only: in a debug
/// build the standard library's own generic code allocates, as it is not specialised.
@Suite(
  .ownThreads,
  .disabled(if: _isDebugAssertConfiguration() || coroutine_sanitizers_active(), "only optimised code is measured"))
struct AllocationTests {
  @Test func whatWaitsAllocatesNothing() async {
    let (ended, output) = await TestProgram.run("CoroutineAllocations", ["check"], .success)
    #expect(ended, "\(output)")
  }
}
