import Glibc

/// What is outside of the process's threads: what wakes one, unseen by those who look at them, and what does not.
enum Outside {
  /// What `SIGALRM` posts.
  // Made before its first use, once, and from then on only given to the C library.
  nonisolated(unsafe) private static let rung: UnsafeMutablePointer<sem_t> = {
    let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    sem_init(semaphore, 0, 0)
    return semaphore
  }()

  /// Has a handler of `SIGALRM` let one `waitForAlarm()` go on, after some microseconds.
  static func setAlarm(after delay: UInt32) {
    _ = rung
    signal(SIGALRM) { _ in sem_post(Outside.rung) }
    ualarm(delay, 0)
  }

  /// On a thread, not in a coroutine, to which the mask of signals belongs with Ucontext.
  static func waitForAlarm() {
    // Who starts a process on a thread of Dispatch lets it inherit that all signals are blocked.
    var alarm = sigset_t()
    sigemptyset(&alarm)
    sigaddset(&alarm, SIGALRM)
    pthread_sigmask(SIG_UNBLOCK, &alarm, nil)
    while sem_wait(rung) != 0 {}
    signal(SIGALRM, SIG_DFL)
  }

  /// An eventfd that is closed in programs that children become, but not in the children.
  static func makeEvent() -> CInt { eventfd(0, O_CLOEXEC) }

  /// A child that does nothing until it is ended, or its parent has.
  static func makeChild() -> pid_t {
    let parent = getpid()
    let child = fork()
    guard child == 0 else { return child }
    while getppid() == parent { usleep(50_000) }
    _exit(0)
  }

  /// Ends a child, unless it was ended already.
  static func end(_ child: pid_t) {
    guard waitpid(child, nil, WNOHANG) == 0 else { return }
    kill(child, SIGKILL)
    waitpid(child, nil, 0)
  }

  /// A child that adds 1 to an eventfd after some microseconds.
  static func addLater(to event: CInt, after delay: UInt32) -> pid_t {
    let child = fork()
    guard child == 0 else { return child }
    usleep(delay)
    var one: UInt64 = 1
    _ = write(event, &one, 8)
    _exit(0)
  }

  // Swift hides them.
  private static let fork = function("fork", as: (@convention(c) () -> pid_t).self)
  private static let eventfd = function("eventfd", as: (@convention(c) (CUnsignedInt, CInt) -> CInt).self)

  private static func function<Function>(_ name: String, as type: Function.Type) -> Function {
    // The C library has it under that name, with these parameters.
    unsafeBitCast(dlsym(nil, name), to: type)
  }
}
