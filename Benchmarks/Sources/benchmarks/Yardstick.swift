// SPDX-License-Identifier: Apache-2.0

import CSwitchLoops
import Measurement

/// The unit for everything that switches: one switch by Boost's `jump_fcontext`, in a loop in C, in the same run.
enum Yardstick {
  static let name = "jump_fcontext, loop in C"

  /// - Parameter role: a peer if the work is to switch. Elsewhere it is only the unit of the figures.
  static func subject(_ role: Role) -> Subject {
    switches(name, role: role, switch_loop_jump_fcontext)
  }

  /// A loop in C, one operation of which is one switch: half a round trip.
  static func switches(
    _ system: String, backend: String? = nil, role: Role, _ loop: @escaping (CInt, UInt) -> UInt
  ) -> Subject {
    Subject(
      system, backend: backend, role: role, promises: .noLock, granularity: 2, expecting: roundTrips
    ) { switches in
      .fastest(
        of: (0..<CInt(switch_loop_layouts)).map { layout in { Int(bitPattern: loop(layout, UInt(switches) / 2)) } })
    }
  }

  /// Each round trip is two switches.
  static func roundTrips(_ switches: Int) -> Int { switches / 2 }
}
