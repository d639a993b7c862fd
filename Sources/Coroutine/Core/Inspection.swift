import CCoroutine
import CSystem
package import Context

/// The suspended coroutines of the process, for debuggers: a snapshot that stays true while it is looked at.
///
/// Nothing is registered anywhere: every live coroutine has a stack, the pools know their stacks, and what describes the
/// coroutine lies at a stack's upper end. To be listed costs a coroutine nothing.
package enum Inspection {
  /// Why a snapshot cannot be taken.
  package struct Unavailable: Error, CustomStringConvertible {
    package var description: String {
      "suspended coroutines can't be kept from running while they are looked at: membarrier(2) is missing (Linux 4.14) "
        + "or not allowed here"
    }
  }

  /// Keeps every coroutine that is suspended, or ready to run, from running, and passes them to `body` one by one, in no
  /// order. Those that run go on running, and are not passed. Coroutines and threads that wait for one of them wait.
  ///
  /// `body` must not suspend, nor wait for a coroutine. One snapshot at a time: a second caller waits.
  ///
  /// - Throws: `Unavailable`, or what `body` throws.
  package static func forEachSuspended(_ body: (SuspendedCoroutine) throws -> Void) throws {
    oneAtATime.lock()
    defer { oneAtATime.unlock() }
    try begin()
    defer { end() }
    for pool in StackPool.allShared {
      try pool.forEachLiveStack { stack in
        if let suspended = SuspendedCoroutine(on: stack) { try body(suspended) }
      }
    }
  }

  private static let oneAtATime = Lock()

  /// From its return on, whoever resumes a coroutine sees the request, or has published before that it runs.
  private static func begin() throws(Unavailable) {
    // Registering again changes nothing: a snapshot is rare, and a system call cheap beside it.
    guard csystem_membarrier_register() == 0 else { throw Unavailable() }
    coroutine_inspection_request(true)
    guard csystem_membarrier() == 0 else {
      end()
      throw Unavailable()
    }
  }

  private static func end() {
    coroutine_inspection_request(false)
    _ = csystem_futex_wake(coroutine_inspection_address(), UInt32(Int32.max))
  }

  /// Sleeps until the snapshot is taken.
  static func waitForEnd() {
    while coroutine_inspection_requested() {
      _ = csystem_futex_wait(coroutine_inspection_address(), 1, nil)
    }
  }

  /// The live stack that contains an address.
  static func stack(containing address: UInt) -> Stack? {
    for pool in StackPool.allShared {
      if let stack = pool.stack(containing: address) { return stack }
    }
    return nil
  }
}

/// One coroutine that does not run and, as long as the snapshot lasts, will not.
package struct SuspendedCoroutine {
  /// Unique in the process.
  package let id: UInt64
  /// Empty where none was given.
  package let name: String
  /// Whether it waits for its turn only.
  package let isReady: Bool
  /// What it waits for, in words.
  package let waitsFor: String
  /// Its stacks and where each of them stands, from where it is suspended outwards: the generator that it runs, if any,
  /// then whatever consumes that, at last its own. An unwinder goes through each until it leaves that stack.
  package let segments: [Segment]

  package struct Segment {
    package let registers: ContextRegisters
    package let stack: Stack
  }

  /// What is suspended on a stack; `nil` if nothing is, or a generator, which is a part of whoever consumes it.
  ///
  /// A block that is being made or taken down at this moment is in neither of the two states, nor does it enter one.
  fileprivate init?(on stack: Stack) {
    let block = ControlBlock.address(on: stack)
    let state = block.pointee.state.load(ordering: .acquiring)
    guard state == .ready || state == .suspended else { return nil }
    let core = block.pointee.owner._withUnsafeGuaranteedRef { unsafeDowncast($0, to: CoroutineCore.self) }
    id = core.id
    name = core.name
    isReady = state == .ready
    waitsFor = state == .ready ? "its turn" : core.waitReason?.description ?? "its turn"
    var segments: [Segment] = []
    var next = SelectedBackend.registers(of: ContextLink.own(ControlBlock.link(of: block)))
    while let registers = next, let current = Inspection.stack(containing: registers.stackPointer) {
      segments.append(Segment(registers: registers, stack: current))
      guard current != stack else { break }
      // A generator's stack: the generator runs, on behalf of whoever is saved as its resumer.
      let generator = ControlBlock.address(on: current)
      next = SelectedBackend.registers(of: ContextLink.resumer(ControlBlock.link(of: generator)))
    }
    self.segments = segments
  }
}

extension WaitReason {
  /// In words: the operation and what it is done at.
  var description: String {
    switch subject {
    case .nothing: "its turn"
    case .object(let object): object._withUnsafeGuaranteedRef { $0.describe(operation) }
    case .cases(let wait): wait.pointee.description
    }
  }
}
