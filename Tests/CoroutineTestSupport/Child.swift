import Glibc
import Testing

/// A child by `fork`, which runs `body` on the calling thread and ends. An alarm ends one that hangs, and tells where it stood.
public struct Child {
  public enum End: Equatable, Sendable {
    case exited(CInt)
    /// A message of the runtime ended it.
    case trapped
    case hung
    case killed(CInt)
  }

  private let id: pid_t
  /// What the child writes where it hangs.
  private let report: CInt

  public init(_ body: () -> CInt) {
    // Looked up before: the dynamic linker's lock may be another thread's at the moment of the fork.
    let fork = Self.fork
    HungChild.prepare()
    ThrowHooks.prepare()
    var ends: [CInt] = [0, 0]
    precondition(pipe(&ends) == 0, "pipe: error \(errno)")
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    report = ends[0]
    id = fork()
    precondition(id >= 0, "fork: error \(errno)")
    if id == 0 {
      close(ends[0])
      HungChild.setAlarm(ends[1])
      ThrowHooks.remove()
      _exit(body())
    }
    close(ends[1])
  }

  /// How a child that runs `body` ends. Another child is tried, up to three times, if one hangs in the Swift runtime: another
  /// thread may have owned a lock of its at the moment of the fork, while it used a type for the first time.
  public static func end(_ body: () -> CInt) -> End {
    var allowance = 3
    return end(hangsAllowed: &allowance, body)
  }

  /// The same with an allowance that several calls share: code of the runtime that hangs now and then exceeds it.
  public static func end(hangsAllowed allowance: inout Int, _ body: () -> CInt) -> End {
    while true {
      let (end, place) = Child(body).wait()
      guard end == .hung else { return end }
      let isForgiven = allowance > 0 && HungChild.isInSwiftRuntime(place)
      let judgement = isForgiven ? "which is forgiven" : "elsewhere than in the Swift runtime, or too often"
      Issue.record(
        "a child by fork hung, \(judgement): \(HungChild.describe(place))", severity: isForgiven ? .warning : .error)
      guard isForgiven else { return end }
      allowance -= 1
    }
  }

  public var end: End {
    let (end, place) = wait()
    if end == .hung { Issue.record("a child by fork hung: \(HungChild.describe(place))") }
    return end
  }

  /// How it ended, and, if it hung, where it stood: the frames, the innermost first.
  private func wait() -> (end: End, place: String) {
    // Its end closes the pipe. A child that hangs in `fork` itself has no alarm yet.
    var watched = pollfd(fd: report, events: Int16(POLLIN), revents: 0)
    var changed: CInt
    repeat { changed = poll(&watched, 1, 120_000) } while changed < 0 && errno == EINTR
    if changed == 0 { kill(id, SIGKILL) }
    var status: CInt = 0
    while waitpid(id, &status, 0) < 0 && errno == EINTR {}
    // Its own children may have the pipe still. What it has written is there.
    _ = fcntl(report, F_SETFL, O_NONBLOCK)
    var place = [UInt8](repeating: 0, count: 1 << 16)
    let count = read(report, &place, place.count)
    close(report)
    let end: End =
      switch status & 0x7f {
      case 0: .exited(status >> 8 & 0xff)
      case SIGILL, SIGTRAP: .trapped
      case SIGALRM: .hung
      case SIGKILL where changed == 0: .hung
      case let signal: .killed(signal)
      }
    return (end, String(decoding: place.prefix(max(0, count)), as: UTF8.self))
  }

  /// Swift does not import it, since little is allowed in a copy.
  // The C library has a function of this name and type.
  private static let fork = unsafeBitCast(dlsym(nil, "fork"), to: (@convention(c) () -> pid_t).self)
}

/// By these hooks of the Swift runtime, Swift Testing looks at the stack wherever an error is thrown.
///
/// In the tests that link libunwind the look takes libunwind's lock, with all signals blocked. A child that throws would wait for
/// ever if another thread had owned the lock at the moment of the fork, and no alarm would end it.
private enum ThrowHooks {
  private typealias Hook = UnsafeMutablePointer<UnsafeRawPointer?>
  // Unsafe is right: the addresses never change, and only a child, which has one thread, writes there.
  nonisolated(unsafe) private static let untyped = hook("_swift_willThrow")
  nonisolated(unsafe) private static let typed = hook("_swift_willThrowTypedImpl")

