import Coroutine
import CoroutineIO
import Synchronization

/// What a worker waits for, as bits: `Rest` compares it with what the primitives say.
struct Waits {
  static func receive(_ channel: Int) -> UInt64 { 1 << channel }
  static func send(_ channel: Int) -> UInt64 { 1 << (8 + channel) }
  static func promise(_ promise: Int) -> UInt64 { 1 << (16 + promise) }
  static func end(of worker: Int) -> UInt64 { 1 << (24 + worker) }
  static var lock: UInt64 { 1 << 40 }
  static var permit: UInt64 { 1 << 41 }
  static var bytes: UInt64 { 1 << 43 }
  /// It may go on waiting for a second element.
  static var several: UInt64 { 1 << 42 }
  /// It ends by itself.
  static var timed: UInt64 { 1 << 63 }
}

/// A worker fails by this, on purpose.
struct Thrown: Error {}

/// A coroutine of a random program: performs its operations, one after the other, and keeps an account of them.
// Unchecked: what is no atomic belongs to its coroutine until `isDone`, and `own` is written before `waits` is.
final class Worker: @unchecked Sendable {
  let number: Int
  private let operations: [Operation]
  private(set) var account = Account()
  /// Tokens that came back, to be sent again.
  private var spare: [Token] = []
  private var sendCounts = [Int](repeating: 0, count: Program.mostChannels)
  private var deadlines = 0
  /// The channel to which a select has sent.
  private var sentBySelect: Int?

  let isLaunched = Atomic<Bool>(false)
  let isDone = Atomic<Bool>(false)
  /// How many operations it has ended.
  let steps = Atomic<Int>(0)
  let waits = Atomic<UInt64>(0)
  /// Of `Waits.lock` and `Waits.permit`.
  let holds = Atomic<UInt64>(0)
  /// Itself, unless it has to be without a handle.
  private(set) var own: AnyCoroutine?

  init(_ number: Int, _ operations: [Operation]) {
    self.number = number
    self.operations = operations
  }

  func live(in run: ProgramRun, isDropped: Bool) throws {
    defer {
      spare = []
      isDone.store(true, ordering: .releasing)
    }
    if !isDropped { own = Coroutine.current }
    for operation in operations {
      defer { steps.wrappingAdd(1, ordering: .releasing) }
      // Cancelled, it goes on, and whatever could wait throws at once.
      do { try perform(operation, in: run) } catch let error as Thrown { throw error } catch {}
    }
  }

  /// The run has ended: it may have kept itself alive.
  func forget() { own = nil }

  // MARK: Waiting

  private func wait<Result>(_ bits: UInt64, _ limit: Int?, _ body: (Duration?) throws -> Result) rethrows -> Result {
    let isTimed = limit != nil || deadlines > 0
    waits.store(bits | (isTimed ? Waits.timed : 0), ordering: .releasing)
    defer { endWait() }
    return try body(limit.map { .microseconds($0) })
  }

  private func endWait() {
    waits.store(0, ordering: .releasing)
    steps.wrappingAdd(1, ordering: .releasing)
  }

  private func hold(_ bit: UInt64, _ body: () throws -> Void) rethrows {
    endWait()
    holds.bitwiseOr(bit, ordering: .releasing)
    defer { holds.bitwiseAnd(~bit, ordering: .releasing) }
    try body()
  }

  // MARK: Tokens

  func takeToken(for channel: Int, in run: ProgramRun) -> Token {
    let token = spare.popLast() ?? Token(of: run.tokens)
    token.sender = number
    token.order = sendCounts[channel]
    sendCounts[channel] += 1
    return token
  }

  func noteSent(_ token: Token, to channel: Int) { account.noteSent(token, to: channel) }

  func noteReceived(_ token: Token, from channel: Int) { account.noteReceived(token, from: channel) }

  func noteClosed(_ channel: Int) { account.noteClosed(channel) }

  // MARK: Operations

