import Coroutine
import CoroutineTestSupport
import Glibc
import Testing

@testable import CoroutineDebug

// The tests below suspend these functions. They know them by name, and their lines by the constants beside them. Each
// does something after its call, or the compiler would make the call a jump.

private let descentLine = #line
@inline(never)
private func descend(_ depth: Int, _ channel: Channel<Int>) throws -> Int {
  guard depth > 0 else { return try channel.receive() }
  return try descend(depth - 1, channel) + 1
}

private let treeLine = #line
@inline(never)
private func walk(_ depth: Int, _ yield: Generator<Int>.Yield, _ channel: Channel<Int>) throws {
  if depth > 0 {
    try walk(depth - 1, yield, channel)
    try yield(depth)
  } else {
    try yield(try channel.receive() + 1)
  }
}

@inline(never)
private func sum(_ numbers: Generator<Int>) -> Int {
  var sum = 0
  for number in numbers { sum += number }
  return sum
}
private let sumLine = #line - 3

private let inlinedLine = #line
@inline(__always)
private func innermost(_ channel: Channel<Int>) throws -> Int {
  try channel.receive() + 1
}
@inline(__always)
private func middle(_ channel: Channel<Int>) throws -> Int {
  let received = try innermost(channel)
  return received * 2
}
@inline(never)
private func outermost(_ channel: Channel<Int>) throws -> Int {
  let first = try middle(channel)
  return first - 1
}

@inline(never)
private func apply<Value>(_ body: () throws -> Value) rethrows -> [Value] {
  [try body()]
}
private let applyLine = #line - 2

extension Channel where Element == Int {
  @inline(never)
  fileprivate func receiveTwice() throws -> Int {
    try receive() + receive()
  }
}
private let extensionLine = #line - 3

// A closure's number counts from the start of its function, so each of these functions has one closure. They differ
// in what they do with the result: an optimising compiler merges functions that differ only in what they call, and a
// merged function has no lines.

private func startDescent(_ channel: Channel<Int>) -> Coroutine<Int, any Error> {
  Coroutine.immediate(name: "descent") { try descend(3, channel) + 1 }
}
private let startDescentLine = #line - 2

private func startWalk(_ channel: Channel<Int>) -> Coroutine<Int, any Error> {
  Coroutine.immediate(name: "walk") {
    sum(Generator { yield in try walk(2, yield, channel) }) + 1
  }
}
private let startWalkLine = #line - 3

private func startNestedWalk(_ channel: Channel<Int>) -> Coroutine<Int, any Error> {
  Coroutine.immediate(name: "nested walk") {
    let inner = Generator<Int> { yield in try walk(0, yield, channel) }
    let outer = Generator<Int> { yield in
      let first = sum(inner)
      try yield(first)
    }
    return sum(outer) + 1
  }
}
private let startNestedWalkLine = #line - 8

private func startInlined(_ channel: Channel<Int>) -> Coroutine<Int, any Error> {
  Coroutine.immediate(name: "inlined") { try outermost(channel) + 1 }
}
private let startInlinedLine = #line - 2

private func startExtension(_ channel: Channel<Int>) -> Coroutine<Int, any Error> {
  Coroutine.immediate(name: "extension") { try channel.receiveTwice().bitWidth }
}
private let startExtensionLine = #line - 2

private func startTask(_ channel: Channel<Int>) -> Coroutine<Int, any Error> {
  Coroutine.immediate(name: "task") { try Task { try await channel.receive() }.get() + 1 }
}
private let startTaskLine = #line - 2

/// The optimiser moves the body to a function without the label: it is called there, and so is what is left of this one.
private let labelledLine = #line
@inline(never)
private func labelled(_ label: String, _ channel: Channel<Int>) throws -> Int {
  try channel.receive() + 2
}

private func startLabelled(_ channel: Channel<Int>) -> Coroutine<Int, any Error> {
  Coroutine.immediate(name: "labelled") { try labelled("label", channel) - 3 }
}
private let startLabelledLine = #line - 2

private struct Order {
  var price: Int
  var count: Int
}

/// The optimiser's form of it takes the price, and no structure.
@inline(never)
private func priced(_ order: Order, _ channel: Channel<Int>) throws -> Int {
  try channel.receive() + order.price
}