  private static func hook(_ name: String) -> Hook {
    guard let address = dlsym(nil, name) else { preconditionFailure("the Swift runtime has no \(name) any more") }
    return address.assumingMemoryBound(to: UnsafeRawPointer?.self)
  }

  static func prepare() { _ = (untyped, typed) }

  static func remove() {
    untyped.pointee = nil
    typed.pointee = nil
  }
}

/// What a child does that hangs: it writes its frames, and ends by the alarm.
private enum HungChild {
  // Unsafe is right for this and what follows: the parent writes it once, in `prepare`; a child has one thread.
  nonisolated(unsafe) private static var report: CInt = -1
  private typealias Frames = UnsafeMutablePointer<UnsafeMutableRawPointer?>
  private static let frameCount: CInt = 48
  nonisolated(unsafe) private static let frames = Frames.allocate(capacity: Int(frameCount))

  // The C library has functions of these types, which Swift does not import.
  private typealias Collect = @convention(c) (Frames, CInt) -> CInt
  private typealias Write = @convention(c) (Frames, CInt, CInt) -> Void
  // libunwind has a `backtrace`, too, which waits for its lock with all signals blocked.
  private static let collect = unsafeBitCast(libcFunction("backtrace"), to: Collect.self)
  private static let write = unsafeBitCast(libcFunction("backtrace_symbols_fd"), to: Write.self)

  private static func libcFunction(_ name: String) -> UnsafeMutableRawPointer? {
    dlsym(dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), name)
  }

  /// In the parent: takes the locks that the child may not find free. The first `backtrace` loads a library.
  static func prepare() { _ = isPrepared }

  private static let isPrepared: Bool = {
    report = -1
    action.initialize(to: sigaction())
    action.pointee.__sigaction_handler.sa_handler = { _ in
      // Should this hang, too.
      alarm(5)
      let count = HungChild.collect(HungChild.frames, HungChild.frameCount)
      HungChild.write(HungChild.frames, count, HungChild.report)
      raise(SIGALRM)
    }
    action.pointee.sa_flags = CInt(bitPattern: UInt32(SA_RESETHAND)) | CInt(SA_NODEFER)
    signals.initialize(to: sigset_t())
    sigemptyset(signals)
    sigaddset(signals, SIGALRM)
    return collect(frames, 1) > 0 && unsafeBitCast(write, to: Int.self) != 0
  }()

  // Made in the parent: what Swift does for them takes locks of its runtime.
  nonisolated(unsafe) private static let action = UnsafeMutablePointer<sigaction>.allocate(capacity: 1)
  nonisolated(unsafe) private static let signals = UnsafeMutablePointer<sigset_t>.allocate(capacity: 1)

  /// Calls the C library alone. A hang before the alarm is set would only be ended by the parent, and its place be unknown.
  static func setAlarm(_ descriptor: CInt) {
    report = descriptor
    sigaction(SIGALRM, action, nil)
    // The thread may be one of Dispatch's, which block all signals.
    sigprocmask(SIG_UNBLOCK, signals, nil)
    alarm(30)
  }

  static func describe(_ place: String) -> String {
    place.isEmpty ? "where is not known, as the look at it hung, too" : "it stood at\n\(place)"
  }

  /// Whether a frame of the Swift runtime is the first one beside those of the C library. Also if the place is not known.
  static func isInSwiftRuntime(_ place: String) -> Bool {
    let lines = place.split(separator: "\n")
    // The handler's own frame, and that of the kernel's call.
    guard let beginning = lines.firstIndex(where: { $0.contains("/libc.so") }) else { return true }
    let others = ["/libc.so", "/libstdc++", "/ld-linux"]
    let own = lines[beginning...].first { line in !others.contains { line.contains($0) } }
    return own?.contains("/libswift") ?? true
  }
}
