import Coroutine
import Glibc
import NIOCore
import NIOPosix

@testable import CoroutineNIO

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

/// Programs with a process of their own: each but the last ends it by a trap.
let programs: [String: @Sendable () throws -> Void] = [
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

  // NIO tells of what a loop that is shut down is asked for, on the standard error.
  "survivors": {
    func makeSurvivors() throws -> (NIOListener<ByteBuffer, ByteBuffer>, Bytes) {
      let own = MultiThreadedEventLoopGroup(numberOfThreads: 1)
      let bootstrap = ServerBootstrap(group: own)
        .childChannelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: 1))
      let listener = try NIOListener(bootstrap, host: "127.0.0.1", port: 0) {
        try Bytes(wrapping: $0)
      }
      let client = try connect(listener)
      let server = try listener.accept()
      // More than it reads ahead: it does not ask for more, and goes on where this is read.
      try client.writeAndFlush(text(String(repeating: "x", count: 1000)))
      while server.storage.handler.elements.count < 10 { try Coroutine.sleep(for: .milliseconds(1)) }
      try blocking { try own.syncShutdownGracefully() }
      return (listener, server)
    }
    let (listener, server) = try makeSurvivors()
    try expect("what was read before the end", try server.countToEnd() >= 10)
    listener.close()
  },

  "shortage": {
    let (told, refused) = (Log(), Log())
    CoroutineErrors.unhandled = { error, _ in told.add("\(type(of: error))") }
    let bootstrap = ServerBootstrap(group: group).serverChannelInitializer { channel in
      channel.eventLoop.makeCompletedFuture {
        try channel.pipeline.syncOperations.addHandler(ErrorCounter(log: refused))
      }
    }
    let listener = try NIOListener(bootstrap, host: "127.0.0.1", port: 0) { try Bytes(wrapping: $0) }
    // The client's descriptor is the last one.
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    limit.rlim_cur = min(limit.rlim_cur, 256)
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    var taken: [CInt] = []
    while case let number = open("/dev/null", O_RDONLY), number >= 0 { taken.append(number) }
    if let last = taken.popLast() { close(last) }
    let client = try connect(listener)
    let server = Coroutine { try listener.accept() }
    try wait { refused.all.count >= 3 }
    try expect("told once", told.all, ["AcceptSuspended"])
    for number in taken { close(number) }
    let accepted = try server.get()
    // Ten times a second, and not as often as the loop turns.
    try expect("refused again and again", refused.all.count < 100)
    try client.write(text("a"))
    try expect("what was read", try accepted.readText(1), "a")
  },
]

private final class ErrorCounter: ChannelInboundHandler, Sendable {
  typealias InboundIn = Any
  let log: Log
  init(log: Log) { self.log = log }
  func errorCaught(context: ChannelHandlerContext, error: any Error) { log.add("\(error)") }
}

private func hold(_ items: NIOLoopBoundBox<[Int]>, _ body: () throws -> Void) throws {
  @inline(never)
  func hold(_ value: inout Int, _ body: () throws -> Void) throws {
    try body()
    value += 1
  }
  try hold(&items.value[1], body)
}

/// Whether such a program ends by a trap with that message.
private func expectTrap(in name: String, _ message: String) throws {
  let (status, text) = try run(name)
  try expect("ended by a signal, but by \(status): \(text)", status & 0x7f != 0 && text.contains(message))
}

/// Runs a program in a process of its own. Its status, and what it has said on the standard error.
func run(_ name: String) throws -> (status: CInt, text: String) {
  try blocking {
    var ends: [CInt] = [0, 0]
    var process: pid_t = 0
    var arguments: [UnsafeMutablePointer<CChar>?] = []
    for argument in ["Checks", "program", name] { arguments.append(strdup(argument)) }
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
}
