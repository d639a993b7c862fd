import Glibc

/// A child by `fork`, which runs `body` on the calling thread and ends. An alarm ends one that hangs.
public struct Child {
  public enum End: Equatable, Sendable {
    case exited(CInt)
    /// A message of the runtime ended it.
    case trapped
    case hung
    case killed(CInt)
  }

  private let id: pid_t

  public init(_ body: () -> CInt) {
    // Looked up before: the dynamic linker's lock may be another thread's at the moment of the fork.
    let fork = Self.fork
    id = fork()
    precondition(id >= 0, "fork: error \(errno)")
    if id == 0 {
      // The thread may be one of Dispatch's, which block all signals.
      var signals = sigset_t()
      sigemptyset(&signals)
      sigaddset(&signals, SIGALRM)
      sigprocmask(SIG_UNBLOCK, &signals, nil)
      alarm(10)
      _exit(body())
    }
  }

  /// How a child that runs `body` ends. Another child is tried if one hangs in a lock of the Swift runtime: another
  /// thread may have owned that lock at the moment of the fork, while it used a type for the first time.
  public static func end(_ body: () -> CInt) -> End {
    var allowance = 3
    return end(hangsAllowed: &allowance, body)
  }

  /// The same with an allowance that several calls share: code of the runtime that hangs now and then exceeds it.
  public static func end(hangsAllowed allowance: inout Int, _ body: () -> CInt) -> End {
    while true {
      let end = Child(body).end
      guard end == .hung, allowance > 0 else { return end }
      allowance -= 1
    }
  }

  public var end: End {
    var status: CInt = 0
    while waitpid(id, &status, 0) < 0 && errno == EINTR {}
    return switch status & 0x7f {
    case 0: .exited(status >> 8 & 0xff)
    case SIGILL, SIGTRAP: .trapped
    case SIGALRM: .hung
    case let signal: .killed(signal)
    }
  }

  /// Swift does not import it, since little is allowed in a copy.
  // The C library has a function of this name and type.
  private static let fork = unsafeBitCast(dlsym(nil, "fork"), to: (@convention(c) () -> pid_t).self)
}
