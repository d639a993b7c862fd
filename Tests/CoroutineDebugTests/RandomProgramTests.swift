import CoroutineTestSupport
import Testing

/// Random programs of operations, compared with a model: the short form of `make fuzz`. `CoroutineRandomPrograms` runs
/// them, in a process of its own.
@Suite(.ownThreads, .timeLimit(.minutes(30))) struct RandomProgramTests {
  @Test func programsDoWhatTheModelSays() async {
    let seeds = amount(300, sanitized: 40)
    let (ended, output) = await TestProgram.run("CoroutineRandomPrograms", ["kept", "\(seeds)"], .success)
    #expect(ended, "\(output)")
  }

  /// Else the one above would show nothing. On one thread, so that a sanitizer has nothing to find.
  @Test(.disabled(if: isSanitized, "the same schedules, ten times slower"))
  func defectsThatArePutInAreFound() async {
    let (ended, output) = await TestProgram.run("CoroutineRandomPrograms", ["defects"], .success)
    #expect(ended, "\(output)")
  }
}
