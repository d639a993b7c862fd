import Coroutine
import CoroutineNIO
import Glibc
import NIOCore

/// Coroutines of a loop share what is bound to it. One that suspends inside of an access to a variable has it open all the same.
let overlapChecks = [
  Check("anotherOneOfTheLoopTouchesWhatIsBoundToIt") { try expectTrap(in: "another", "imultaneous accesses") },
  Check("whatAChannelHasReadTouchesWhatIsBoundToItsLoop") { try expectTrap(in: "reader", "imultaneous accesses") },
  Check("leavingALoopInsideOfAnAccess") { try expectTrap(in: "leaving", "leaves its actor or event loop") },

  Check("twoVariablesThatAreBoundToALoop") {
    let loop = group.next()
    let one = try loop.submit { NIOLoopBoundBox([3, 1, 2], eventLoop: loop) }.get()
    let other = try loop.submit { NIOLoopBoundBox([4], eventLoop: loop) }.get()
    let gate = Coroutine::Channel<Int>()
    let waiter = Coroutine(on: .eventLoop(loop)) { try hold(one) { _ = try gate.receive() } }
    try wait { gate.waitingReceiverCount == 1 }
    try Coroutine(on: .eventLoop(loop)) { other.value = [] }.get()
    try gate.send(1)
    try waiter.get()
    try Coroutine(on: .eventLoop(loop)) {
      try expect("the first one", one.value, [3, 2, 2])
      one.value = []
    }.get()
  },
]

/// Each ends the process.
let overlaps: [String: @Sendable () throws -> Void] = [
  "another": {
    let loop = group.next()
    let items = try loop.submit { NIOLoopBoundBox([3, 1, 2], eventLoop: loop) }.get()
    let gate = Coroutine::Channel<Int>()
    let waiter = Coroutine(on: .eventLoop(loop)) { try hold(items) { _ = try gate.receive() } }
    try wait { gate.waitingReceiverCount == 1 }
    try Coroutine(on: .eventLoop(loop)) { items.value = [] }.get()
    try gate.send(1)
    try waiter.get()
  },

  "reader": {
    let (client, server) = try makePair()
    let loop = server.channel.eventLoop
    let items = try loop.submit { NIOLoopBoundBox([3, 1, 2], eventLoop: loop) }.get()
    let gate = Coroutine::Channel<Int>()
    Coroutine(on: .eventLoop(loop)) { try hold(items) { _ = try gate.receive() } }
    let reader = Coroutine(on: .eventLoop(loop)) {
      _ = try server.read()
      items.value = []
    }
    try wait { gate.waitingReceiverCount == 1 }
    try client.write(text("go on"))
    try reader.get()
  },

  "leaving": {
    let loop = group.next()
    let items = try loop.submit { NIOLoopBoundBox([3, 1, 2], eventLoop: loop) }.get()
    try Coroutine(on: .eventLoop(loop)) { try hold(items) { on(.pool) {} } }.get()
  },
]

private func hold(_ items: NIOLoopBoundBox<[Int]>, _ body: () throws -> Void) throws {
  @inline(never)
  func hold(_ value: inout Int, _ body: () throws -> Void) throws {
    try body()
    value += 1
  }
  try hold(&items.value[1], body)
}

/// Whether such a program ends by a trap with that message, in a process of its own.
private func expectTrap(in name: String, _ message: String) throws {
  let (status, text) = try blocking {
    var ends: [CInt] = [0, 0]
    var process: pid_t = 0
    var arguments: [UnsafeMutablePointer<CChar>?] = []
    for argument in ["Checks", "overlap", name] { arguments.append(strdup(argument)) }
    arguments.append(nil)
    var environment: [UnsafeMutablePointer<CChar>?] = [nil]
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer {
      for argument in arguments { free(argument) }
      posix_spawn_file_actions_destroy(&actions)
    }
    guard pipe(&ends) == 0, posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO) == 0,
      posix_spawn(&process, "/proc/self/exe", &actions, nil, &arguments, &environment) == 0
    else { throw Failure() }
    close(ends[1])
    var bytes: [UInt8] = []
    var part = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = read(ends[0], &part, part.count)
      guard count > 0 else { break }
      bytes += part[..<count]
    }
    close(ends[0])
    var status: CInt = 0
    while waitpid(process, &status, 0) == -1 {}
    return (status, String(decoding: bytes, as: UTF8.self))
  }
  try expect("ended by a signal, but by \(status): \(text)", status & 0x7f != 0 && text.contains(message))
}
