import CoroutineTestSupport
import Foundation
import Testing

/// What the tests of programs that end count on, of the test library and of `ownThreads`.
@Suite(.ownThreads, .timeLimit(.minutes(30))) struct ExitTestTests {
  private static let length = 100_000

  /// More than a pipe holds, by each way from the child to the parent: the child writes until its parent reads, which must not
  /// wait for the child's end first. The library reads each pipe in a task that blocks its thread: on a machine of one or two
  /// processors Swift's own threads do not suffice, those of `ownThreads` do.
  @Test func oneThatFailsWithALongMessageEnds() async {
    await withKnownIssue {
      let result = await #expect(
        processExitsWith: .success, observing: [\.standardOutputContent, \.standardErrorContent]
      ) {
        let message = String(repeating: "-", count: Self.length)
        print(message)
        FileHandle.standardError.write(Data(message.utf8))
        Issue.record(Comment(rawValue: message))
      }
      #expect((result?.standardOutputContent.count ?? 0) >= Self.length)
      #expect((result?.standardErrorContent.count ?? 0) >= Self.length)
    } matching: {
      $0.comments.contains { $0.rawValue.utf8.count >= Self.length }
    }
  }
}
