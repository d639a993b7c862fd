import Glibc

/// What lies outside the process's threads: wakers that a look at the threads does not show, and things that wake
/// nothing.
enum Outside {
  /// What `SIGALRM` posts.
  // Made once, before its first use, and then only passed to the C library.
  nonisolated(unsafe) private static let rung: UnsafeMutablePointer<sem_t> = {
    let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    sem_init(semaphore, 0, 0)
    return semaphore
  }()

  /// Has a handler of `SIGALRM` let one `waitForAlarm()` go on after `delay` microseconds.
  static func setAlarm(after delay: UInt32) {
    _ = rung
    signal(SIGALRM) { _ in sem_post(Outside.rung) }
    ualarm(delay, 0)
  }

  /// To be called on a thread, not in a coroutine: with Ucontext the signal mask belongs to the coroutine.
  static func waitForAlarm() {
    // Dispatch's threads block all signals, and a process that is started on one of them inherits that.
    var alarm = sigset_t()
    sigemptyset(&alarm)
    sigaddset(&alarm, SIGALRM)
    pthread_sigmask(SIG_UNBLOCK, &alarm, nil)
    while sem_wait(rung) != 0 {}
    signal(SIGALRM, SIG_DFL)
  }

  /// An eventfd that is closed in programs that the children execute, but not in the children.
  static func makeEvent() -> CInt { eventfd(0, O_CLOEXEC) }

  /// A child that does nothing until it is ended, or its parent ends.
  static func makeChild() -> pid_t {
    let parent = getpid()
    let child = fork()
    precondition(child >= 0, "fork: error \(errno)")
    guard child == 0 else { return child }
    while getppid() == parent { usleep(50_000) }
    _exit(0)
  }

  /// Ends a child that has not been ended yet.
  static func end(_ child: pid_t) {
    guard waitpid(child, nil, WNOHANG) == 0 else { return }
    kill(child, SIGKILL)
    waitpid(child, nil, 0)
  }

  /// A child that adds 1 to an eventfd after `delay` microseconds.
  static func addLater(to event: CInt, after delay: UInt32) -> pid_t {
    let child = fork()
    precondition(child >= 0, "fork: error \(errno)")
    guard child == 0 else { return child }
    usleep(delay)
    add(to: event)
    _exit(0)
  }

  /// Waits until an eventfd is larger than 0.
  static func waitForEvent(_ event: CInt) {
    var count: UInt64 = 0
    while read(event, &count, 8) < 0 && errno == EINTR {}
  }

  /// A child's child, whose parent has ended, adds 1 to an eventfd after `delay` microseconds.
  static func addLaterByOrphan(to event: CInt, after delay: UInt32) -> Bool {
    let child = fork()
    if child == 0 {
      _ = addLater(to: event, after: delay)
      _exit(0)
    }
    return waitpid(child, nil, 0) == child
  }

  // MARK: A parent

  /// The eventfd that the parent adds to.
  static let parentsEvent = makeEvent()
  /// The eventfd that tells the parent to begin.
  private static let parentsSign = makeEvent()

  /// Returns in a child. Its parent adds 1 to `parentsEvent` `delay` microseconds after `tellParent()`, and ends as
  /// the child does. To be called before anything else, as the child has only the calling thread.
  static func goOnAsChild(delay: UInt32) {
    _ = (parentsEvent, parentsSign)
    let child = fork()
    guard child != 0 else { return }
    waitForEvent(parentsSign)
    usleep(delay)
    add(to: parentsEvent)
    var status: CInt = 0
    waitpid(child, &status, 0)
    // The child's exit code, unless a signal ended it.
    exit(status & 0x7f == 0 ? status >> 8 & 0xff : 3)
  }

  static func tellParent() -> Bool {
    add(to: parentsSign)
    return true
  }

  static func add(to event: CInt) {
    var one: UInt64 = 1
    _ = write(event, &one, 8)
  }

  // MARK: The kernel

