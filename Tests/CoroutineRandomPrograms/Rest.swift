import Coroutine
import CoroutineTesting

/// A moment at which no worker can go on: what each waits for.
struct Rest {
  /// The workers that were launched and have not ended.
  private(set) var waiting: [(worker: Int, bits: UInt64)] = []
  private(set) var holders: UInt64 = 0
  private var holding: [UInt64] = []
  /// Those that were not launched.
  private(set) var unlaunched: [Int] = []
  /// How far the workers have come, in all.
  private(set) var progress = 0

  /// `nil`: some worker can go on.
  init?(of run: ProgramRun) {
    // A worker that waits in both looks, and has ended no operation between them, has waited all the time.
    guard let first = Self.look(at: run), let second = Self.look(at: run), first.progress == second.progress else {
      return nil
    }
    self = second
  }

  private init() {}

  private static func look(at run: ProgramRun) -> Rest? {
    var rest = Rest()
    for worker in run.workers {
      rest.progress += worker.steps.load(ordering: .acquiring)
      guard worker.isLaunched.load(ordering: .acquiring) else {
        rest.unlaunched.append(worker.number)
        continue
      }
      // Cancelled before it began, it never says so.
      let isDone = worker.isDone.load(ordering: .acquiring) || run.handle(of: worker.number)?.isFinished == true
      rest.progress += isDone ? 2 : 1
      if isDone { continue }
      let bits = worker.waits.load(ordering: .acquiring)
      guard bits != 0, bits & Waits.timed == 0, worker.own?.state ?? .suspended == .suspended else { return nil }
      rest.waiting.append((worker.number, bits))
      rest.holding.append(worker.holds.load(ordering: .acquiring))
    }
    return rest
  }

  var isOver: Bool { waiting.isEmpty && unlaunched.isEmpty }

  func waiters(for bit: UInt64) -> [Int] { waiting.filter { $0.bits & bit != 0 }.map(\.worker) }

  private func holders(of bit: UInt64) -> Int { holding.count { $0 & bit != 0 } }

  /// What is not as it must be when no worker can go on.
  func problem(in run: ProgramRun, permits: Int) -> String? {
    for (number, tested) in run.channels.enumerated() {
      let channel = tested.channel
      let (receivers, senders) = (waiters(for: Waits.receive(number)), waiters(for: Waits.send(number)))
      if channel.waitingReceiverCount != receivers.count {
        return "workers \(receivers) wait to receive from channel \(number), which knows of "
          + "\(channel.waitingReceiverCount) receivers"
      }
      if channel.waitingSenderCount != senders.count {
        return "workers \(senders) wait to send to channel \(number), which knows of \(channel.waitingSenderCount) "
          + "senders"
      }
      if channel.isClosed, !receivers.isEmpty || !senders.isEmpty {
        return "workers \(receivers + senders) wait at channel \(number), which is closed"
      }
      if !receivers.isEmpty, !senders.isEmpty || !channel.isEmpty {
        return "workers \(receivers) wait to receive from channel \(number), in which there is an element"
      }
      if !senders.isEmpty, !channel.isFull {
        return "workers \(senders) wait to send to channel \(number), which has room"
      }
    }
    for number in run.promises.indices {
      let waiters = waiters(for: Waits.promise(number))
      if !waiters.isEmpty, !run.promises[number].isPending || run.resolver(of: number) == nil {
        return "workers \(waiters) wait for promise \(number), which is settled"
      }
    }
    for (worker, _) in waiting {
      let waiters = waiters(for: Waits.end(of: worker))
      if waiters.contains(worker) { return "worker \(worker) waits for its own end" }
    }
    for worker in run.workers where worker.isDone.load(ordering: .acquiring) {
      let waiters = waiters(for: Waits.end(of: worker.number))
      if !waiters.isEmpty { return "workers \(waiters) wait for the end of worker \(worker.number), which has ended" }
    }
    if let problem = run.pipe?.problem(readers: waiters(for: Waits.bytes)) { return problem }
    return lockProblem(in: run, permits: permits)
  }

