// SPDX-License-Identifier: Apache-2.0

import CSwitchLoops
import Context
import ContextASM
import ContextUcontext
import Measurement

#if BENCHMARKS_BOOST
  import ContextBoost
#endif

extension Workload {
  /// One switch from a context to another, by each backend, beside loops in C and C++ that do the same.
  static func switching() -> Workload {
    Workload(
      "switch, one way",
      subjects: Backends.subjects(Switches()) + [
        Yardstick.switches(
          "the inline switch, loop in C", backend: ASMContext.name, role: .backend, switch_loop_context_asm),
        Yardstick.subject(.peer),
        Yardstick.switches("swapcontext, loop in C", role: .peer, switch_loop_swapcontext),
        .peer("boost::context::fiber", .boostContext, granularity: 2, expecting: Yardstick.roundTrips),
        .peer("boost::coroutines2", .boostContext, granularity: 2, expecting: Yardstick.roundTrips),
      ])
  }
}

/// The two forms of a backend's switch, between two contexts.
private struct Switches: SubjectsOfBackend {
  func subjects<Backend: MeasuredBackend>(_ backend: Backend.Type, _ promises: Promises) -> [Subject] {
    let symmetric = Lazy { try Partner<Backend>(Backend.symmetricEntry) }
    let asymmetric = Lazy { try Partner<Backend>(Backend.asymmetricEntry) }
    return [
      subject("switchContext, Swift", backend, promises) { switches in
        let partner = symmetric.value
        return .fastest(of: [
          { switchBackAndForth(partner, switches / 2, Layout0.self) },
          { switchBackAndForth(partner, switches / 2, Layout4.self) },
          { switchBackAndForth(partner, switches / 2, Layout8.self) },
          { switchBackAndForth(partner, switches / 2, Layout24.self) },
        ])
      },
      subject("resume and suspend, Swift", backend, promises) { switches in
        let partner = asymmetric.value
        return .fastest(of: [
          { resumeAndSuspend(partner, switches / 2, Layout0.self) },
          { resumeAndSuspend(partner, switches / 2, Layout4.self) },
          { resumeAndSuspend(partner, switches / 2, Layout8.self) },
          { resumeAndSuspend(partner, switches / 2, Layout24.self) },
        ])
      },
    ]
  }

  private func subject<Backend: MeasuredBackend>(
    _ system: String, _ backend: Backend.Type, _ promises: Promises, _ reading: @escaping (Int) -> Reading
  ) -> Subject {
    Subject(
      system, backend: Backend.name, role: .backend, promises: promises, granularity: 2,
      expecting: Yardstick.roundTrips, reading: reading)
  }
}

/// Work that is measured on each backend in the same process, without the runtime.
protocol SubjectsOfBackend {
  /// - Parameter promises: what a loop of switches promises.
  func subjects<Backend: MeasuredBackend>(_ backend: Backend.Type, _ promises: Promises) -> [Subject]
}

enum Backends {
  static func subjects(_ measured: some SubjectsOfBackend) -> [Subject] {
    let bare: Promises = [.noAllocation, .noCallOut, .noLock]
    var subjects = measured.subjects(ASMContext.self, bare)
    #if BENCHMARKS_BOOST
      subjects += measured.subjects(BoostContext.self, bare)
    #endif
    // The C library's swapcontext calls the kernel.
    return subjects + measured.subjects(UcontextContext.self, bare.subtracting(.noCallOut))
  }
}

/// A value that a loop needs, made when the loop runs for the first time: every process lists every workload, and
/// runs few of them. For one thread.
final class Lazy<Value> {
  private let make: () throws -> Value
  private var made: Value?

  init(_ make: @escaping () throws -> Value) {
    self.make = make
  }

  var value: Value {
    if let made { return made }
    do {
      let value = try make()
      made = value
      return value
    } catch {
      fatalError("what a loop needs can't be made: \(error)")
    }
  }
}
