// SPDX-License-Identifier: Apache-2.0

import CCoroutineUnwind
import Context
import Coroutine
import CoroutineLibc

/// Reads the coroutines' stacks, as addresses: the part of the work during which they must not be resumed.
struct StackCapture: ~Copyable, DumpSource {
  private(set) var stacks = StackTable()
  private var unwinder: Unwinder
  private var running: RunningStacks
  private let frameLimit: Int
  private let readsPeaks: Bool
  private let buffer: UnsafeMutableBufferPointer<UInt>
  /// Descriptions of the things that coroutines wait for, made once: a thousand may wait for the same. Right during one
  /// freeze.
  private var descriptions: [Waited: String] = [:]
  private var operations: [WaitReason.Operation: String] = [:]
  private let now: UInt64

  private struct Waited: Hashable {
    let object: UInt
    let operation: WaitReason.Operation
  }

  /// - Parameters:
  ///   - frameLimit: frames of a coroutine at most, innermost first.
  ///   - asking: which of the threads that run coroutines are asked where they stand.
  ///   - stackPeaks: whether to look how deep stacks have been.
  init(frameLimit: Int, asking: RunningStacks.Asking = .none, stackPeaks: Bool = false) throws {
    readsPeaks = stackPeaks
    unwinder = try Unwinder()
    let frameLimit = min(frameLimit, CoroutineDump.Options.mostFrames)
    running = RunningStacks(asking: asking, frameLimit: frameLimit)
    self.frameLimit = frameLimit
    // One more, to see whether there are more.
    buffer = .allocate(capacity: frameLimit + 1)
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    now = UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }

  deinit {
    buffer.deallocate()
  }

  var process: DumpedProcess {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return DumpedProcess(
      id: getpid(), executable: CommandLine.arguments.first ?? "", backend: Coroutine<Never, Never>.backendName,
      time: .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec))
  }

  func symbolicator(namesFunctions: Bool) -> Symbolicator { Symbolicator(namesFunctions: namesFunctions) }

  /// Passes each coroutine to `body`: without its frames, whose number in `stacks` it has. `between` is called after each
  /// `batch`, when they run again.
  mutating func readAll(
    batch: Int, between: (inout StackCapture) throws -> Void, _ body: (CoroutineBacktrace) throws -> Void
  ) throws {
    running.addOwn(ContextRegisters(coroutine_unwinder_registers_here()), unwinder)
    // Both closures change it, and never at the same time.
    try withUnsafeMutablePointer(to: &self) { capture in
      try Inspection.visitAll(batch: batch) {
        capture.pointee.descriptions.removeAll(keepingCapacity: true)
        capture.pointee.running.forgetOthers()
        try between(&capture.pointee)
      } _: { inspected in
        if let read = capture.pointee.read(inspected) { try body(read) }
      }
    }
  }

  /// The coroutines that `choose` picks out of all, without the generators, at one moment, and without their frames, as
  /// above. Those that were suspended when `choose` got them still are when it returns.
  mutating func readSome(_ choose: ([InspectedCoroutine]) -> [InspectedCoroutine]) throws -> [CoroutineBacktrace] {
    var all: [InspectedCoroutine] = []
    var chosen: [CoroutineBacktrace] = []
    running.addOwn(ContextRegisters(coroutine_unwinder_registers_here()), unwinder)
    try Inspection.visitAll(
      last: { chosen = choose(all).compactMap { read($0) } },
      { if !$0.isGenerator { all.append($0) } })
    return chosen
  }

  /// `nil` for one that has gone on meanwhile, or ended.
  private mutating func read(_ found: InspectedCoroutine) -> CoroutineBacktrace? {
    guard found.state == .running, let stack = found.stack else { return read(found, running: nil) }
    if let running = running.find(stack, unwinder) { return read(found, running: running) }
    // It may have suspended before its thread was asked.
    return found.lookedAtAgain.flatMap { read($0, running: nil) }
  }

  private mutating func read(
    _ inspected: InspectedCoroutine, running: RunningStacks.Found?
  ) -> CoroutineBacktrace? {
    var count = 0
    for segment in inspected.segments where count < buffer.count {
      guard let top = segment.stack?.top else { break }
      let rest = UnsafeMutableBufferPointer(rebasing: buffer[count...])
      count +=
        inspected.isGenerator
        ? unwinder.walkCopy(segment.registers, top: UInt(bitPattern: top), into: rest)
        : unwinder.walk(segment.registers, top: UInt(bitPattern: top), into: rest)
    }
    if let running { count = buffer.update(fromContentsOf: running.addresses) }
    guard inspected.isStillThere else { return nil }
    var backtrace = CoroutineBacktrace(id: inspected.id, name: inspected.name, state: .init(inspected.state))
    backtrace.isGenerator = inspected.isGenerator
    backtrace.isCancelled = inspected.isCancelled
    backtrace.stackNumber = stacks.number(of: UnsafeBufferPointer(rebasing: buffer[..<min(count, frameLimit)]))
    backtrace.isTruncated = count > frameLimit
    backtrace.isUnanswered = inspected.state == .running && running == nil && self.running.asking == .all
    if inspected.state == .suspended {
      if let operation = inspected.operation { backtrace.operation = name(of: operation) }
      backtrace.waitsFor = description(of: inspected)
      backtrace.timeLeft = inspected.deadline.map { timeLeft(until: $0) }
    }
    let since = inspected.since
    if since != 0 { backtrace.duration = .nanoseconds(now > since ? Int64(now - since) : 0) }
    backtrace.scheduler = inspected.scheduler
    backtrace.parentID = inspected.parentID == 0 ? nil : inspected.parentID
    backtrace.scope = inspected.scope.map {
      CoroutineBacktrace.Scope(id: $0.id, name: $0.name, ownerID: $0.ownerID == 0 ? nil : $0.ownerID)
    }
    backtrace.stackSize = inspected.stack?.size
    backtrace.stackUsed = running?.stackUsed ?? inspected.stackUsed
    if readsPeaks { backtrace.stackPeak = inspected.stackPeak }
    if !inspected.creators.isEmpty { backtrace.creatorsNumber = stacks.number(of: inspected.creators) }
    return backtrace
  }

  /// A deadline may be some centuries away, which is more nanoseconds than a signed number has.
  private func timeLeft(until deadline: UInt64) -> Duration {
    .nanoseconds(deadline > now ? Int64(clamping: deadline - now) : 0)
  }

  private mutating func name(of operation: WaitReason.Operation) -> String {
    if let known = operations[operation] { return known }
    operations[operation] = "\(operation)"
    return "\(operation)"
  }

  private mutating func description(of inspected: InspectedCoroutine) -> String {
    guard let operation = inspected.operation else { return inspected.waitsFor }
    let waited = Waited(object: inspected.waitsAt, operation: operation)
    if let known = descriptions[waited] { return known }
    let description = inspected.waitsFor
    if descriptions.count >= 4096 { descriptions.removeAll(keepingCapacity: true) }
    descriptions[waited] = description
    return description
  }
}

extension CoroutineBacktrace.State {
  fileprivate init(_ state: InspectedCoroutine.State) {
    self =
      switch state {
      case .new: .new
      case .ready: .ready
      case .running: .running
      case .suspended: .suspended
      }
  }
}
