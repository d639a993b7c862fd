import CCoroutineFaults
import Glibc

/// Runs a program in a process of its own, and refuses some of its system calls.
struct Supervisor {
  /// Which calls of a kind are refused.
  enum Plan: CustomStringConvertible {
    /// That one, counted from 1.
    case only(Int)
    /// That one and all later ones.
    case from(Int)

    var number: Int {
      switch self {
      case .only(let number), .from(let number): number
      }
    }

    func refuses(_ call: Int) -> Bool {
      switch self {
      case .only(let number): call == number
      case .from(let number): call >= number
      }
    }

    var description: String {
      switch self {
      case .only(let number): "call \(number)"
      case .from(let number): "call \(number) and all later ones"
      }
    }
  }

  enum End {
    case success
    /// It printed the error that was thrown.
    case error
    case wrong
    case trapped
    case killed(CInt)
    case hung
  }

  struct Run {
    var end = End.hung
    /// All that it has printed.
    var text = ""
    /// How many calls of the kind it made.
    var calls = 0
  }

  /// What a process ends with. Others: a test library's, a shell's.
  private enum Status {
    static var error: CInt { 41 }
    static var wrong: CInt { 42 }
    static var unsupported: CInt { 43 }
  }

  /// Longer than any program takes on a busy machine.
  private static var limit: Int { 400_000 }

  /// Whether the system lets one process refuse another's calls.
  static func isPossible() -> Bool {
    run(FaultProgram(name: "nothing") {}, fault("membarrier"), .only(1)) != nil
  }

  static var faults: [coroutine_fault_kind] {
    var count = 0
    let kinds = coroutine_fault_kinds(&count)
    return Array(UnsafeBufferPointer(start: kinds, count: count))
  }

  static func fault(_ name: String) -> coroutine_fault_kind { faults.first { String(cString: $0.name) == name }! }

  /// `nil` where the system has no such filters, or refuses a process.
  static func run(_ program: FaultProgram, _ fault: coroutine_fault_kind, _ plan: Plan) -> Run? {
    var sockets: [CInt] = [0, 0]
    var output: [CInt] = [0, 0]
    guard socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &sockets) == 0, pipe(&output) == 0 else { return nil }
    fflush(nil)  // or the process would print it, too
    let start = Start(program: program, fault: fault, socket: sockets[1], unused: sockets[0], output: output[1])
    let process = withExtendedLifetime(start) {
      coroutine_fault_fork(
        { Unmanaged<Start>.fromOpaque($0!).takeUnretainedValue().begin() }, Unmanaged.passUnretained(start).toOpaque())
    }
    close(sockets[1])
    close(output[1])
    guard process > 0 else {
      close(sockets[0])
      close(output[0])
      return nil
    }
    let listener = coroutine_fault_listen(sockets[0])
    close(sockets[0])
    defer {
      close(output[0])
      close(listener)
    }
    var run = Run()
    let isOver = watch(listener, output[0], process, fault, plan, &run)
    if !isOver { kill(process, SIGKILL) }
    var status: CInt = 0
    while waitpid(process, &status, 0) < 0 && errno == EINTR {}
    guard isOver else { return run }
    switch (status & 0x7f, status >> 8 & 0xff) {
    case (0, 0): run.end = .success
    case (0, Status.error): run.end = .error
    case (0, Status.wrong): run.end = .wrong
    case (0, Status.unsupported): return nil
    case (SIGILL, _), (SIGTRAP, _), (SIGABRT, _): run.end = .trapped
    case (let signal, _): run.end = .killed(signal)
    }
    return run
  }

  /// What the process does.
  private final class Start {
    private let program: FaultProgram
    private var fault: coroutine_fault_kind
    private let (socket, unused, output): (CInt, CInt, CInt)

    init(program: FaultProgram, fault: coroutine_fault_kind, socket: CInt, unused: CInt, output: CInt) {
      (self.program, self.fault) = (program, fault)
      (self.socket, self.unused, self.output) = (socket, unused, output)
    }

    func begin() -> Never {
      close(unused)
      dup2(output, 1)
      dup2(output, 2)
      guard coroutine_fault_begin(&fault, socket) == 0 else { _exit(Status.unsupported) }
      var text = ""
      do {
        if fault.is_storm { text = try Storm(program: program).run() } else { try program.body() }
      } catch let wrong as FaultProgram.Wrong {
        end("wrong: \(wrong)", Status.wrong)
      } catch {
        end("error: \(error)", Status.error)
      }
      end(text, 0)
    }

    /// No handler of `exit` runs: other threads are still there.
    private func end(_ text: String, _ status: CInt) -> Never {
      print(text)
      fflush(nil)
      _exit(status)
    }
  }

  /// Answers the calls, until the output has ended. False if the time is up before that.
  private static func watch(
    _ listener: CInt, _ output: CInt, _ process: pid_t, _ fault: coroutine_fault_kind, _ plan: Plan, _ run: inout Run
  ) -> Bool {
    var fault = fault
    var bytes: [UInt8] = []
    let end = ContinuousClock.now + .milliseconds(limit)
    // Nothing is read from one that has hung up.
    var waited = [
      pollfd(fd: output, events: Int16(POLLIN), revents: 0), pollfd(fd: listener, events: Int16(POLLIN), revents: 0),
    ]
    defer { run.text = String(decoding: bytes, as: UTF8.self) }
    while true {
      let left = (end - ContinuousClock.now) / .milliseconds(1)
      guard left > 0 else { return false }
      guard poll(&waited, 2, CInt(left)) > 0 else { continue }
      if waited[1].revents & Int16(POLLIN) != 0 {
        var call = coroutine_fault_call()
        if coroutine_fault_take(listener, &fault, process, &call) {
          if call.counts { run.calls += 1 }
          coroutine_fault_answer(listener, &call, call.counts && plan.refuses(run.calls) ? fault.code : 0)
        }
      } else if waited[1].revents != 0 {
        waited[1].fd = -1
      }
      if waited[0].revents != 0 {
        var buffer: [UInt8] = Array(repeating: 0, count: 4096)
        let count = read(output, &buffer, buffer.count)
        guard count > 0 else { return true }
        bytes += buffer.prefix(count)
      }
    }
  }
}
