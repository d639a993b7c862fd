public import Synchronization

/// What a coroutine is doing.
public enum CoroutineState: UInt8, AtomicRepresentable, Sendable {
  /// It waits for its turn: new, woken, or having yielded.
  case ready
  /// It runs on a thread.
  case running
  /// It waits for something: `CoroutineDump`, in CoroutineDebug, tells for what.
  case suspended
  /// It has ended.
  case finished
}
