/// One coroutine that did not run when a `CoroutineDump` was made: what it waits for, and where.
public struct CoroutineBacktrace: Sendable, Identifiable {
  /// The coroutine's number, as in `Coroutine.id`.
  public let id: UInt64
  /// The name it was given; empty without one.
  public let name: String
  public let state: State
  /// What a suspended one waits for, in words: `receive on channel "jobs"`.
  public let waitsFor: String
  /// Its stack, innermost first: where it is suspended, up to the function that it began with. A generator that it runs is
  /// a part of it: the body's frames come first, then those of whoever called `next()`.
  public let frames: [Frame]
  /// Whether `frames` ends because there were more than the dump's limit.
  public let isTruncated: Bool

  /// Why it does not run.
  public enum State: String, Sendable, Hashable {
    /// It could run, and waits for a thread.
    case ready
    /// Somebody else has to wake it.
    case suspended
  }

  /// A function that has called another one, or has been inlined into another one.
  public struct Frame: Sendable, Hashable {
    /// Where it goes on when the call returns.
    public let address: UInt
    /// Its name, without module and types: `walk(_:_:)`. `nil` where the executable was stripped of its symbols.
    public let function: String?
    /// The source file, the line and the column of the call; `nil` without debug information, and where the compiler says
    /// that the code has no place in the source.
    public let file: String?
    public let line: Int?
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
