// SPDX-License-Identifier: Apache-2.0

#if canImport(Testing)
  public import Testing

  /// Lets `runTest` in a test run its body by many schedules.
  ///
  /// ```swift
  /// @Test(.exploringSchedules(seeds: 0..<1000)) func moneyIsKept() throws {
  ///   try runTest {
  ///     …
  ///     #expect(accounts.total == 100)
  ///   }
  /// }
  /// ```
  ///
  /// An expectation that fails in the body is a failure of its schedule: the test then fails once, with the shortest schedule
  /// that fails, and not for each run. Without the trait, `explore` learns of what is thrown only (`try #require`).
  ///
  /// A test that has the trait, or its suite, and explores nothing, since it does not call `runTest`, has a warning.
  public struct ExplorationTrait: TestTrait, SuiteTrait, TestScoping {
    public let isRecursive = true

    let plan: ExplorationPlan

    public func provideScope(
      for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
      let issues = IssueHandlingTrait.compactMapIssues { issue in
        guard issue.isFailure, let run = TestRun.current else { return issue }
        return run.noteFailure("\(issue)") ? nil : issue
      }
      // The trait of a suite is around that of a test, which takes its place.
      let outer = ExplorationPlan.current?.use
      let use = outer ?? ExplorationPlan.Use()
      var plan = plan
      plan.use = use
      try await ExplorationPlan.$current.withValue(plan) {
        try await issues.provideScope(for: test, testCase: testCase, performing: function)
      }
      // A suite has no test case, and its tests have the trait, too.
      if outer == nil, testCase != nil, !use.isNoted {
        Issue.record(
          """
          The trait explores nothing here: the test has called neither runTest nor explore. What is to be explored goes into the \
          body of runTest.
          """, severity: .warning, sourceLocation: test.sourceLocation)
      }
    }
  }

  extension Trait where Self == ExplorationTrait {
    /// Each `runTest` runs its body once for each seed: see `explore(seeds:by:options:_:)`.
    public static func exploringSchedules(
      seeds: Range<Int>, by strategy: ExplorationStrategy = .mixed, options: ExplorationOptions = ExplorationOptions()
    ) -> Self {
      Self(plan: ExplorationPlan(exploration: .seeds(seeds, strategy), options: options))
    }

    /// Each `runTest` runs its body by all schedules: see `explore(exhaustively:limit:options:_:)`.
    public static func exploringSchedules(
      exhaustively bound: ExhaustiveBound, limit: Int = 100_000, options: ExplorationOptions = ExplorationOptions()
    ) -> Self {
      Self(plan: ExplorationPlan(exploration: .exhaustively(bound, limit: limit), options: options))
    }

    /// Each `runTest` runs its body by this schedule, which a failure has shown, with the options of the exploration that has
    /// found it: see `replay(_:options:_:)`.
    public static func replaying(_ schedule: String, options: ExplorationOptions = ExplorationOptions()) -> Self {
      Self(plan: ExplorationPlan(exploration: .replay(schedule), options: options))
    }
  }
#endif
