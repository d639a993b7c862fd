import CoroutineDebug
import CoroutineInspection
import Foundation

/// A copy of the test process, in which nothing happens. It has the same coroutines at the same addresses, and one
/// thread.
///
/// Swift does not import `fork`, since little is allowed in a copy: `body` must not allocate, nor take a lock.
final class ForkedProcess: Sendable {
  let id: CInt

  init(_ body: @Sendable () -> Void = {}) {
    let parent = getpid()
    // Looked up before the copy is made: another thread may own the dynamic linker's lock at that moment.
    _ = (Self.systemCall, Self.clone, Self.ptrace)
    let child = Self.fork()
    if child == 0 {
      body()
      Self.stay(for: parent)
    }
    // -1 would later mean all processes, where the copy is ended.
    precondition(child > 0, "fork: error \(errno)")
    id = child
  }

  deinit {
    kill(id, SIGKILL)
    wait()
  }

  /// A dump of the copy. (A method keeps its object alive. Code that uses only the number does not.)
  func capture() throws(InspectionError) -> CoroutineDump {
    defer { withExtendedLifetime(self) {} }
    return try CoroutineDump.capture(of: .running(id))
  }

  /// Why the copy can't be inspected.
  var problem: InspectionError? {
    do throws(InspectionError) {
      _ = try capture()
      return nil
    } catch {
      return error
    }
  }

  func write(to descriptor: CInt, options: CoroutineDump.Options) throws {
    defer { withExtendedLifetime(self) {} }
    try CoroutineDump.write(of: .running(id), to: descriptor, options: options)
  }

  private func wait() {
    var status: CInt = 0
    while waitpid(id, &status, 0) < 0 && errno == EINTR {}
  }

  /// A line of the kernel's status of the copy, or of one of its threads.
  func status(_ key: String, of thread: String? = nil) -> String {
    let file = open("/proc/\(id)" + (thread.map { "/task/\($0)" } ?? "") + "/status", O_RDONLY)
    defer { close(file) }
    let text = String(unsafeUninitializedCapacity: 8192) { max(0, read(file, $0.baseAddress, $0.count)) }
    let line = text.split(separator: "\n").first { $0.hasPrefix(key + ":") } ?? ""
    return String(line.drop { $0 != "\t" }.dropFirst())
  }

  // MARK: What a copy does

  /// Does nothing until the parent has ended, so that no process is left behind. Stands at one instruction, so that
  /// two looks see the same.
  static func stay(for parent: pid_t = getppid()) -> Never {
    // pidfd_open, Linux 5.3
    let process = CInt(truncatingIfNeeded: systemCall(434, CLong(parent), 0))
    var event = pollfd(fd: process, events: Int16(POLLIN), revents: 0)
    if process >= 0 { while getppid() == parent && poll(&event, 1, -1) <= 0 {} }
    while getppid() == parent { usleep(50_000) }
    _exit(0)
  }

  static func startThread(_ body: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer?) {
    var thread = pthread_t()
    pthread_create(&thread, nil, body, nil)
  }

  /// Ends the calling thread alone, and frees nothing: `pthread_exit` would call functions that may take locks.
  static func endThread() {
    #if arch(x86_64)
      _ = systemCall(60, 0, 0)
    #else
      _ = systemCall(93, 0, 0)
    #endif
  }

  /// Starts a child that shares the memory, and waits for its end in the kernel, as `vfork` does. The child lives as
  /// long as this process.
  static func waitForChild() {
    // CLONE_VM, CLONE_VFORK
    let flags = 0x100 | 0x4000 | SIGCHLD
    let stack = mmap(nil, 64 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)!
    _ = clone({ _ in ForkedProcess.stay() }, stack + (64 << 10), flags, nil)
  }

  private static let systemCall = function("syscall", as: (@convention(c) (CLong, CLong, CLong) -> CLong).self)
  private static let clone = function(
    "clone",
    as: (@convention(c) (
      @convention(c) (UnsafeMutableRawPointer?) -> CInt, UnsafeMutableRawPointer, CInt, UnsafeMutableRawPointer?
    ) -> CInt).self)
  private static let fork = function("fork", as: (@convention(c) () -> CInt).self)
  /// With the most arguments that `ptrace` takes. Swift does not import functions of variable arguments.
  static let ptrace = function("ptrace", as: (@convention(c) (CInt, CInt, Int, Int) -> Int).self)

  private static func function<Function>(_ name: String, as type: Function.Type) -> Function {
    // The C library has a function of this name with these arguments.
    unsafeBitCast(dlsym(nil, name), to: type)
  }

  /// Whether the system allows processes to inspect others: some containers forbid it.
  static let canBeInspected: Bool = {
    do throws(InspectionError) {
      _ = try ForkedProcess().capture()
      return true
    } catch {
      return error.reason != .notPermitted
    }
  }()
}
