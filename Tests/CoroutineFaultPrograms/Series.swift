import CCoroutineFaults
import Glibc

/// All runs of one program with one kind of call refused: the first call, the second, and so on, until a run has fewer
/// calls than that. Then some with all calls refused from one on.
struct Series {
  private let program: FaultProgram
  private let fault: coroutine_fault_kind
  private let isQuick: Bool
  private let shows: Bool

  init(_ program: FaultProgram, _ fault: coroutine_fault_kind, isQuick: Bool, shows: Bool) {
    self.program = program
    self.fault = fault
    self.isQuick = isQuick
    self.shows = shows
  }

  /// Prints each run that ended as it must not. Returns whether there was none.
  ///
  /// - Parameter refused: is raised by the number of runs in which a call was refused.
  func run(_ refused: inout Int) -> Bool {
    var isRight = true
    var number = 1
    while let found = perform(.only(number), &isRight), found.calls >= number {
      refused += 1
      number = isQuick && number > 3 ? number * 2 : number + 1
    }
    if fault.is_single { return isRight }
    var first = 1
    while first < number, perform(.from(first), &isRight) != nil { first = isQuick ? first * 8 : first * 2 }
    return isRight
  }

  /// To find out why a run fails now and then.
  static func repeatOne(_ arguments: [String]) -> Bool {
    guard arguments.count >= 3, let number = Int(arguments[2]),
      let fault = Supervisor.faults.first(where: { String(cString: $0.name) == arguments[0] }),
      let program = FaultProgram.all.first(where: { $0.name == arguments[1] })
    else { return false }
    let series = Series(program, fault, isQuick: true, shows: true)
    var isRight = true
    for _ in 0..<(arguments.count > 3 ? Int(arguments[3]) ?? 1 : 1) { _ = series.perform(.only(number), &isRight) }
    return isRight
  }

  private func perform(_ plan: Supervisor.Plan, _ isRight: inout Bool) -> Supervisor.Run? {
    let run = Supervisor.run(program, fault, plan)
    guard let run else {
      // It was possible a moment ago.
      isRight = false
      print("FAILED, \(String(cString: fault.name)) in \(program.name), \(plan): the program could not be started")
      return nil
    }
    let problem = problem(of: run, wasRefused: run.calls >= plan.number)
    if problem != nil { isRight = false }
    if problem != nil || shows && (run.calls >= plan.number || fault.is_storm) {
      let lines = run.text.split(separator: "\n")
      let text = problem == nil ? lines.prefix(1).joined() : lines.prefix(30).joined(separator: "\n")
      let end = problem.map { "FAILED, \($0)" } ?? "\(run.end)"
      print("\(String(cString: fault.name)) in \(program.name), \(plan): \(end): \(text)")
      fflush(nil)
    }
    return run
  }

  /// What is not as it must be.
  private func problem(of run: Supervisor.Run, wasRefused: Bool) -> String? {
    // `pthread_create` says EAGAIN, whatever it was refused.
    let reasons = [fault.code, EAGAIN].map { String(cString: strerror($0)) } + ["\(String(cString: fault.name))(2)"]
    switch run.end {
    case .success: return nil
    case .hung: return "it hangs"
    case .wrong: return "a wrong result"
    case .killed(let signal): return "ended by signal \(signal)"
    case .error, .trapped:
      if !wasRefused { return "nothing was refused" }
      return reasons.contains { run.text.contains($0) } ? nil : "the reason is not told"
    }
  }
}
