import Coroutine
import CoroutineTestSupport
import CoroutineTesting
import Testing

/// Random programs of operations, each run by many schedules. Some order of the operations must explain what they
/// return.
@Suite(.ownThreads) struct LinearizabilityTests {
  private static let programs = 0..<10
  private static let schedules = 0..<60

  /// Runs a list of operations in each of several coroutines, of which one may be cancelled. Coroutines that would
  /// wait for ever are cancelled in the end.
  private func run<Specification: SequentialSpecification>(
    _ seed: Int, of specification: Specification, operations: Int = 3,
    _ makeOperation: @escaping @Sendable (inout ProgramRandom) -> Specification.Operation,
    body:
      @escaping () -> (
        perform: @Sendable (Specification.Operation) -> Specification.Outcome?,
        final: () -> [(Specification.Operation, Specification.Outcome)]
      )
  ) throws {
    try explore(seeds: Self.schedules, options: ExplorationOptions { $0 is SettledTwice }) {
      var random = ProgramRandom(seed)
      let (perform, final) = body()
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
