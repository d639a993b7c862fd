import CCoroutine
import CoroutineTestSupport
import Testing

/// The short form of `make soak`.
@Suite(.ownThreads, .timeLimit(.minutes(30))) struct SoakTests {
  @Test func allThatIsSentIsReceivedUnderLoad() async {
    // A sanitizer keeps memory that was given back.
    let isCompared = !coroutine_sanitizers_active()
    let (ended, output) = await TestProgram.run("CoroutineSoak", ["short"] + (isCompared ? [] : ["sums"]), .success)
    #expect(ended, "\(output)")
    #expect(output.contains("not compared") != isCompared, "\(output)")
  }
}
