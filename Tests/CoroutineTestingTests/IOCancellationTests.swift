import Coroutine
import CoroutineIO
import CoroutineTestSupport
import CoroutineTesting
import Glibc
import Testing

/// Each wait for a descriptor is cancelled, or times out, at each possible moment. No byte, datagram or connection is
/// lost or there twice.
///
/// The kernel's events come when no coroutine can go on, or a moment earlier from the poller's thread. So that a cancel
/// can come at the same moment as the event that the victim waits for, the canceller waits for an event as well.
@Suite(.ownThreads) struct IOCancellationTests {
  /// What ends the victim's operation.
  enum Ending: CaseIterable, Sendable {
    case cancel
    /// The operation is given a timeout of its own.
    case timeout
    /// It is inside of `withTimeout`.
    case outerTimeout
  }

  /// One run: what launches the victim, and what ends it.
  struct Run: Sendable {
    /// Makes the canceller's event.
    let trigger: PipeWriter
    let launch: @Sendable (_ operation: @escaping @Sendable (_ timeout: Duration?) throws -> Void) -> Victim

    /// Time passes, and whatever can go on does. The canceller is one of them in the step `moment`.
    func step(_ number: Int, moment: Int) throws {
      if number == moment { try trigger.write([0]) }
      try Coroutine.sleep(for: .milliseconds(300))
    }
  }

  /// Runs the body by many schedules, with the end at each moment of its steps. By one of them at least the victim has to
  /// end in each of the ways that are named.
  static func explore(
    _ ending: Ending, moments: Range<Int>, seeds: Range<Int> = 0..<amount(40, sanitized: 10),
    ends: Set<VictimEnd> = [.done, .interrupted], sourceLocation: SourceLocation = #_sourceLocation,
    _ body: @escaping (Run, _ moment: Int) throws -> Void
  ) throws {
    let options = ExplorationOptions(time: ending == .cancel ? .whenIdle : .anytime)
    let ended = Unlocked<[VictimEnd: Int]>([:])
    for moment in moments {
      try CoroutineTesting.explore(seeds: seeds, options: options) {
        let (signal, trigger) = try makePipe()
        let run = Run(trigger: trigger) { operation in
          let isWaiting = Unlocked(ending != .cancel)
          let victim = Victim(name: "victim") {
            do {
              switch ending {
              case .cancel: try operation(nil)
              case .timeout: try operation(.seconds(1))
              case .outerTimeout: try withTimeout(.seconds(1)) { try operation(nil) }
              }
              ended.value[.done, default: 0] += 1
              return true
            } catch is CancellationError {
            } catch is TimeoutError {
            } catch let error as PartialWrite where error.cause is TimeoutError {}
            if isWaiting.value { ended.value[.interrupted, default: 0] += 1 }
            return false
          }
          if ending == .cancel {
            Coroutine(name: "canceller") {
              guard try signal.read() != nil else { return }
              isWaiting.value = victim.state == .suspended
              victim.cancel()
            }
          }
          return victim
        }
        try body(run, moment)
      }
    }
    guard !isSanitized else { return }
    for end in ends { #expect(ended.value[end] != nil, "\(end)", sourceLocation: sourceLocation) }
  }

  // MARK: Streams

  /// A way to read, and the bytes that its caller has got.
  enum Reading: CaseIterable, Sendable {
    case some, exactly, line, part, intoBuffer

    func read(_ stream: some ReadableByteStream, _ timeout: Duration?) throws -> [UInt8]? {
      switch self {
      case .some: return try stream.read(upTo: 3, timeout: timeout)
      case .exactly: return try stream.readExactly(4, timeout: timeout)
      case .line: return try stream.readLine(timeout: timeout).map { Array("\($0)\n".utf8) }
      case .part: return try stream.read(until: "f\ng".utf8, strippingDelimiter: false, timeout: timeout)
      case .intoBuffer:
        return try withUnsafeTemporaryAllocation(byteCount: 3, alignment: 1) { buffer in
          let count = try stream.read(into: buffer, timeout: timeout)
          return count > 0 ? Array(buffer[..<count]) : nil
        }
      }
    }
  }

  @Test(arguments: Ending.allCases, Reading.allCases)
  func theBytesThatAReaderHasNotGotStay(ending: Ending, reading: Reading) throws {
    // Twelve bytes: three times four, and three lines, but none of the pieces that are sent.
    let pieces = ["abc", "\ndef\ng", "hi", "\n"].map { Array($0.utf8) }
    // The end of the stream comes after the last moment.
    let ends: Set<VictimEnd> = reading == .part && ending == .cancel ? [.interrupted] : [.done, .interrupted]
    try Self.explore(ending, moments: 0..<5, ends: ends) { run, moment in
      let (reader, writer) = try UnixConnection.pair()
      let got = Log<[UInt8]>()
      let victim = run.launch { timeout in
        for _ in 0..<3 {
          guard let bytes = try reading.read(reader, timeout) else { return }
          got.add(bytes)
        }
      }
      for (number, piece) in pieces.enumerated() {
        try run.step(number, moment: moment)
        try writer.write(piece)
      }
      try run.step(pieces.count, moment: moment)
      writer.close()
      run.trigger.close()
      _ = try wasDone(victim)
      var all = got.all.flatMap { $0 }
      while let bytes = try reader.read() { all += bytes }
      try require(all == pieces.flatMap { $0 })
    }
  }

  @Test(arguments: Ending.allCases) func whatAWriterHasCountedArrives(ending: Ending) throws {
    // More than a socket takes at once: the writer waits for the reader several times.
    let bytes = (0..<600_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 9) }
    try Self.explore(ending, moments: 0..<4, seeds: 0..<10) { run, moment in
      let (reader, writer) = try UnixConnection.pair()
      let victim = run.launch { timeout in try writer.write(bytes, timeout: timeout) }
      var received: [UInt8] = []
      for number in 0..<4 {
        try run.step(number, moment: moment)
        // A victim that was cancelled before it began writes nothing.
        if let some = try? reader.read(upTo: 200_000, timeout: .milliseconds(1)) { received += some }
      }
      run.trigger.close()
      let ender = Coroutine {
        let isDone = try wasDone(victim)
        try writer.finishWriting()
        return isDone
      }
      while let some = try reader.read(upTo: 200_000) { received += some }
      let isDone = try ender.get()
      try require(received.count == Int(writer.bytesWritten))
      try require(received.count <= bytes.count && memcmp(received, bytes, received.count) == 0)
      try require(!isDone || received.count == bytes.count)
    }
  }

