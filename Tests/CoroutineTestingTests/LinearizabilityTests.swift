import Coroutine
import CoroutineIO
import CoroutineTestSupport
import CoroutineTesting
import Glibc
import Testing

/// Random programs of operations, each run by many schedules. Some order of the operations must explain what they
/// return, and, when none can go on, that those wait which have not returned.
@Suite(.ownThreads) struct LinearizabilityTests {
  private static let programs = 0..<10
  private static let schedules = 0..<amount(60, sanitized: 10)

  /// Runs a list of operations in each of several coroutines, of which one may be cancelled. Coroutines that would
  /// wait for ever are cancelled in the end.
  private func run<Specification: SequentialSpecification>(
    _ seed: Int, of specification: Specification, operations: Int = 3,
    _ makeOperation: @escaping @Sendable (inout ProgramRandom) -> Specification.Operation,
    body:
      @escaping () throws -> (
        perform: @Sendable (Specification.Operation) -> Specification.Outcome?,
        final: () -> [(Specification.Operation, Specification.Outcome)]
      )
  ) throws {
    try explore(seeds: Self.schedules, options: ExplorationOptions { $0 is SettledTwice }) {
      var random = ProgramRandom(seed)
      let (perform, final) = try body()
      let history = History<Specification>()
      let workers = (0..<3).map { _ in
        let program = random.list(of: operations, makeOperation)
        return Coroutine {
          for operation in program where !Coroutine.isCancelled { history.note(operation) { perform(operation) } }
        }
      }
      if random.below(2) == 0 { workers[random.below(3)].cancel() }
      // When no coroutine can go on any more.
      try Coroutine.sleep(for: .seconds(1))
      try history.checkRest(from: specification) {
        // In real time, which the poller's thread takes.
        usleep(10_000)
        try Coroutine.sleep(for: .seconds(1))
      }
      for worker in workers { worker.cancel() }
      for worker in workers { try? worker.join() }
      for (operation, outcome) in final() { history.note(operation) { outcome } }
      try history.check(from: specification)
    }
  }

  @Test(arguments: programs, [0, 1, 2])
  func aChannelIsAQueue(program: Int, capacity: Int) throws {
    try run(program, of: QueueModel(capacity: capacity)) { random in
      let value = random.below(1000)
      switch random.below(20) {
      case 0: return .close
      case 1...2: return .trySend(value)
      case 3...4: return .tryReceive
      case 5...11: return .send(value)
      default: return .receive
      }
    } body: {
      let channel = Channel<Int>(capacity: .buffered(capacity))
      return ({ channel.perform($0) }, { channel.drain() })
    }
  }

  @Test(arguments: programs) func aPromiseIsSettledOnce(program: Int) throws {
    try run(program, of: PromiseModel()) { random in
      switch random.below(6) {
      case 0...1: .fulfill(random.below(1000))
      case 2: .reject
      default: .get
      }
    } body: {
      let (promise, resolver) = Promise<Int>.makePromise()
      return (
        { operation in
          switch operation {
          case .fulfill(let value): return .wasFirst(resolver.fulfill(value))
          case .reject: return .wasFirst(resolver.reject(LostUpdate()))
          case .get:
            do { return .value(try promise.get()) } catch is CancellationError { return .cancelled } catch {
              return .rejected
            }
          }
        }, { [] }
      )
    }
  }

  @Test(arguments: programs) func aMutexKeepsOthersOut(program: Int) throws {
    try run(program, of: CounterModel()) { random in
      random.below(100)
    } body: {
      let total = CoroutineMutex(0)
      return (
        { number in
          try? total.withLock { value in
            let before = value
            schedulingPoint()
            value = before + number
            return before
          }
        }, { [(0, (try? total.withLock { $0 }) ?? -1)] }
      )
    }
  }

  @Test(arguments: programs) func anActorAnswersOneAfterAnother(program: Int) throws {
    try run(program, of: CounterModel()) { random in
      random.below(100)
    } body: {
      let actor = MessageActor<Add>(name: "sum") { mailbox in
        var total = 0
        for message in mailbox {
          schedulingPoint()
          message.reply.complete(total)
          total += message.number
        }
      }
      return (
        { number in
          do { return try actor.ask { Add(number: number, reply: $0) } } catch { return nil }
        },
        {
          [(0, (try? actor.ask { Add(number: 0, reply: $0) }) ?? -1)]
        }
      )
    }
  }

  @Test(arguments: programs) func aSemaphoreCountsItsPermits(program: Int) throws {
    try run(program, of: SemaphoreModel(permits: 1)) { random in
      [.acquire, .acquire, .release, .tryAcquire][random.below(4)]
    } body: {
      let semaphore = Semaphore(permits: 1)
      return (
        { operation in
          switch operation {
          case .acquire: return (try? semaphore.acquire()) != nil
          case .tryAcquire: return semaphore.tryAcquire()
          case .release:
            semaphore.release()
            return true
          }
        }, { [] }
      )
    }
  }

