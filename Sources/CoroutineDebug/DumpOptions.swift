// SPDX-License-Identifier: Apache-2.0

extension CoroutineDump {
  /// How a dump is made and written.
  public struct Options: Sendable {
    /// Text for people, or JSON.
    public var format = Format.text
    /// Coroutines with equal stacks are shown once, with their number: a hundred thousand take no more memory than one.
    /// Otherwise each is written by itself, in batches between which all go on: no two batches show the same moment. JSON
    /// has each by itself, and each stack once, in any case.
    public var groups = true
    /// Leaves out the frames of the runtime and of the compiler. What remains is the same on all backends. (In JSON they
    /// are marked.)
    public var folds = true
    /// A source file's whole path, not its last component. (In JSON it is.)
    public var fullPaths = false
    /// Looks up functions' names and lines. Without, there are addresses, and offsets in the executable's file, for
    /// `llvm-symbolizer` to look up elsewhere. A process that can't get 64 MiB more memory does without in any case.
    public var names = true
    /// How many frames of a coroutine are kept, innermost first; at least 1.
    public var frameLimit = 1000
    /// The frames of coroutines that run, too. Each thread that runs one at this moment gets a signal, SIGURG, and
    /// stands still for some microseconds, in which its stacks are copied. The dump waits half a second at most for
    /// those that do not answer.
    ///
    /// What the signal does to the program: a system call that waits may return early, with EINTR. Most are restarted
    /// (SA_RESTART); `sleep`, `nanosleep`, `poll`, `select`, `epoll_wait` and those with a time limit never are. So not
    /// unless asked for. A dump from outside has these frames without any of that.
    public var interruptsThreads = false
    /// How deep each stack has ever been, and behind the coroutines which sizes would be enough:
    /// `CoroutineDump.stackSizes`. Takes some microseconds more for each.
    public var stackPeaks = false
    /// The coroutines as a tree behind them: each under its scope, or under its creator. Text only; takes memory for
    /// each.
    public var tree = false
    /// Whether names stand out. Text only.
    public var colors = Colors.automatic

    /// Text, groups of equal stacks, names, without the runtime's frames.
    public init() {}

    /// The same in another format.
    public init(format: Format) { self.format = format }
  }

  /// How a dump is written.
  public enum Format: Sendable {
    /// For people.
    case text
    /// For programs: `docs/dump-schema.json` is its schema. One object, written in one line, and a newline.
    case json
  }

  /// When a dump in text has colours.
  public enum Colors: Sendable {
    /// On a terminal, unless the environment has `NO_COLOR`, or a `TERM` of `dumb`.
    case automatic
    /// Also in a file or a pipe.
    case always
    /// Not on a terminal either.
    case never
  }
}

extension CoroutineDump.Options {
  /// More frames than any reader wants, so that a limit may be `Int.max`: memory is taken for as many.
  package static let mostFrames = 1 << 20
}