  // MARK: Connections

  @Test(arguments: Ending.allCases) func aConnectionIsAcceptedOnceOrStays(ending: Ending) throws {
    try Self.explore(ending, moments: 0..<3) { run, moment in
      let listener = try TCPListener()
      let accepted = Log<TCPConnection>()
      let victim = run.launch { timeout in
        for _ in 0..<2 { accepted.add(try listener.accept(timeout: timeout)) }
      }
      var clients: [TCPConnection] = []
      for number in 0..<2 {
        try run.step(number, moment: moment)
        clients.append(try TCPConnection(to: listener.address))
      }
      try run.step(2, moment: moment)
      run.trigger.close()
      let isDone = try wasDone(victim)
      try require(!isDone || accepted.all.count == 2)
      while accepted.all.count < 2 { accepted.add(try listener.accept()) }
      // Each client has one of them.
      for client in clients { try client.write([UInt8(client.localAddress.port! & 0xff)]) }
      for connection in accepted.all {
        try require(try connection.read() == [UInt8(connection.remoteAddress.port! & 0xff)])
      }
    }
  }

  @Test(arguments: Ending.allCases) func aConnectIsDoneOrLeavesNoConnection(ending: Ending) throws {
    // On one machine it is done before it waits.
    try Self.explore(ending, moments: 0..<2, ends: [.done]) { run, moment in
      let listener = try TCPListener()
      let made = Log<TCPConnection>()
      let victim = run.launch { timeout in made.add(try TCPConnection(to: listener.address, timeout: timeout)) }
      try run.step(0, moment: moment)
      try run.step(1, moment: moment)
      run.trigger.close()
      let isDone = try wasDone(victim)
      try require(made.all.count == (isDone ? 1 : 0))
      // The last of those that the listener gets; another one that came before it is closed.
      let last = try TCPConnection(to: listener.address)
      try last.write("last")
      while true {
        let connection = try listener.accept()
        if connection.remoteAddress == (try last.localAddress) {
          try require(try connection.read() == Array("last".utf8))
          break
        }
        if isDone {
          try made.all[0].write("made")
          try require(try connection.read() == Array("made".utf8))
        } else {
          try require(try connection.read() == nil)
        }
      }
    }
  }

