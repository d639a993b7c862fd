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

  /// Performs an operation. An error is one that it is not to throw, or that of a worker that was cancelled.
  private typealias Perform<Specification: SequentialSpecification> =
    @Sendable (Specification.Operation) throws -> Specification.Outcome

  /// Runs a list of operations in each of several coroutines, of which one may be cancelled: it goes on with its next operation.
  /// Coroutines that would wait for ever are cancelled in the end.
  ///
  /// - Parameters:
  ///   - patience: how often it looks, in real time, whether those that wait have to: for the kernel's events.
  ///   - isExpected: errors that no caller gets.
  ///   - body: makes the object. Also notes what is to be found at the end.
  private func run<Specification: SequentialSpecification>(
    _ seed: Int, of specification: Specification, operations: Int = 3, patience: Int = 0,
    isExpected: @escaping @Sendable (any Error) -> Bool = { $0 is SettledTwice },
    _ makeOperation: @escaping @Sendable (inout ProgramRandom) -> Specification.Operation,
    body:
      @escaping (History<Specification>) throws -> (
        perform: Perform<Specification>, noteFinal: () throws -> Void
      )
  ) throws {
    try explore(seeds: Self.schedules, options: ExplorationOptions(isExpected: isExpected)) {
      var random = ProgramRandom(seed)
      let history = History<Specification>()
      let (perform, noteFinal) = try body(history)
      let workers = (0..<3).map { _ in
        let (worker, program) = (Worker(), random.list(of: operations, makeOperation))
        let coroutine = Coroutine {
          for operation in program { history.note(operation, by: worker) { try perform(operation) } }
        }
        return (worker, coroutine)
      }
      func cancel(_ index: Int) {
        workers[index].0.isCancelled = true
        workers[index].1.cancel()
      }
      if random.below(2) == 0 { cancel(random.below(3)) }
      // When no coroutine can go on any more.
      try Coroutine.sleep(for: .seconds(1))
      try history.checkRest(
        from: specification,
        letPass: {
          // In real time, which the poller's thread takes.
          usleep(10_000)
          try Coroutine.sleep(for: .seconds(1))
        }, times: patience)
      for index in workers.indices { cancel(index) }
      for worker in workers { try worker.1.join() }
      try noteFinal()
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
    } body: { history in
      let channel = Channel<Int>(capacity: .buffered(capacity))
      return ({ try channel.perform($0) }, { channel.drain { history.note($0, $1) } })
    }
  }

  @Test(arguments: programs) func aPromiseIsSettledOnce(program: Int) throws {
    try run(program, of: PromiseModel()) { random in
      switch random.below(6) {
      case 0...1: .fulfill(random.below(1000))
      case 2: .reject
      default: .get
      }
    } body: { _ in
      let (promise, resolver) = Promise<Int>.makePromise()
      return (
        { operation in
          switch operation {
          case .fulfill(let value): return .wasFirst(resolver.fulfill(value))
          case .reject: return .wasFirst(resolver.reject(LostUpdate()))
          case .get:
            do { return .value(try promise.get()) } catch is LostUpdate { return .rejected }
          }
        }, {}
      )
    }
  }

  @Test(arguments: programs) func aMutexKeepsOthersOut(program: Int) throws {
    try run(program, of: CounterModel()) { random in
      random.below(100)
    } body: { history in
      let total = CoroutineMutex(0)
      return (
        { number in
          try total.withLock { value in
            let before = value
            schedulingPoint()
            value = before + number
            return before
          }
        }, { history.note(0) { try total.withLock { $0 } } }
      )
    }
  }

  enum Mailboxes: CaseIterable, Sendable {
    case unbounded, waitingForRoom, failing, withoutTheNewest, withoutTheOldest
  }

  @Test(arguments: programs, Mailboxes.allCases)
  func anActorTakesWhatCameFirst(program: Int, mailbox: Mailboxes) throws {
    let (capacity, overflow): (Int, MailboxPolicy.Overflow) =
      switch mailbox {
      case .unbounded: (.max, .suspend)
      case .waitingForRoom: (1, .suspend)
      case .failing: (1, .fail)
      case .withoutTheNewest: (1, .dropNewest)
      case .withoutTheOldest: (2, .dropOldest)
      }
    let numbers = Unlocked(0)
    try run(program, of: MailboxModel(capacity: capacity, overflow: overflow, turns: 1), operations: 4) {
      // An error of a promise whose waiter was cancelled.
      $0 is ActorStopped || $0 is MailboxFull
    } _: { random in
      // Each message is another one.
      numbers.value += 1
      switch random.below(20) {
      case 0: return .stop
      case 1...5: return .allow
      case 6...10: return .ask(numbers.value)
      case 11...13: return .send(numbers.value)
      default: return .tell(numbers.value)
      }
    } body: { history in
      numbers.value = 0
      let policy: MailboxPolicy = capacity == .max ? .unbounded : .bounded(capacity, overflow)
      let actor = TurnTakingActor(policy, history)
      return ({ try actor.perform($0) }, { try actor.noteEnd(history) })
    }
  }

  @Test(arguments: programs) func aSemaphoreCountsItsPermits(program: Int) throws {
    try run(program, of: SemaphoreModel(permits: 1)) { random in
      [.acquire, .acquire, .release, .tryAcquire][random.below(4)]
    } body: { history in
      let semaphore = Semaphore(permits: 1)
      let perform: Perform<SemaphoreModel> = { operation in
        switch operation {
        case .acquire: try semaphore.acquire()
        case .tryAcquire: return semaphore.tryAcquire()
        case .release: semaphore.release()
        }
        return true
      }
      return (
        perform,
        {
          // All that are left, and then none.
          var isLeft = true
          while isLeft {
            history.note(.tryAcquire) {
              isLeft = try perform(.tryAcquire)
              return isLeft
            }
          }
        }
      )
    }
  }

  @Test(arguments: programs, [false, true]) func aSelectDoesOneOfItsOperations(program: Int, closes: Bool) throws {
    try run(program, of: TwoQueuesModel(first: QueueModel(capacity: 1), second: QueueModel(capacity: 0))) { random in
      let value = random.below(1000)
      switch random.below(closes ? 20 : 18) {
      case 0...1: return .first(.send(value))
      case 2...3: return .first(.receive)
      case 4...5: return .second(.send(value))
      case 6...7: return .second(.receive)
      case 8: return .first(.trySend(value))
      case 9: return .second(.trySend(value))
      case 10: return .tryReceiveEither
      case 11...13: return .receiveEither
      case 14: return .sendEither(value)
      case 15...17: return .receiveFirstOrSendSecond(value)
      case 18: return .first(.close)
      default: return .second(.close)
      }
    } body: { history in
      let first = Channel<Int>(capacity: .buffered(1))
      let second = Channel<Int>(capacity: .rendezvous)
      return (
        { operation in
          switch operation {
          case .first(let operation): return .first(try first.perform(operation))
          case .second(let operation): return .second(try second.perform(operation))
          default: break
          }
          do { return try Self.perform(operation, first, second) } catch is ChannelClosed<Int> { return .closed }
        },
        {
          first.drain { operation, perform in history.note(.first(operation)) { .first(try perform()) } }
          second.drain { operation, perform in history.note(.second(operation)) { .second(try perform()) } }
        }
      )
    }
  }

  private static func perform(
    _ operation: TwoQueuesModel.Operation, _ first: Channel<Int>, _ second: Channel<Int>
  ) throws -> TwoQueuesModel.Outcome {
    switch operation {
    case .first, .second: throw Broken(line: #line)
    case .receiveEither:
      try select {
        first.onReceive { .first(.value($0)) }
        second.onReceive { .second(.value($0)) }
      }
    case .tryReceiveEither:
      try select {
        first.onReceive { .first(.value($0)) }
        second.onReceive { .second(.value($0)) }
        otherwise { .neither }
      }
    case .sendEither(let value):
      try select {
        first.onSend(value) { .first(.sent) }
        second.onSend(value) { .second(.sent) }
      }
    case .receiveFirstOrSendSecond(let value):
      try select {
        first.onReceive { .first(.value($0)) }
        second.onSend(value) { .second(.sent) }
      }
    }
  }

  enum Streams: CaseIterable, Sendable {
    case pipe, sockets
  }

  @Test(arguments: programs, Streams.allCases) func aByteStreamIsAQueueOfBytes(program: Int, streams: Streams) throws {
    let capacity = streams == .pipe ? Int(getpagesize()) : .max
    try run(program, of: PipeModel(capacity: capacity), operations: 4, patience: 300) { random in
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
    } body: { history in
      let ends = try streams == .pipe ? ByteEnds(pipeOf: capacity) : ByteEnds(UnixConnection.pair())
      return ({ try ends.perform($0) }, { ends.drain(history) })
    }
  }
}

