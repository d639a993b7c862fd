// SPDX-License-Identifier: Apache-2.0

/// One coroutine, or generator, as a `CoroutineDump` found it: what it does or waits for, and where.
public struct CoroutineBacktrace: Sendable, Identifiable {
  /// The coroutine's number, as in `Coroutine.id`. Generators have numbers of their own.
  public let id: UInt64
  /// The name it was given; empty without one.
  public let name: String
  /// What it does.
  public let state: State
  /// Whether it is a generator that is suspended in a `yield`. One whose body runs, or waits for something, is a part of
  /// the coroutine that called `next()`.
  public package(set) var isGenerator = false
  /// Whether it was cancelled, as by `Coroutine.cancel()`, and has not ended: it has not run since, waits inside
  /// `withCancellationShield` or for the children of a scope, or has caught the error and goes on.
  public package(set) var isCancelled = false
  /// What a suspended one does there where it waits: `receive`, `send`, `join`, `sleep`. Empty for others.
  public package(set) var operation = ""
  /// What a suspended one waits for, in words: `receive on channel "jobs" (buffered 0/64, 3 receivers)`. Empty for others.
  public package(set) var waitsFor = ""
  /// How long it will go on to wait, if its wait has a deadline.
  public package(set) var timeLeft: Duration?
  /// How long it has been in this state (a running one: since it was woken), to 10 ms; `nil` where times were not recorded.
  public package(set) var duration: Duration?
  /// What schedules it, in words. Empty for a generator.
  public package(set) var scheduler = ""
  /// The coroutine that created it, which may have ended since; `nil` for one that was created outside of any.
  public package(set) var parentID: UInt64?
  /// The scope that waits for its end, if one does.
  public package(set) var scope: Scope?
  /// The usable bytes of its stack; `nil` without one, before it begins.
  public package(set) var stackSize: Int?
  /// How many bytes of its stack it uses where it stands; `nil` where that is not known of one that runs.
  public package(set) var stackUsed: Int?
  /// How many of them have ever been used, if the dump was to measure it. By this coroutine alone if
  /// `CoroutineDump.measuresStacks` was set before it began; otherwise perhaps by an earlier one on that stack. Words
  /// that were written there and are 0 do not count.
  public package(set) var stackPeak: Int?
  /// Its stack, innermost first: from where it is suspended to the function that it began with. A generator that it
  /// runs is a part of it: the body's frames come first, then those of the caller of `next()`. Empty for one that has
  /// not begun.
  ///
  /// One that runs has the frames of its resumer behind its own: its scheduler's, or the function that called
  /// `Coroutine.immediate`, up to where the thread began. In a dump of its own process it has none unless it makes the
  /// dump, or the dump was asked to interrupt threads.
  public package(set) var frames: [Frame] = []
  /// Whether it ran, and its thread was asked where it stands, and did not answer in time, or not while it ran this
  /// coroutine, three times in a row: it switches often, blocks signals, or got no processor. `frames` is empty then.
  public package(set) var isUnanswered = false
  /// Whether `frames` ends because there were more than the dump's limit; or, of a core file, because it leads through a library
  /// whose file is missing now, or is another build.
  public package(set) var isTruncated = false
  /// The calls that created it, innermost first. Empty unless `CoroutineDump.recordsCreation` was set before.
  public package(set) var creationFrames: [Frame] = []

  // In the `StackTable` of the dump that is being made.
  package var stackNumber = 0
  package var creatorsNumber: Int?

  package init(id: UInt64, name: String, state: State) {
    (self.id, self.name, self.state) = (id, name, state)
  }

  /// What it is doing.
  public enum State: String, Sendable, Hashable, CaseIterable {
    /// It runs on a thread.
    case running
    /// It could run, and waits for a thread.
    case ready
    /// It waits for a thread for the first time.
    case new
    /// A waker has to wake it.
    case suspended
  }

  /// Where coroutines were launched that end with it: `withScope`.
  public struct Scope: Sendable, Hashable {
    /// Distinguishes the scopes of one dump.
    public let id: UInt
    /// The name it was given; empty without one.
    public let name: String
    /// The coroutine that called `withScope`; `nil` if `async` code did.
    public let ownerID: UInt64?

    package init(id: UInt, name: String, ownerID: UInt64?) {
      (self.id, self.name, self.ownerID) = (id, name, ownerID)
    }
  }

  /// A function that has called another one, or has been inlined into another one.
  public struct Frame: Sendable, Hashable {
    /// Where it goes on when the call returns.
    public let address: UInt
    /// Its name, without module and types: `walk(_:_:)`. `nil` where the executable was stripped of its symbols.
    public let function: String?
    /// The source file of the call; `nil` without debug information, and where the compiler says that the code has no
    /// location in the source.
    public let file: String?
    /// The line of the call; `nil` as `file` is.
    public let line: Int?
    /// The column of the call; `nil` as `file` is.
    public let column: Int?
    /// The executable or library that it is in; `nil` for code that is in none.
    public let image: String?
    /// The address, as `image`'s file counts: what `llvm-symbolizer` and the like want to know.
    public let imageOffset: UInt
    /// Whether it is a part of the next frame's function, with the same address.
    public let isInlined: Bool
    /// Whether it is not the program's, but the runtime's, or glue that the compiler made. Left out of a dump unless asked
    /// for.
    public let isRuntime: Bool
  }
}