  /// Has asynchronous I/O add 1 to an eventfd after `delay` microseconds. False where the system does not allow it.
  static func addLaterByKernel(to event: CInt, after delay: UInt32) -> Bool {
    #if arch(x86_64)
      let (setup, submit) = (206, 209)
    #else
      let (setup, submit) = (0, 2)
    #endif
    let timer = makeTimer(CLOCK_MONOTONIC, 0)
    var time = itimerspec()
    time.it_value.tv_nsec = Int(delay) * 1000
    _ = setTimer(timer, 0, &time, nil)
    // struct iocb: wait for POLLIN of the timer, and then add to the eventfd (IOCB_CMD_POLL, IOCB_FLAG_RESFD). The
    // kernel needs the structure until then.
    let request = cleared(64)
    request.storeBytes(of: 5, toByteOffset: 16, as: UInt16.self)
    request.storeBytes(of: UInt32(timer), toByteOffset: 20, as: UInt32.self)
    request.storeBytes(of: 1, toByteOffset: 24, as: UInt64.self)
    request.storeBytes(of: 1, toByteOffset: 56, as: UInt32.self)
    request.storeBytes(of: UInt32(event), toByteOffset: 60, as: UInt32.self)
    var context = 0
    guard withUnsafeMutablePointer(to: &context, { call(setup, 8, Int(bitPattern: $0)) }) == 0 else { return false }
    var requests = Int(bitPattern: request)
    return withUnsafeMutablePointer(to: &requests) { call(submit, context, 1, Int(bitPattern: $0)) } == 1
  }

  /// Has an io_uring add 1 to an eventfd after `delay` microseconds. False where the system does not allow it.
  static func addLaterByRing(to event: CInt, after delay: UInt32) -> Bool {
    let parameters = cleared(120)
    let ring = call(425, 1, Int(bitPattern: parameters))
    guard ring >= 0 else { return false }
    // The queue of requests, whose parts lie where the kernel says, and the array of requests, which has one.
    func map(_ offset: Int) -> UnsafeMutableRawPointer {
      mmap(nil, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, CInt(ring), offset)
    }
    let (queue, request) = (map(0), map(0x1000_0000))
    let tail = parameters.load(fromByteOffset: 44, as: UInt32.self)
    let array = parameters.load(fromByteOffset: 64, as: UInt32.self)
    // struct io_uring_sqe: a timeout (IORING_OP_TIMEOUT).
    let time = cleared(16)
    time.storeBytes(of: Int(delay) * 1000, toByteOffset: 8, as: Int.self)
    request.storeBytes(of: 11, as: UInt8.self)
    request.storeBytes(of: -1, toByteOffset: 4, as: CInt.self)
    request.storeBytes(of: Int(bitPattern: time), toByteOffset: 16, as: Int.self)
    request.storeBytes(of: 1, toByteOffset: 24, as: UInt32.self)
    queue.storeBytes(of: 0, toByteOffset: Int(array), as: UInt32.self)
    queue.storeBytes(of: 1, toByteOffset: Int(tail), as: UInt32.self)
    var told = event
    // IORING_REGISTER_EVENTFD
    return withUnsafeMutablePointer(to: &told) { call(427, ring, 4, Int(bitPattern: $0), 1) } == 0
      && call(426, ring, 1) == 1
  }

  private static func cleared(_ size: Int) -> UnsafeMutableRawPointer {
    let memory = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 8)
    memset(memory, 0, size)
    return memory
  }

  private static func call(_ number: Int, _ first: Int, _ second: Int, _ third: Int = 0, _ fourth: Int = 0) -> Int {
    systemCall(number, first, second, third, fourth, 0, 0)
  }

  // Swift does not import this function.
  private static let systemCall = function(
    "syscall", as: (@convention(c) (CLong, CLong, CLong, CLong, CLong, CLong, CLong) -> CLong).self)
  private static let makeTimer = function("timerfd_create", as: (@convention(c) (CInt, CInt) -> CInt).self)
  private static let setTimer = function(
    "timerfd_settime",
    as: (@convention(c) (CInt, CInt, UnsafePointer<itimerspec>, UnsafeMutablePointer<itimerspec>?) -> CInt).self)
  private static let fork = function("fork", as: (@convention(c) () -> pid_t).self)
  private static let eventfd = function("eventfd", as: (@convention(c) (CUnsignedInt, CInt) -> CInt).self)

  private static func function<Function>(_ name: String, as type: Function.Type) -> Function {
    // The C library has a function of this name with these parameters.
    unsafeBitCast(dlsym(nil, name), to: type)
  }
}
