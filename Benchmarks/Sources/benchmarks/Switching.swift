import CSwitchLoops
import Context
import ContextASM
import ContextUcontext
import Measurement

#if BENCHMARKS_BOOST
  import ContextBoost
#endif

/// What everything is held against: one switch by Boost's `jump_fcontext`, in a loop in C, in the same run.
enum Yardstick {
  static let name = "jump_fcontext, loop in C"

  /// The yardstick among a workload's subjects, if it is there.
  static var subjects: [Subject] { isMissing ? [] : [switches(name, backend: nil, switch_loop_jump_fcontext)] }

  static var missing: [(system: String, reason: String)] {
    isMissing ? [(name, "needs libboost-context-dev")] : []
  }

  static var isMissing: Bool { switch_loops_have_boost == 0 }

  /// A loop in C, one operation of which is one switch: half a round trip.
  static func switches(
    _ system: String, backend: String?, comparedWith: String? = nil, _ loop: @escaping (CInt, UInt) -> UInt
  ) -> Subject {
    Subject(
      system, backend: backend, comparedWith: comparedWith, promises: .noLock, granularity: 2, expecting: roundTrips
    ) { switches in
      .fastest(
        of: (0..<CInt(switch_loop_layouts)).map { layout in { Int(bitPattern: loop(layout, UInt(switches) / 2)) } })
    }
  }
}

/// Each of which is two switches.
private func roundTrips(_ switches: Int) -> Int { switches / 2 }

extension Workload {
  /// One switch from a context to another, by each backend beside a loop in C over what it is made of.
  static func switching() throws -> Workload {
    let swapcontext = "swapcontext, loop in C"
    var subjects = Yardstick.subjects
    #if BENCHMARKS_BOOST
      subjects += try switches(BoostContext.self, comparedWith: Yardstick.name)
    #endif
    subjects.append(
      Yardstick.switches(
        "the inline switch, loop in C", backend: ASMContext.name, comparedWith: Yardstick.name,
        switch_loop_context_asm))
    subjects += try switches(ASMContext.self, comparedWith: Yardstick.name)
    subjects.append(Yardstick.switches(swapcontext, backend: nil, switch_loop_swapcontext))
    subjects += try switches(UcontextContext.self, comparedWith: swapcontext)
    var missing = Yardstick.missing
    if Yardstick.isMissing { missing.append(("switchContext, Swift [Boost]", "needs libboost-context-dev")) }
    return Workload("switch, one way", missing: missing, subjects: subjects)
  }

  private static func switches<Backend: MeasuredBackend>(
    _ backend: Backend.Type, comparedWith reference: String
  ) throws -> [Subject] {
    // Ucontext calls the C library and the kernel: that is what it is.
    let bare: Promises = [.noAllocation, .noCallOut, .noLock]
    let promises = Backend.self == UcontextContext.self ? bare.subtracting(.noCallOut) : bare
    let symmetric = try Partner<Backend>(Backend.symmetricEntry)
    let asymmetric = try Partner<Backend>(Backend.asymmetricEntry)
    return [
      Subject(
        "switchContext, Swift", backend: Backend.name, comparedWith: reference, promises: promises, granularity: 2,
        expecting: roundTrips
      ) { switches in
        .fastest(of: [
          { switchBackAndForth(symmetric, switches / 2, Layout0.self) },
          { switchBackAndForth(symmetric, switches / 2, Layout4.self) },
          { switchBackAndForth(symmetric, switches / 2, Layout8.self) },
          { switchBackAndForth(symmetric, switches / 2, Layout24.self) },
        ])
      },
      Subject(
        "resume and suspend, Swift", backend: Backend.name, comparedWith: reference, promises: promises,
        granularity: 2, expecting: roundTrips
      ) { switches in
        .fastest(of: [
          { resumeAndSuspend(asymmetric, switches / 2, Layout0.self) },
          { resumeAndSuspend(asymmetric, switches / 2, Layout4.self) },
          { resumeAndSuspend(asymmetric, switches / 2, Layout8.self) },
          { resumeAndSuspend(asymmetric, switches / 2, Layout24.self) },
        ])
      },
    ]
  }
}