/// An actor that may take a message when it is allowed to.
private final class TurnTakingActor: Sendable {
  private struct Message: Sendable {
    let number: Int
    let reply: Reply<Int>?
    /// Its number goes there if it becomes a dead letter.
    let dead: Log<Int>
  }

  /// The process has one handler. Those of other tests are not touched.
  private static let handlesDeadLetters: Void = {
    let before = DeadLetters.handler
    DeadLetters.handler = { letter in
      if let message = letter.message as? Message { message.dead.add(message.number) } else { before(letter) }
    }
  }()

  private let actor: MessageActor<Message>
  private let turns = Semaphore(permits: 1)
  private let dead = Log<Int>()

  init(_ policy: MailboxPolicy, _ history: History<MailboxModel>) {
    Self.handlesDeadLetters
    let turns = turns
    actor = MessageActor(mailbox: policy) { mailbox in
      for count in 0... {
        var message: Message?
        history.note(.take) {
          // Fails where the actor was stopped: then there is no message either.
          do { try turns.acquire() } catch is CancellationError {}
          message = mailbox.next()
          return message.map { .message($0.number) } ?? .over
        }
        guard let message else { return }
        schedulingPoint()
        message.reply?.complete(count)
      }
    }
  }

  func perform(_ operation: MailboxModel.Operation) throws -> MailboxModel.Outcome {
    do {
      switch operation {
      case .tell(let number): try actor.tell(Message(number: number, reply: nil, dead: dead))
      case .ask(let number): return .answer(try actor.ask { Message(number: number, reply: $0, dead: dead) })
      case .send(let number): return .answer(try actor.send { Message(number: number, reply: $0, dead: dead) }.get())
      case .allow: turns.release()
      case .stop: actor.cancel()
      case .take, .end: throw Broken(line: #line)
      }
      return .done
    } catch is ActorStopped { return .stopped } catch is MailboxFull { return .full }
  }

  /// Stops it, and notes what it has left.
  func noteEnd(_ history: History<MailboxModel>) throws {
    history.note(.stop) { try perform(.stop) }
    try actor.join()
    history.note(.end) { .dead(dead.all) }
  }
}

extension Channel<Int> {
  /// Performs an operation of the model.
  fileprivate func perform(_ operation: QueueModel.Operation) throws -> QueueModel.Outcome {
    switch operation {
    case .send(let value):
      do { try send(value) } catch let error as ChannelClosed<Int> where error.unsent == value { return .closed }
      return .sent
    case .receive:
      do { return .value(try receive()) } catch is ChannelClosed<Int> { return .closed }
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
  fileprivate func drain(_ note: (QueueModel.Operation, () throws -> QueueModel.Outcome) -> Void) {
    var isLeft = true
    while isLeft {
      isLeft = false
      note(.tryReceive) {
        let outcome = try perform(.tryReceive)
        if case .value = outcome { isLeft = true }
        return outcome
      }
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

  func perform(_ operation: PipeModel.Operation) throws -> PipeModel.Outcome {
    switch operation {
    case .read(let most): return try read(most, nil)
    case .tryRead(let most): return try read(most, .zero)
    case .write(let value, let count): return try write(value, count, nil)
    case .tryWrite(let value, let count): return try write(value, count, .zero)
    case .waitUntilReadable:
      return try outcome(beside: 0) {
        try reader.descriptor.waitUntilReadable()
        return .done
      }
    case .waitUntilWritable:
      return try outcome(beside: 0) {
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

  private func read(_ most: Int, _ timeout: Duration?) throws -> PipeModel.Outcome {
    readers += 1
    defer { readers -= 1 }
    return try outcome(beside: readers - 1) {
      try reader.read(upTo: most, timeout: timeout).map { .bytes(PipeModel.runs($0)) } ?? .end
    }
  }

  private func write(_ value: UInt8, _ count: Int, _ timeout: Duration?) throws -> PipeModel.Outcome {
    writers += 1
    defer { writers -= 1 }
    return try outcome(beside: writers - 1) {
      try writer.write([UInt8](repeating: value, count: count), timeout: timeout)
      return .done
    }
  }

  private func outcome(beside others: Int, _ body: () throws -> PipeModel.Outcome) throws -> PipeModel.Outcome {
    do { return try body() } catch {
      switch error {
      case is TimeoutError: return .refused
      case is DescriptorClosed: return .closed
      case is StreamInUse where others > 0: return .inUse
      case let error as IOError where error.code == EPIPE: return .broken
      default: throw error
      }
    }
  }

  /// Reads what is left, and then finds nothing.
  func drain(_ history: History<PipeModel>) {
    var isLeft = true
    while isLeft {
      isLeft = false
      history.note(.tryRead(100_000)) {
        let outcome = try perform(.tryRead(100_000))
        if case .bytes = outcome { isLeft = true }
        return outcome
      }
    }
  }
}