  private func perform(_ operation: Operation, in run: ProgramRun) throws {
    switch operation {
    case .send(let channel, let limit):
      let token = takeToken(for: channel, in: run)
      do {
        try wait(Waits.send(channel), limit) { try run.channels[channel].send(token, within: $0) }
        noteSent(token, to: channel)
      } catch {
        spare.append(token)
        throw error
      }
    case .offer(let channel, let limit):
      let token = takeToken(for: channel, in: run)
      let outcome = wait(Waits.send(channel), limit) { run.channels[channel].offer(token, within: $0) }
      if outcome.isSent { noteSent(token, to: channel) }
      if let token = outcome.unsent() { spare.append(token) }
    case .trySend(let channel):
      let token = takeToken(for: channel, in: run)
      let result = run.channels[channel].trySend(token)
      if result.isSent { noteSent(token, to: channel) }
      if let token = result.unsent() { spare.append(token) }
    case .receive(let channel, let limit):
      let token = try wait(Waits.receive(channel), limit) { try run.channels[channel].receive(within: $0) }
      noteReceived(token, from: channel)
    case .receiveTwo(let channel):
      let tokens = try wait(Waits.receive(channel) | Waits.several, nil) { _ in
        try run.channels[channel].channel.receive(count: 2)
      }
      for token in tokens { noteReceived(token, from: channel) }
    case .tryReceive(let channel):
      if case .received(let token) = run.channels[channel].tryReceive() { noteReceived(token, from: channel) }
    case .select(let cases, let limit): try select(cases, limit, isNow: false, in: run)
    case .selectNow(let cases): try select(cases, nil, isNow: true, in: run)
    case .close(let channel): if run.channels[channel].close() { noteClosed(channel) }
    case .cancel(let worker): run.handle(of: worker)?.cancel()
    case .launch(let worker): run.launch(worker)
    case .launchAndDrop(let worker): run.launch(worker, isDropped: true)
    case .join(let worker, let limit):
      guard worker != number, let handle = run.handle(of: worker) else { return }
      try wait(Waits.end(of: worker), limit) { limit in
        if let limit { try handle.join(timeout: limit) } else { try handle.join() }
      }
    case .lock(let inner):
      guard holds.load(ordering: .relaxed) & Waits.lock == 0 else { return }
      try wait(Waits.lock, nil) { _ in
        try run.mutex.withLock { guarded in
          try hold(Waits.lock) {
            let before = guarded.count
            defer {
              guarded.count = before + 1
              account.locks += 1
            }
            try perform(inner, in: run)
          }
        }
      }
    case .permit(let inner):
      try wait(Waits.permit, nil) { _ in
        try run.semaphore.withPermit { try hold(Waits.permit) { try perform(inner, in: run) } }
      }
    case .timeout(let limit, let inner):
      deadlines += 1
      defer { deadlines -= 1 }
      try withTimeout(.microseconds(limit)) { try perform(inner, in: run) }
    case .sleep(let time): try wait(0, time) { try Coroutine.sleep(for: $0!) }
    case .yield: Coroutine.yield()
    case .fail: throw Thrown()
    case .fulfill(let promise): run.resolver(of: promise)?.fulfill(Token(of: run.tokens))
    case .dropResolver(let promise): run.dropResolver(of: promise)
    case .await(let promise, let limit):
      let outcome = try wait(Waits.promise(promise), limit) { limit in
        do {
          let promise = run.promises[promise]
          return Result<Token, any Error>.success(try limit.map { try promise.get(timeout: $0) } ?? promise.get())
        } catch let error as PromiseAbandoned { return .failure(error) }
      }
      note(outcome, of: promise)
    case .generate(let count):
      let tokens = Generator<Token> { yield in
        for _ in 0..<3 { try yield(Token(of: run.tokens)) }
      }
      for _ in 0..<count { _ = tokens.next() }
    case .write(let count):
      guard let pipe = run.pipe else { return }
      // Counted before another one can read them.
      pipe.written.wrappingAdd(count, ordering: .relaxed)
      do { try pipe.writer.write([UInt8](repeating: 7, count: count)) } catch {
        pipe.written.wrappingSubtract(count, ordering: .relaxed)
        throw error
      }
    case .read(let count, let limit):
      guard let pipe = run.pipe else { return }
      let bytes = try wait(Waits.bytes, limit) { try pipe.reader.read(upTo: count, timeout: $0) }
      pipe.read.wrappingAdd(bytes?.count ?? 0, ordering: .relaxed)
    case .closeWriter: run.pipe?.writer.close()
    }
  }

  private func note(_ outcome: Result<Token, any Error>, of promise: Int) {
    account.outcomes.append((promise, (try? outcome.get().number) ?? -1))
  }

  private func select(_ cases: [Operation.Case], _ limit: Int?, isNow: Bool, in run: ProgramRun) throws {
    var unsent: [Int: Token] = [:]
    var bits: UInt64 = 0
    var choices: [any SelectCase<Void>] = []
    for choice in cases {
      switch choice {
      case .receive(let channel):
        bits |= Waits.receive(channel)
        choices.append(run.channels[channel].channel.onReceive { self.noteReceived($0, from: channel) })
      case .send(let channel):
        bits |= Waits.send(channel)
        let token = takeToken(for: channel, in: run)
        unsent[channel] = token
        choices.append(
          run.channels[channel].channel.onSend(token) {
            self.noteSent(token, to: channel)
            self.sentBySelect = channel
          })
      case .permit:
        bits |= Waits.permit
        choices.append(
          run.semaphore.semaphore.onAcquire {
            defer { run.semaphore.semaphore.release() }
            self.hold(Waits.permit) { Coroutine.yield() }
          })
      case .await(let promise):
        bits |= Waits.promise(promise)
        choices.append(run.promises[promise].onEnd { self.note($0, of: promise) })
      }
    }
    if let limit { choices.append(onTimeout(.microseconds(limit)) {}) }
    if isNow { choices.append(otherwise {}) }
    defer {
      if let channel = sentBySelect.take() { unsent[channel] = nil }
      for (_, token) in unsent.sorted(by: { $0.key < $1.key }) { spare.append(token) }
    }
    try wait(isNow ? 0 : bits, limit) { _ in try Coroutine::select(choices) }
  }
}
