// SPDX-License-Identifier: Apache-2.0

/// Where a dump comes from: this process, another one, a core file.
package protocol DumpSource: ~Copyable {
  /// The stacks of what was read so far.
  var stacks: StackTable { get }
  /// Whose coroutines they are.
  var process: DumpedProcess { get }
  /// What is missing from it that could be there, each in words.
  var warnings: [String] { get }

  /// Passes each coroutine to `body`: without its frames, whose number in `stacks` it has. `between` is called after
  /// each `batch`, when no coroutine is kept from running.
  mutating func readAll(
    batch: Int, between: (inout Self) throws -> Void, _ body: (CoroutineBacktrace) throws -> Void
  ) throws

  /// What gives names and lines for its addresses.
  func symbolicator(namesFunctions: Bool) -> Symbolicator
}

extension DumpSource where Self: ~Copyable {
  package var warnings: [String] { [] }

  mutating func readAll(_ body: (CoroutineBacktrace) throws -> Void) throws {
    try readAll(batch: .max, between: { _ in }, body)
  }

  /// All of it, with frames.
  package mutating func dump() throws -> CoroutineDump {
    var coroutines: [CoroutineBacktrace] = []
    try readAll { coroutines.append($0) }
    var symbolicator = symbolicator(namesFunctions: true)
    for index in coroutines.indices {
      coroutines[index].frames = symbolicator.frames(of: stacks[coroutines[index].stackNumber])
      if let creators = coroutines[index].creatorsNumber {
        coroutines[index].creationFrames = symbolicator.frames(of: stacks[creators])
      }
    }
    return CoroutineDump(
      coroutines: coroutines.sorted { ($0.isGenerator ? 1 : 0, $0.id) < ($1.isGenerator ? 1 : 0, $1.id) })
  }
}

/// A process, as a dump in JSON shows it.
package struct DumpedProcess {
  let id: CInt
  let executable: String
  let backend: String
  /// Since 1970.
  let time: Duration

  package init(id: CInt, executable: String, backend: String, time: Duration) {
    (self.id, self.executable, self.backend, self.time) = (id, executable, backend, time)
  }
}