private func startPriced(_ channel: Channel<Int>) -> Coroutine<Int, any Error> {
  Coroutine.immediate(name: "priced") { try priced(Order(price: Int(getpid()), count: 2), channel) ^ 5 }
}

/// The optimiser's form of it leaves it to its caller to release the numbers.
@inline(never)
private func counted(_ numbers: consuming [Int], _ channel: Channel<Int>) throws -> Int {
  try channel.receive() + numbers.count
}

private func startCounted(_ channel: Channel<Int>) -> Coroutine<Int, any Error> {
  Coroutine.immediate(name: "counted") { try counted(Array(0..<Int(getpid() & 7)), channel) &* 7 }
}

private func startThunk(_ channel: Channel<Int>) -> Coroutine<Int, any Error> {
  Coroutine.immediate(name: "thunk") { try apply { try descend(0, channel) }.count }
}
private let startThunkLine = #line - 2

private func startCallback(_ channel: Channel<Int>) -> Coroutine<Int, any Error> {
  Coroutine.immediate(name: "callback") {
    var numbers: [CInt] = [2, 1]
    withoutActuallyEscaping({ _ = try? descend(0, channel) }) { compare in
      pendingComparison = compare
      qsort(&numbers, 2, MemoryLayout<CInt>.size) { _, _ in
        pendingComparison?()
        return 0
      }
      pendingComparison = nil
    }
    return Int(numbers[0])
  }
}
// Set and read by one coroutine of one test.
nonisolated(unsafe) private var pendingComparison: (() -> Void)?

@Suite(.ownThreads) struct BacktraceTests {
  let channel = Channel<Int>(name: "numbers")

  /// Sends to the coroutines until they have ended.
  private func finish(_ coroutines: Coroutine<Int, any Error>...) throws {
    let sender = Coroutine { while true { try channel.send(1) } }
    for coroutine in coroutines { _ = try coroutine.getBlocking() }
    channel.close()
    #expect(throws: ChannelClosed<Int>.self) { try sender.getBlocking() }
  }

