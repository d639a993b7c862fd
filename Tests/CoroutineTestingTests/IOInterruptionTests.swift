import Coroutine
import CoroutineIO
import CoroutineTestSupport
import CoroutineTesting
import Glibc
import Synchronization
import Testing

/// A table of the waits for descriptors, children and files that `IOCancellationTests` does not have. Each is interrupted at
/// each moment: no byte and no connection is lost or there twice, and nothing is left. (A signal is a channel's element.)
@Suite(.ownThreads) struct IOInterruptionTests {
  @Test(arguments: operations, [IOCancellationTests.Ending.cancel, .outerTimeout])
  fileprivate func nothingIsLostOrLeft(_ row: Row, ending: IOCancellationTests.Ending) throws {
    let moments = 0..<row.steps + 1
    let seeds = 0..<amount(row.seeds, sanitized: min(row.seeds, 5))
    try IOCancellationTests.explore(ending, moments: moments, seeds: seeds, ends: row.ends) { run, moment in
      let trial = try row.make()
      let operation = trial.operation
      let victim = run.launch { _ in try operation() }
      for number in 0..<row.steps {
        try run.step(number, moment: moment)
        try trial.step(number)
      }
      try run.step(row.steps, moment: moment)
      run.trigger.close()
      try trial.afterwards(try wasDone(victim))
    }
  }
}

/// One run of an operation: made anew for each.
private struct Steps {
  let operation: @Sendable () throws -> Void
  /// What the body does in each step.
  let step: (_ number: Int) throws -> Void
  let afterwards: (_ isDone: Bool) throws -> Void

  init(
    _ operation: @escaping @Sendable () throws -> Void, step: @escaping (_ number: Int) throws -> Void = { _ in },
    afterwards: @escaping (_ isDone: Bool) throws -> Void
  ) {
    self.operation = operation
    self.step = step
    self.afterwards = afterwards
  }
}

private struct Row: Sendable, CustomTestStringConvertible {
  let name: String
  let steps: Int
  let seeds: Int
  let ends: Set<VictimEnd>
  let make: @Sendable () throws -> Steps

  var testDescription: String { name }

  /// - Parameters:
  ///   - steps: the victim is interrupted in each of them.
  ///   - seeds: schedules for each.
  init(
    _ name: String, steps: Int = 2, seeds: Int = 20, ends: Set<VictimEnd> = [.done, .interrupted],
    _ make: @escaping @Sendable () throws -> Steps
  ) {
    self.name = name
    self.steps = steps
    self.seeds = seeds
    self.ends = ends
    self.make = make
  }
}

/// What a pipe takes before a writer waits.
private func fill(_ writer: PipeWriter) throws -> Int {
  do { try writer.write([UInt8](repeating: 1, count: 1 << 20), timeout: .zero) } catch is PartialWrite {}
  return Int(writer.bytesWritten)
}

private let bytes = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 9) }

