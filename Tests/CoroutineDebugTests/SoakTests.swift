import CoroutineTestSupport
import Testing

/// The short form of `make soak`.
@Suite(.ownThreads, .timeLimit(.minutes(10))) struct SoakTests {
  @Test func allThatIsSentIsReceivedUnderLoad() async {
    let (ended, output) = await TestProgram.run("CoroutineSoak", ["1"], .success)
    #expect(ended, "\(output)")
  }
}
