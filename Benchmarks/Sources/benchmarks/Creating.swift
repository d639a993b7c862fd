// SPDX-License-Identifier: Apache-2.0

import Coroutine
import Measurement

extension Workload {
  /// A context or a coroutine is created, runs to its first switch or to its end, and is destroyed. It gets a stack
  /// that was used before, and there is no scheduler.
  static func creating() -> Workload {
    Workload(
      "create, run and destroy, one coroutine",
      subjects: [
        Subject("Generator of one element", backend: Coroutine.backendName, role: .runtime) { count in
          sumOfFirstElements(count)
        }
      ] + Backends.subjects(Creations()) + [
        .peer("boost::context::fiber, pooled stack", .boostContext),
        .peer("boost::coroutines2, pooled stack", .boostContext),
        .peer("C++20 generator", .cxx),
      ])
  }
}

private struct Creations: SubjectsOfBackend {
  func subjects<Backend: MeasuredBackend>(_ backend: Backend.Type, _ promises: Promises) -> [Subject] {
    [
      Subject("bare context, pooled stack", backend: Backend.name, role: .backend, promises: .noAllocation) { count in
        createAndDestroy(backend, count)
      }
    ]
  }
}

@inline(never)
private func sumOfFirstElements(_ count: Int) -> Int {
  var sum = 0
  for _ in 0..<count {
    for element in Generator<Int>({ yield in try yield(1) }) { sum += element }
  }
  return sum
}