  @Test func everyLevelOfARecursionIsThereInnermostFirst() throws {
    let coroutine = startDescent(channel)
    let backtrace = try backtrace(of: coroutine)
    let level = Step("descend(_:_:)", descentLine + 4)
    #expect(
      backtrace.steps == [
        Step("descend(_:_:)", descentLine + 3), level, level, level,
        Step("closure #1 in startDescent(_:)", startDescentLine),
      ])
    #expect(backtrace.visibleFrames.allSatisfy { $0.file == #filePath })
    #expect(backtrace.name == "descent")
    #expect(backtrace.state == .suspended)
    #expect(backtrace.waitsFor == #"receive on channel "numbers" (1 receiver)"#)
    try finish(coroutine)
  }

  @Test func aGeneratorsBodyAndItsConsumerAreOneBacktrace() throws {
    let coroutine = startWalk(channel)
    let level = Step("walk(_:_:_:)", treeLine + 4)
    let steps = try backtrace(of: coroutine).steps
    #expect(
      steps == [
        Step("walk(_:_:_:)", treeLine + 7), level, level,
        Step("closure #1 in closure #1 in startWalk(_:)", startWalkLine),
        Step("sum(_:)", sumLine), Step("closure #1 in startWalk(_:)", startWalkLine),
      ])
    try finish(coroutine)
  }

  @Test func aGeneratorInAGeneratorIsAPartOfTheBacktrace() throws {
    let coroutine = startNestedWalk(channel)
    let steps = try backtrace(of: coroutine).steps
    #expect(
      steps == [
        Step("walk(_:_:_:)", treeLine + 7),
        Step("closure #1 in closure #1 in startNestedWalk(_:)", startNestedWalkLine),
        Step("sum(_:)", sumLine),
        Step("closure #2 in closure #1 in startNestedWalk(_:)", startNestedWalkLine + 2),
        Step("sum(_:)", sumLine),
        Step("closure #1 in startNestedWalk(_:)", startNestedWalkLine + 5),
      ])
    try finish(coroutine)
  }

  @Test func inlinedFunctionsKeepTheirOrderAndTheirLines() throws {
    let coroutine = startInlined(channel)
    let steps = try backtrace(of: coroutine).steps
    #expect(
      steps == [
        Step("innermost(_:)", inlinedLine + 3), Step("middle(_:)", inlinedLine + 7),
        Step("outermost(_:)", inlinedLine + 12),
        Step("closure #1 in startInlined(_:)", startInlinedLine),
      ])
    try finish(coroutine)
  }

  @Test func whatTheProgramAddsToATypeOfTheRuntimeIsTheProgramsOwn() throws {
    let coroutine = startExtension(channel)
    let steps = try backtrace(of: coroutine).steps
    #expect(
      steps == [
        Step("Channel<A>.receiveTwice()", extensionLine), Step("closure #1 in startExtension(_:)", startExtensionLine),
      ])
    try finish(coroutine)
  }

  @Test func whatTheRuntimeAddsToATypeOfOthersIsTheRuntimesOwn() throws {
    let coroutine = startTask(channel)
    let steps = try backtrace(of: coroutine).steps
    #expect(steps == [Step("closure #1 in startTask(_:)", startTaskLine)])
    try finish(coroutine)
  }

  /// A thunk between a generic function and a closure of a concrete type.
  @Test func whatTheCompilerPutsBetweenTwoFunctionsIsLeftOut() throws {
    let coroutine = startThunk(channel)
    let backtrace = try backtrace(of: coroutine)
    let steps = backtrace.steps
    #expect(!backtrace.visibleFrames.contains { $0.function?.hasPrefix("thunk for") == true })
    #expect(
      steps == [
        Step("descend(_:_:)", descentLine + 3), Step("closure #1 in closure #1 in startThunk(_:)", startThunkLine),
        Step("apply<A>(_:)", applyLine), Step("closure #1 in startThunk(_:)", startThunkLine),
      ])
    try finish(coroutine)
  }

  @Test func aFunctionThatTheOptimiserMovedIsThereOnce() throws {
    let coroutine = startLabelled(channel)
    let backtrace = try backtrace(of: coroutine)
    #expect(
      backtrace.steps == [
        Step("labelled(_:_:)", labelledLine + 3), Step("closure #1 in startLabelled(_:)", startLabelledLine),
      ])
    try finish(coroutine)
  }

  @Test func aFunctionThatTakesItsParametersOtherwiseIsThereOnce() throws {
    let (pricing, counting) = (startPriced(channel), startCounted(channel))
    let dump = try CoroutineDump.capture()
    #expect(dump[pricing.id]?.steps.map(\.function) == ["priced(_:_:)", "closure #1 in startPriced(_:)"])
    #expect(dump[counting.id]?.steps.map(\.function) == ["counted(_:_:)", "closure #1 in startCounted(_:)"])
    try finish(pricing, counting)
  }

  @Test func aCallbackOfTheCLibraryIsUnwoundThrough() throws {
    let coroutine = startCallback(channel)
    let functions = try backtrace(of: coroutine).visibleFrames.map(\.function)
    #expect(functions.first == "descend(_:_:)")
    #expect(functions.last == "closure #1 in startCallback(_:)")
    // The thunk through which C calls Swift. The compiler gives it no line of the source.
    #expect(!functions.contains { $0?.contains("@objc") == true })
    let sorting = "closure #2 in closure #1 in startCallback(_:)"
    let caller = try #require(functions.firstIndex(of: sorting))
    let comparison = try #require(functions.firstIndex(of: "closure #1 in \(sorting)"))
    // The library's frames lie between two of the program's, so they are shown whatever their names.
    #expect(caller > comparison + 1)
    try finish(coroutine)
  }

  @Test func aCoroutineThatYieldedIsReady() throws {
    // Runs nothing until the dump was made.
    let scheduler = HeldScheduler(isCurrent: true)
    let coroutine = Coroutine.immediate(on: scheduler, name: "yielding") { Coroutine.yield() }
    let backtrace = try backtrace(of: coroutine)
    #expect(backtrace.state == .ready)
    #expect(backtrace.steps == [Step("closure #1 in BacktraceTests.aCoroutineThatYieldedIsReady()", #line - 3)])
    scheduler.run()
    try coroutine.getBlocking()
  }

  @Test func aCancelledOneThatGoesOnToWaitIsToldApart() throws {
    let both = (0..<2).map { [channel] _ in
      Coroutine.immediate { withCancellationShield { try? descend(0, channel) } }
    }
    let (cancelled, other) = (both[0], both[1])
    cancelled.cancel()
    #expect(try backtrace(of: cancelled).isCancelled)
    #expect(try !backtrace(of: other).isCancelled)
    // They have equal stacks, and are no group.
    let text = try CoroutineDump.capture().text().withoutTimes
    #expect(text.contains("coroutine \(cancelled.id): suspended, cancelled, receive on channel"))
    #expect(!text.contains("coroutine \(other.id): suspended, cancelled"))
    for _ in 0..<2 { try Coroutine { [channel] in try channel.send(1) }.getBlocking() }
    _ = try (cancelled.getBlocking(), other.getBlocking())
  }

  @Test func aJoinNamesTheCoroutineThatItWaitsFor() throws {
    let first = Coroutine.immediate(name: "first") { try descend(0, channel) }
    let second = Coroutine.immediate { try first.get() }
    #expect(try backtrace(of: second).waitsFor == #"the end of coroutine \#(first.id) "first""#)
    try finish(second)
  }

  @Test func aLimitKeepsTheInnermostFrames() throws {
    let coroutine = startDescent(channel)
    let all = try #require(try CoroutineDump.capture()[coroutine.id])
    #expect(!all.isTruncated)
    let short = try #require(try CoroutineDump.capture(frameLimit: 2)[coroutine.id])
    #expect(short.isTruncated)
    #expect(Set(short.frames.map(\.address)).count == 2)
    #expect(Array(all.frames.prefix(short.frames.count)) == short.frames)
    try finish(coroutine)
  }

  @Test func theDumpOfACoroutineShowsTheOthers() throws {
    let waiting = startDescent(channel)
    let dumping = Coroutine { try CoroutineDump.capture() }
    let dump = try dumping.getBlocking()
    #expect(dump[waiting.id]?.steps.count == 5)
    #expect(dump[dumping.id]?.state == .running)
    #expect(
      dump[dumping.id]?.steps.map(\.function) == ["closure #1 in BacktraceTests.theDumpOfACoroutineShowsTheOthers()"])
    try finish(waiting)
  }

  @Test func manyDumpsAtOnceAgree() throws {
    let waiting = startDescent(channel)
    let dumps = (0..<8).map { _ in Coroutine { try CoroutineDump.capture() } }
    for dump in dumps { #expect(try dump.getBlocking()[waiting.id]?.steps.count == 5) }
    try finish(waiting)
  }
}