private let operations: [Row] = [
  .init("readToEnd", steps: 3) {
    let (reader, writer) = try makePipe()
    let got = Log<UInt8>()
    return Steps {
      for byte in try reader.readToEnd(limit: 100) { got.add(byte) }
    } step: { number in
      if number < 2 { try writer.write([UInt8(number)]) } else { writer.close() }
    } afterwards: { isDone in
      // What has come is what the next read begins with.
      try require(got.all == (isDone ? [0, 1] : []))
      while let more = try reader.read() { for byte in more { got.add(byte) } }
      try require(got.all == [0, 1])
    }
  },
  .init("lines", steps: 3) {
    let (reader, writer) = try makePipe()
    let got = Log<String>()
    return Steps {
      let lines = reader.lines()
      while let line = try lines.next() { got.add(line) }
    } step: { number in
      if number < 2 { try writer.write(["a\nb", "\nc\n"][number]) } else { writer.close() }
    } afterwards: { isDone in
      try require(!isDone || got.all == ["a", "b", "c"])
      while let line = try reader.readLine() { got.add(line) }
      try require(got.all == ["a", "b", "c"])
    }
  },
  .init("a write of pieces", steps: 3, seeds: 10) {
    let (reader, writer) = try makePipe()
    let received = Log<[UInt8]>()
    return Steps {
      try writer.write(contentsOf: [Array(bytes[..<70_000]), Array(bytes[70_000..<70_001]), Array(bytes[70_001...])])
    } step: { _ in
      if let some = try? reader.read(upTo: 80_000, timeout: .milliseconds(1)) { received.add(some) }
    } afterwards: { isDone in
      let ender = Coroutine { writer.close() }
      while let some = try reader.read(upTo: 100_000) { received.add(some) }
      try ender.get()
      let all = received.all.flatMap { $0 }
      try require(all.count == Int(writer.bytesWritten) && all == Array(bytes.prefix(all.count)))
      try require(!isDone || all.count == bytes.count)
    }
  },
  .init("a copy", seeds: 10) {
    let ((source, toSource), (fromTarget, target)) = (try makePipe(), try makePipe())
    let received = Log<[UInt8]>()
    return Steps {
      try source.copy(to: target)
    } step: { number in
      if number == 0 {
        try toSource.write(Array(bytes[..<60_000]))
        if let some = try? fromTarget.read(upTo: 50_000, timeout: .milliseconds(1)) { received.add(some) }
      } else {
        toSource.close()
      }
    } afterwards: { isDone in
      // What the copy has not passed on is still there.
      let rest = Coroutine {
        let count = try source.copy(to: target)
        target.close()
        return count
      }
      while let some = try fromTarget.read(upTo: 100_000) { received.add(some) }
      let count = try rest.get()
      try require(!isDone || count == 0)
      try require(received.all.flatMap { $0 } == Array(bytes[..<60_000]))
    }
  },
  .init("a wait until a descriptor is writable") {
    let (reader, writer) = try makePipe()
    let written = try fill(writer)
    return Steps {
      try writer.descriptor.waitUntilWritable()
    } step: { number in
      if number == 0 { try require(try reader.read(upTo: written)?.isEmpty == false) }
    } afterwards: { _ in
      writer.close()
      _ = try reader.readToEnd(limit: written)
    }
  },
  .init("a select that writes") {
    let (reader, writer) = try makePipe()
    let written = try fill(writer)
    let chosen = Log<String>()
    let channel = Channel<Int>(capacity: .buffered(1))
    return Steps {
      try select {
        writer.descriptor.onWritable { chosen.add("writable") }
        channel.onReceive { _ in chosen.add("received") }
      }
    } step: { number in
      guard number == 0 else { return }
      _ = channel.trySend(1)
      try require(try reader.read(upTo: written)?.isEmpty == false)
    } afterwards: { isDone in
      try require(chosen.all.count == (isDone ? 1 : 0))
      try require((channel.tryReceive() == .received(1)) == (chosen.all != ["received"]))
    }
  },
  // What is sent to a socket of this machine does not wait: it is sent, or cancelled before.
  .init("a datagram's send", ends: [.done]) {
    let (receiver, sender) = (try UDPSocket(), try UDPSocket())
    let address = try receiver.localAddress
    return Steps {
      try sender.send([7], to: address)
    } afterwards: { isDone in
      let datagram = try? receiver.receive(timeout: .milliseconds(1))
      try require(datagram == nil ? !isDone : datagram?.bytes == [7])
    }
  },
  .init("a Unix connection's accept", steps: 2) {
    let listener = try UnixListener(at: .unix(abstractName: "interrupted-\(getpid())-\(nextNumber())"))
    let accepted = Log<UnixConnection>()
    let clients = Log<UnixConnection>()
    return Steps {
      accepted.add(try listener.accept(timeout: nil))
    } step: { number in
      if number == 0 { clients.add(try UnixConnection(to: listener.address)) }
    } afterwards: { isDone in
      try require(accepted.all.count == (isDone ? 1 : 0))
      if !isDone { accepted.add(try listener.accept(timeout: nil)) }
      try clients.all[0].write("hello")
      try require(try accepted.all[0].read() == Array("hello".utf8))
    }
  },
  .init("a Unix connection's connect", ends: [.done]) {
    let listener = try UnixListener(at: .unix(abstractName: "interrupted-\(getpid())-\(nextNumber())"))
    let made = Log<UnixConnection>()
    return Steps {
      made.add(try UnixConnection(to: listener.address))
    } afterwards: { isDone in
      try require(made.all.count == (isDone ? 1 : 0))
      // One that was given up is closed.
      while let connection = try? listener.accept(timeout: .milliseconds(1)) {
        if isDone {
          try made.all[0].write("made")
          try require(try connection.read() == Array("made".utf8))
        } else {
          try require(try connection.read() == nil)
        }
      }
    }
  },
  .init("a program that does not end by itself", seeds: 5, ends: [.interrupted]) {
    Steps {
      _ = try ChildProcess.run("/bin/sleep", ["1000"])
    } afterwards: { isDone in
      try require(!isDone)
    }
  },
  .init("a child that is asked to end, and does not listen", seeds: 5, ends: [.interrupted]) {
    let child = try ChildProcess(
      "/bin/sh", ["-c", "trap '' TERM; echo ready; exec sleep 1000"], input: .null, error: .null)
    try require(try child.standardOutput.readLine() == "ready")
    return Steps {
      _ = try child.terminate(grace: .seconds(1_000_000))
    } afterwards: { _ in
      try require(try child.wait() == .signalled(SIGKILL))
    }
  },
  // Other processes are as late as they are: these two may be done before each interruption, or after.
  .init("a program that runs", seeds: 5, ends: []) {
    let (reader, writer) = try makePipe()
    return Steps {
      let run = try ChildProcess.run("/bin/sh", ["-c", "read line; echo $line"], input: Array("word\n".utf8))
      try require(run.end == .exited(0) && run.output == Array("word\n".utf8))
    } afterwards: { _ in
      writer.close()
      try require(try reader.read() == nil)
    }
  },
  .init("a child that is asked to end", seeds: 5, ends: []) {
    let child = try ChildProcess("/bin/cat", output: .null)
    return Steps {
      _ = try child.terminate(grace: .seconds(1000))
    } afterwards: { _ in
      // Killed by a cancel, and otherwise by the signal.
      let end = try child.wait()
      try require(end == .signalled(SIGTERM) || end == .signalled(SIGKILL))
    }
  },
  .init("a file's bytes", ends: []) {
    let path = "/tmp/coroutine-interrupted-\(getpid())-\(nextNumber())"
    let file = try File(opening: path, for: .readingAndWriting, creating: .ifMissing)
    return Steps {
      try file.write([1, 2, 3], at: 0)
      try require(try file.read(upTo: 10, at: 0) == [1, 2, 3])
    } afterwards: { isDone in
      let content = try File.contents(of: path)
      try require(content == [1, 2, 3] || !isDone && content.isEmpty)
      file.close()
      unlink(path)
    }
  },
  .init("a folder's entries", ends: []) {
    let got = Unlocked(0)
    return Steps {
      let entries = Folder.entries(of: "/proc/self/task")
      while try entries.next() != nil { got.value += 1 }
    } afterwards: { isDone in
      try require(got.value > 0 || !isDone)
    }
  },
  .init("a name's addresses", seeds: 5, ends: []) {
    let listener = try TCPListener()
    let made = Log<TCPConnection>()
    return Steps {
      made.add(try TCPConnection(to: "localhost", port: listener.address.port!))
    } afterwards: { isDone in
      try require(made.all.count == (isDone ? 1 : 0))
      guard isDone else { return }
      try made.all[0].write("made")
      while let connection = try? listener.accept(timeout: .milliseconds(1)) {
        if connection.remoteAddress == (try made.all[0].localAddress) {
          try require(try connection.read() == Array("made".utf8))
        }
      }
    }
  },
]

private func nextNumber() -> Int { numbers.wrappingAdd(1, ordering: .relaxed).newValue }
private let numbers = Atomic(0)