  @Test(arguments: programs) func aSelectDoesOneOfItsOperations(program: Int) throws {
    try run(program, of: TwoQueuesModel(first: QueueModel(capacity: 1), second: QueueModel(capacity: 0))) { random in
      let value = random.below(1000)
      switch random.below(6) {
      case 0: return .first(.send(value))
      case 1: return .first(.receive)
      case 2: return .second(.send(value))
      case 3: return .second(.receive)
      case 4: return .receiveEither
      default: return .receiveFirstOrSendSecond(value)
      }
    } body: {
      let first = Channel<Int>(capacity: .buffered(1))
      let second = Channel<Int>(capacity: .rendezvous)
      return (
        { operation in
          switch operation {
          case .first(let operation): return .first(first.perform(operation))
          case .second(let operation): return .second(second.perform(operation))
          case .receiveEither:
            let outcome = Counter<TwoQueuesModel.Outcome>(.first(.cancelled))
            try? select {
              first.onReceive { outcome.value = .first(.value($0)) }
              second.onReceive { outcome.value = .second(.value($0)) }
            }
            return outcome.value
          case .receiveFirstOrSendSecond(let value):
            let outcome = Counter<TwoQueuesModel.Outcome>(.first(.cancelled))
            try? select {
              first.onReceive { outcome.value = .first(.value($0)) }
              second.onSend(value) { outcome.value = .second(.sent) }
            }
            return outcome.value
          }
        },
        {
          first.drain().map { (.first($0.0), .first($0.1)) } + second.drain().map { (.second($0.0), .second($0.1)) }
        }
      )
    }
  }

  enum Streams: CaseIterable, Sendable {
    case pipe, sockets
  }

  @Test(arguments: programs, Streams.allCases) func aByteStreamIsAQueueOfBytes(program: Int, streams: Streams) throws {
    let capacity = streams == .pipe ? Int(getpagesize()) : .max
    try run(program, of: PipeModel(capacity: capacity), operations: 4) { random in
      let value = UInt8(random.below(250))
      // The last one fills the pipe. All are written at once, or not.
      let (more, most) = ([1, 1500, 4096][random.below(3)], [1, 2000, 10_000][random.below(3)])
      switch random.below(20) {
      case 0: return .closeReader
      case 1: return .closeWriter
      case 2: return .waitUntilWritable
      case 3...4: return .waitUntilReadable
      case 5: return .tryWrite(value, more)
      case 6: return .tryRead(most)
      case 7...13: return .write(value, more)
      default: return .read(most)
      }
    } body: {
      let ends = try streams == .pipe ? ByteEnds(pipeOf: capacity) : ByteEnds(UnixConnection.pair())
      return ({ ends.perform($0) }, { ends.drain() })
    }
  }

  @Test func aHistoryOfAPipeThatIsWrongIsRefused() {
    /// Operations one after another, beside one that waits.
    func isRight(_ waiting: PipeModel.Operation?, _ rest: [(PipeModel.Operation, PipeModel.Outcome)]) -> Bool {
      let (history, model) = (History<PipeModel>(), PipeModel(capacity: 4096))
      var isRight = false
      func perform() {
        for (operation, outcome) in rest { history.note(operation) { outcome } }
        isRight = history.isAtRest(from: model) && history.isLinearizable(from: model)
      }
      guard let waiting else {
        perform()
        return isRight
      }
      history.note(waiting) {
        perform()
        return .cancelled
      }
      return isRight
    }
    func bytes(_ value: UInt8, _ count: Int) -> PipeModel.Outcome { .bytes([.init(value: value, count: count)]) }
    let write = (PipeModel.Operation.write(7, 10), PipeModel.Outcome.done)
    #expect(isRight(nil, [write, (.read(4), bytes(7, 4)), (.read(9), bytes(7, 6))]))
    #expect(!isRight(nil, [write, (.read(4), bytes(7, 3))]), "fewer bytes than there are")
    #expect(!isRight(nil, [write, (.read(4), bytes(7, 4)), (.tryRead(9), .refused)]), "lost bytes")
    #expect(!isRight(nil, [write, (.read(20), bytes(7, 10)), (.read(20), bytes(7, 10))]), "read twice")
    #expect(!isRight(nil, [write, (.closeWriter, .done), (.read(4), .end)]), "an end before the bytes")
    #expect(!isRight(nil, [(.closeReader, .done), (.read(4), .closed), (.tryRead(4), .refused)]), "read after a close")
    #expect(!isRight(nil, [(.closeReader, .done), (.write(8, 1), .broken), write]), "written to one that has gone")
    #expect(isRight(.read(4), [write, (.read(20), bytes(7, 10))]))
    #expect(!isRight(.read(4), [write]), "a reader that was not woken")
    #expect(!isRight(.waitUntilReadable, [(.closeWriter, .done)]), "a waiter that did not hear of the end")
    #expect(isRight(.write(8, 4096), [write]))
    #expect(!isRight(.write(8, 4096), [write, (.read(20), bytes(7, 10))]), "a writer that was not woken")
  }
}