/// The start of a stack. A dump shows no frame of it, whatever the linker put in front of the backend's functions.
@Suite(.ownThreads) struct NewStackTests {
  @Test func aContextThatNeverRanStandsInTheBackendsOwnCode() throws {
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 65536, alignment: 16)
    let contexts = UnsafeMutablePointer<SelectedBackend.Context>.allocate(capacity: 2)
    defer {
      contexts.deallocate()
      memory.deallocate()
    }
    // Without the room at the upper end, which the runtime uses for itself.
    let stack = UnsafeMutableRawBufferPointer(rebasing: memory[..<(memory.count - 256)])
    SelectedBackend.initialize(contexts, stack: stack, resumer: contexts + 1) { _ in fatalError() }
    SelectedBackend.destroy(contexts + 1)
    let registers = try #require(SelectedBackend.registers(of: contexts))
    let unwinder = try Unwinder()
    withUnsafeTemporaryAllocation(of: UInt.self, capacity: 16) { buffer in
      let top = UInt(bitPattern: memory.baseAddress! + memory.count)
      let count = unwinder.walk(registers, top: top, into: buffer)
      #expect((1...2).contains(count))
      var symbolicator = Symbolicator()
      let frames = symbolicator.frames(of: Array(buffer[..<count])[...])
      let name = frames.first?.function ?? "no name"
      #expect(SelectedBackend.code.symbolPrefixes.contains { name.hasPrefix($0) }, "\(name)")
      #expect(frames.allSatisfy { $0.isRuntime })
    }
  }
}