  @Test(arguments: Ending.allCases) func aDatagramIsReceivedOnceOrStays(ending: Ending) throws {
    try Self.explore(ending, moments: 0..<3) { run, moment in
      let (receiver, sender) = (try UDPSocket(), try UDPSocket())
      let address = try receiver.localAddress
      let got = Log<UInt8>()
      let victim = run.launch { timeout in
        for _ in 0..<2 { got.add(try receiver.receive(timeout: timeout).bytes[0]) }
      }
      for number in 0..<2 {
        try run.step(number, moment: moment)
        try sender.send([UInt8(number)], to: address)
      }
      try run.step(2, moment: moment)
      run.trigger.close()
      let isDone = try wasDone(victim)
      try require(!isDone || got.all.count == 2)
      while got.all.count < 2 { got.add(try receiver.receive().bytes[0]) }
      try require(got.all == [0, 1])
    }
  }

  // MARK: Readiness

  @Test(arguments: [Ending.cancel, .outerTimeout]) func aSelectThatEndsTakesNothing(ending: Ending) throws {
    try Self.explore(ending, moments: 0..<2) { run, moment in
      let (reader, writer) = try makePipe()
      let channel = Channel<Int>(capacity: .buffered(1))
      let chosen = Log<String>()
      let victim = run.launch { _ in
        try select {
          reader.descriptor.onReadable { chosen.add("readable") }
          channel.onReceive { chosen.add("\($0)") }
        }
      }
      try run.step(0, moment: moment)
      Coroutine { try writer.write([7]) }
      try channel.send(1)
      try run.step(1, moment: moment)
      run.trigger.close()
      let isDone = try wasDone(victim)
      try require(chosen.all.count == (isDone ? 1 : 0))
      try require((channel.tryReceive() == .received(1)) == (chosen.all != ["1"]))
      try require(try reader.read() == [7])
    }
  }

  @Test(arguments: Ending.allCases) func aDescriptorThatIsClosedEndsTheWait(ending: Ending) throws {
    try Self.explore(ending, moments: 0..<2) { run, moment in
      let (reader, writer) = try makePipe()
      let ended = Log<String>()
      let victim = run.launch { timeout in
        do { try reader.descriptor.waitUntilReadable(timeout: timeout) } catch is DescriptorClosed {
          ended.add("closed")
        }
      }
      try run.step(0, moment: moment)
      Coroutine { reader.close() }
      try run.step(1, moment: moment)
      run.trigger.close()
      let isDone = try wasDone(victim)
      try require(ended.all.count == (isDone ? 1 : 0))
      writer.close()
    }
  }

  // MARK: Serving, processes

  @Test func aServerThatIsCancelledServesWhomItAccepted() throws {
    try Self.explore(.cancel, moments: 0..<4, ends: [.interrupted]) { run, moment in
      let listener = try TCPListener()
      let served = Unlocked(0)
      let victim = run.launch { _ in
        try listener.serve(grace: .seconds(100)) { connection in
          guard let bytes = try connection.read() else { return }
          try connection.write(bytes)
          served.value += 1
        }
      }
      var answers = 0
      for number in 0..<3 {
        try run.step(number, moment: moment)
        let client = try TCPConnection(to: listener.address)
        try client.write([UInt8(number)])
        // One that the server did not accept any more waits in the listener's queue.
        if let answer = try? client.read(timeout: .seconds(1)) {
          try require(answer == [UInt8(number)])
          answers += 1
        }
      }
      try run.step(3, moment: moment)
      run.trigger.close()
      try require(try !wasDone(victim))
      // An answer may come when its client has given up: the poller's thread is outside of the run's time.
      try require(answers <= served.value)
    }
  }

  /// A timeout leaves the child alone, a cancel kills it. Its end is there for another waiter in each case.
  @Test(arguments: Ending.allCases) func aChildsEndStaysForAnother(ending: Ending) throws {
    // Another process is as late as it is.
    try Self.explore(ending, moments: 0..<2, ends: ending == .cancel ? [.interrupted] : []) { run, moment in
      let child = try ChildProcess("/bin/cat", output: .null)
      let victim = run.launch { timeout in _ = try child.wait(timeout: timeout) }
      try run.step(0, moment: moment)
      child.standardInput.close()
      try run.step(1, moment: moment)
      run.trigger.close()
      let wasAlone = try wasDone(victim) || ending == .timeout
      let end = try child.wait()
      try require(end == .exited(0) || !wasAlone && end == .signalled(9))
    }
  }
}