  private func lockProblem(in run: ProgramRun, permits: Int) -> String? {
    let (waiters, holders) = (waiters(for: Waits.lock), holders(of: Waits.lock))
    if holders > 1 { return "\(holders) workers hold the mutex" }
    if holders == 0, !waiters.isEmpty { return "workers \(waiters) wait for the mutex, which is free" }
    let (acquirers, taken) = (self.waiters(for: Waits.permit), self.holders(of: Waits.permit))
    let free = run.semaphore.semaphore.available
    if free + taken != permits { return "\(free) of \(permits) permits are free, and \(taken) taken" }
    if free > 0, !acquirers.isEmpty { return "workers \(acquirers) wait for a permit, and \(free) are free" }
    return nil
  }
}

/// Lets one of those go on that wait, in one of the ways that are possible.
struct Helper {
  private let run: ProgramRun
  private var random: SplitMix
  /// Its own sends and receives.
  let own: Worker
  /// What it has done last, in words.
  private(set) var latest = "at the beginning"

  private enum Help {
    case send(Int)
    case receive(Int)
    case close(Int)
    case cancel(Int)
    case launch(Int)
    case fulfill(Int)
    case dropResolver(Int)
    case write
    case closeWriter
  }

  init(_ run: ProgramRun, _ random: SplitMix) {
    self.run = run
    self.random = random
    own = Worker(run.workers.count, [])
  }

  /// - Returns: whether an operation ends by that.
  mutating func help(_ rest: Rest) -> Bool {
    var possible: [Help] = rest.unlaunched.map { .launch($0) }
    for channel in run.channels.indices {
      if !rest.waiters(for: Waits.receive(channel)).isEmpty {
        possible += [.send(channel), .send(channel), .close(channel)]
      }
      if !rest.waiters(for: Waits.send(channel)).isEmpty {
        possible += [.receive(channel), .receive(channel), .close(channel)]
      }
    }
    for promise in run.promises.indices where !rest.waiters(for: Waits.promise(promise)).isEmpty {
      possible += [.fulfill(promise), .dropResolver(promise)]
    }
    if !rest.waiters(for: Waits.bytes).isEmpty { possible += [.write, .closeWriter] }
    // One without a handle waits for something that can be done here, or that another one does.
    for (worker, _) in rest.waiting where run.handle(of: worker) != nil { possible.append(.cancel(worker)) }
    guard !possible.isEmpty else {
      latest = "no worker can be helped"
      return true
    }
    let help = possible[random.next(below: possible.count)]
    perform(help)
    guard case .send(let channel) = help else { return true }
    let first = Waits.receive(channel) | Waits.several
    return !rest.waiting.contains { $0.bits & first == first }
  }

  private mutating func perform(_ help: Help) {
    latest = "after \(help)"
    switch help {
    case .send(let channel):
      let token = own.takeToken(for: channel, in: run)
      if run.channels[channel].channel.trySend(token).isSent { own.noteSent(token, to: channel) }
    case .receive(let channel):
      if case .received(let token) = run.channels[channel].channel.tryReceive() {
        own.noteReceived(token, from: channel)
      }
    case .close(let channel): if run.channels[channel].close() { own.noteClosed(channel) }
    case .cancel(let worker): run.handle(of: worker)?.cancel()
    case .launch(let worker): run.launch(worker)
    case .fulfill(let promise): run.resolver(of: promise)?.fulfill(Token(of: run.tokens))
    case .dropResolver(let promise): run.dropResolver(of: promise)
    case .write: try? run.pipe?.write()
    case .closeWriter: run.pipe?.writer.close()
    }
  }

  /// When all workers have ended.
  func closeAndEmpty(_ channel: Int) {
    if run.channels[channel].channel.close() { own.noteClosed(channel) }
    while case .received(let token) = run.channels[channel].tryReceive() {
      own.noteReceived(token, from: channel)
    }
  }
}