private struct Add: Sendable {
  let number: Int
  let reply: Reply<Int>
}

extension Channel<Int> {
  /// Performs an operation of the model.
  fileprivate func perform(_ operation: QueueModel.Operation) -> QueueModel.Outcome {
    switch operation {
    case .send(let value):
      do { try send(value) } catch is CancellationError { return .cancelled } catch { return .closed }
      return .sent
    case .receive:
      do { return .value(try receive()) } catch is CancellationError { return .cancelled } catch { return .closed }
    case .trySend(let value):
      switch trySend(value) {
      case .sent: return .sent
      case .full: return .full
      case .closed: return .closed
      }
    case .tryReceive:
      switch tryReceive() {
      case .received(let value): return .value(value)
      case .empty: return .empty
      case .closed: return .closed
      }
    case .close: return .wasFirst(close())
    }
  }

  /// Receives what is left in it, and then finds it empty.
  fileprivate func drain() -> [(QueueModel.Operation, QueueModel.Outcome)] {
    var operations: [(QueueModel.Operation, QueueModel.Outcome)] = []
    while true {
      let outcome = perform(.tryReceive)
      operations.append((.tryReceive, outcome))
      guard case .value = outcome else { return operations }
    }
  }
}

/// The ends of a stream: bytes go from the writer to the reader.
// Unchecked: a run has one thread.
private final class ByteEnds: @unchecked Sendable {
  private let reader: any ReadableByteStream
  private let writer: any WritableByteStream
  /// How many are at it now.
  private var (readers, writers) = (0, 0)

  init(_ ends: (some ReadableByteStream, some WritableByteStream)) {
    (reader, writer) = (ends.0, ends.1)
  }

  /// - Parameter capacity: of one page.
  convenience init(pipeOf capacity: Int) throws {
    let (reader, writer) = try makePipe()
    let setSize: Int32 = 1031  // F_SETPIPE_SZ, which Swift does not import
    let size = try writer.descriptor.withFileDescriptor { fcntl($0, setSize, Int32(capacity)) }
    guard size == capacity else { throw Broken(line: #line) }
    self.init((reader, writer))
  }

  func perform(_ operation: PipeModel.Operation) -> PipeModel.Outcome {
    switch operation {
    case .read(let most): return read(most, nil)
    case .tryRead(let most): return read(most, .zero)
    case .write(let value, let count): return write(value, count, nil)
    case .tryWrite(let value, let count): return write(value, count, .zero)
    case .waitUntilReadable:
      return outcome(beside: 0) {
        try reader.descriptor.waitUntilReadable()
        return .done
      }
    case .waitUntilWritable:
      return outcome(beside: 0) {
        try writer.descriptor.waitUntilWritable()
        return .done
      }
    case .closeReader:
      reader.close()
      return .done
    case .closeWriter:
      writer.close()
      return .done
    }
  }

  private func read(_ most: Int, _ timeout: Duration?) -> PipeModel.Outcome {
    readers += 1
    defer { readers -= 1 }
    return outcome(beside: readers - 1) {
      try reader.read(upTo: most, timeout: timeout).map { .bytes(PipeModel.runs($0)) } ?? .end
    }
  }

  private func write(_ value: UInt8, _ count: Int, _ timeout: Duration?) -> PipeModel.Outcome {
    writers += 1
    defer { writers -= 1 }
    return outcome(beside: writers - 1) {
      try writer.write([UInt8](repeating: value, count: count), timeout: timeout)
      return .done
    }
  }

  private func outcome(beside others: Int, _ body: () throws -> PipeModel.Outcome) -> PipeModel.Outcome {
    do { return try body() } catch {
      switch error {
      case is CancellationError: return .cancelled
      case is TimeoutError: return .refused
      case is DescriptorClosed: return .closed
      case is StreamInUse where others > 0: return .inUse
      case let error as IOError where error.code == EPIPE: return .broken
      default: return .unexpected("\(error)")
      }
    }
  }

  /// Reads what is left, and then finds nothing.
  func drain() -> [(PipeModel.Operation, PipeModel.Outcome)] {
    var operations: [(PipeModel.Operation, PipeModel.Outcome)] = []
    while true {
      let outcome = perform(.tryRead(100_000))
      operations.append((.tryRead(100_000), outcome))
      guard case .bytes = outcome else { return operations }
    }
  }
}
