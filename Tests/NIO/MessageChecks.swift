import Coroutine
import NIOCore
import NIOPosix
import Synchronization

@testable import CoroutineNIO

private let alive = Atomic<Int>(0)

private final class Counted: Sendable {
  let number: Int

  init(_ number: Int) {
    self.number = number
    alive.add(1, ordering: .relaxed)
  }

  deinit { alive.subtract(1, ordering: .relaxed) }
}

/// Has room in a message.
private struct Small: Sendable {
  let counted: Counted
}

/// Has none.
private struct Large: Sendable {
  var words: (Int, Int, Int, Int, Int, Int, Int, Int) = (0, 0, 0, 0, 0, 0, 0, 0)
  let counted: Counted
}

/// Has none either, for its alignment.
private struct Aligned: Sendable {
  var vector: SIMD4<Double> = [1, 2, 3, 4]
  let counted: Counted
}

/// Makes a message of each byte that is read.
private final class Maker<Message: Sendable>: ChannelInboundHandler, Sendable {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = Message
  let make: @Sendable (Counted) -> Message

  init(_ make: @escaping @Sendable (Counted) -> Message) { self.make = make }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    for byte in unwrapInboundIn(data).readableBytesView {
      context.fireChannelRead(wrapInboundOut(make(Counted(Int(byte)))))
    }
  }
}

/// A client, and the other end of its connection, which reads such messages.
private func makePair<Message: Sendable>(
  on group: any EventLoopGroup, _ make: @escaping @Sendable (Counted) -> Message
) throws -> (client: Bytes, server: NIOConnection<Message, ByteBuffer>) {
  let listener = try NIOListener(ServerBootstrap(group: group), host: "127.0.0.1", port: 0) { channel in
    try channel.pipeline.syncOperations.addHandler(Maker(make))
    return try NIOConnection<Message, ByteBuffer>(wrapping: channel)
  }
  guard let address = listener.localAddress else { throw Unexpected(description: "no address") }
  let client = try ClientBootstrap(group: group).connect(to: address) { try Bytes(wrapping: $0) }
  return (client, try listener.accept())
}

let messageChecks = [
  Check("aMessageGivesItsValueOnceAndTakesAnotherOfAnyType") {
    let message = ErasedMessage()
    for number in 0..<3 {
      message.fill(Small(counted: Counted(number)))
      try expect("small", message.take(as: Small.self).counted.number, number)
      message.fill(Large(counted: Counted(number)))
      try expect("large", message.take(as: Large.self).counted.number, number)
      message.fill(Aligned(counted: Counted(number)))
      let aligned = message.take(as: Aligned.self)
      try expect("aligned", aligned.counted.number, number)
      try expect("vector", aligned.vector, [1, 2, 3, 4])
      message.fill(())
      message.take(as: Void.self)
    }
    try expect("alive", alive.load(ordering: .relaxed), 0)
  },

  Check("aMessageThatNoReaderTakesReleasesItsValue") {
    _ = ErasedMessage(Small(counted: Counted(1)))
    _ = ErasedMessage(Large(counted: Counted(2)))
    _ = ErasedMessage(Aligned(counted: Counted(3)))
    _ = ErasedMessage(Counted(4) as any Sendable)
    try expect("alive", alive.load(ordering: .relaxed), 0)

    func readTheFirstOfThree() throws {
      let (client, server) = try makePair(on: group) { Large(counted: $0) }
      try client.writeAndFlush(text("abc"))
      try expect("first", try server.read()?.counted.number, 97)
      try wait { alive.load(ordering: .relaxed) == 2 }
    }
    try readTheFirstOfThree()
    try wait { alive.load(ordering: .relaxed) == 0 }
  },

  Check("emptyMessagesAreSharedByTheConnectionsOfALoop") {
    let one = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    try Coroutine(on: .eventLoop(one.next())) {
      let (first, small) = try makePair(on: one) { Small(counted: $0) }
      let (second, large) = try makePair(on: one) { Large(counted: $0) }
      for _ in 0..<100 {
        try first.write(text("abcde"))
        try second.write(text("fghij"))
        for number in 97...101 { try expect("of one", try small.read()?.counted.number, number) }
        for number in 102...106 { try expect("of the other", try large.read()?.counted.number, number) }
      }
      try expect("some are empty now", EventLoopScheduler.of(one.next()).emptyMessages.count > 0)
      // A reader of another scheduler takes what the loop has filled, and a case of a select does.
      try first.write(text("ab"))
      try expect("elsewhere", try on(.pool) { try small.read()?.counted.number }, 97)
      try expect("selected", try select { small.onRead { $0?.counted.number ?? 0 } }, 98)
      for connection in [first, second] { connection.close() }
    }.get()
    one.shutdownGracefully { _ in }
    try wait { alive.load(ordering: .relaxed) == 0 }
  },
]
