import CCoroutine
import Context
import Coroutine
import CoroutineDebug
import CoroutineTestSupport
import Foundation
import Synchronization
import Testing

/// Recurses without end, as far as the compiler can tell, in a way that it can't turn into a loop.
@inline(never)
private func recurse(_ depth: Int) -> Int {
  guard depth >= 0 else { return 0 }
  return (recurse(depth + 1) &* 3) ^ depth
}

/// Like `recurse`, with a frame that is larger than the guard below a stack.
@inline(never)
private func recurseWidely(_ depth: Int) -> Int {
  guard depth >= 0 else { return 0 }
  var frame = InlineArray<12288, Int>(repeating: depth)
  frame[depth & 1023] = depth &* 3
  return recurseWidely(depth + 1) &+ frame[(depth &* 5) & 4095]
}

/// Like `recurse`. The fault comes in `malloc` sooner than in this function.
@inline(never)
private func recurseAllocating(_ depth: Int) -> Int {
  guard depth >= 0 else { return 0 }
  // Uses the address: otherwise an optimiser removes the allocation.
  let address = Int(bitPattern: malloc(3000))
  return recurseAllocating(depth + 1) &- address
}

/// The content of a file in /proc.
private func content(_ path: String) -> String { (try? String(contentsOfFile: path, encoding: .utf8)) ?? "" }

/// Overflows that are harder to recognise: several faults at once, and frames that step over the guard.
///
/// Not under sanitizers: they handle the fault themselves, and end the process in another way.
@Suite(.ownThreads, .disabled(if: coroutine_sanitizers_active(), "the sanitizers handle the fault themselves"))
struct StackOverflowLimitTests {
  /// What the process wrote before it died by SIGSEGV.
  private func report(_ result: ExitTest.Result?) -> String {
    String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
  }

  // MARK: Anywhere

  @Test func whereTheHeapIsLockedItIsToldToo() async {
    let result = await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
      _ = try await Coroutine(name: "parser", stackSize: 68 << 10) { recurseAllocating(0) }.value
    }
    #expect(report(result).contains("stack overflow in"))
  }

  // MARK: Several at once

  @Test func ofOverflowsOnSeveralThreadsAtOnceOneIsTold() async {
    let result = await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
      let pool = ThreadPool(threads: 4)
      let arrived = Count()
      let parsers = (0..<4).map { _ in
        Coroutine(on: pool, name: "parser") { () -> Int in
          // They overflow at the same moment.
          arrived.add()
          while arrived.value < 4 { sched_yield() }
          return recurse(0)
        }
      }
      for parser in parsers { _ = try await parser.value }
    }
    let text = report(result)
    #expect(text.components(separatedBy: "stack overflow in coroutine").count == 2, "\(text)")
    #expect(text.contains("\"parser\" ("))
    #expect(text.contains("recurse(_:) at StackOverflowLimitTests.swift:"))
    #expect(text.contains("in StackOverflowLimitTests.ofOverflowsOnSeveralThreadsAtOnceOneIsTold"))
  }

  @Test func anotherThreadsFaultDoesNotCutTheReportShort() async {
    let result = await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
      try await Coroutine {}.value
      let folder = "/proc/self/task/"
      let tasks = try FileManager.default.contentsOfDirectory(atPath: folder).map { "\(folder)\($0)/" }
      var reporter: String?
      // The thread names itself.
      while reporter == nil { reporter = tasks.first { content($0 + "comm") == "coroutine-crash\n" } }
      let call = try #require(reporter) + "syscall"
      while content(call).hasPrefix("running") { sched_yield() }
      let waiting = content(call)
      try #require(!waiting.isEmpty)
      Thread.detachNewThread {
        // As soon as the report is being made.
        while content(call) == waiting { sched_yield() }
        UnsafeMutablePointer<Int>(bitPattern: 8)!.pointee = 1
      }
      _ = try await Coroutine(name: "parser") { recurse(0) }.value
    }
    let text = report(result)
    #expect(text.contains("stack overflow in coroutine 2 \"parser\" ("), "\(text)")
    #expect(text.contains("in StackOverflowLimitTests.anotherThreadsFaultDoesNotCutTheReportShort"))
  }

  // MARK: Large frames

  /// The first thing that a function with a frame of 60,000 bytes does may be a store into its lowest bytes. The test
  /// does it by hand, as the optimiser chooses the size of a frame.
  @Test func aFrameJustUnderTheGuardsSizeDoesNotStepOverIt() async {
    let result = await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
      let channel = Channel<Int>()
      let neighbour = Coroutine.immediate { try channel.receive() }
      let wide = Coroutine(name: "wide") { () throws -> Int in
        let frame = UInt(bitPattern: coroutine_frame_address())
        guard let own = StackPool.default.stack(containing: frame) else { exit(3) }
        return storeBelow(own.limit, frame: 60_000)
      }
      _ = try await wide.value
      withExtendedLifetime(neighbour) { exit(4) }
    }
    let text = report(result)
    #expect(text.contains("stack overflow in coroutine 2 \"wide\" (256 KiB stack)"), "\(text)")
    #expect(text.contains("storeBelow("))
  }

  @Test func whatTheRuntimeNeedsFitsOnTheLeastStack() async {
    await #expect(processExitsWith: .success) {
      let described = try await Coroutine(stackSize: 16 << 10) { () -> String in
        typealias Inner = Nested<[String: Set<Int>]>.Part<Result<[Int], any Error>>
        let value: Any = Inner.Kind<(Int, String)>.none
        return "\(type(of: value)) \(value as? [String: [Inner]] == nil)"
      }.value
      #expect(described.hasSuffix("true"))
    }
  }

  /// libdw's reader of lines alone has a frame of 149 KiB.
  @Test func aDumpFitsOnAStackOf64KiB() async {
    await #expect(processExitsWith: .success) {
      let hasLines = try await Coroutine(stackSize: 64 << 10) { () -> Bool in
        let dump = try CoroutineDump.capture()
        let frames = Coroutine.currentID.flatMap { dump[$0]?.frames } ?? []
        _ = try DeadlockDetector.find()
        return frames.contains { $0.line != nil }
      }.value
      #expect(hasLines)
    }
  }

  @Test func anOverflowInsideTheSwiftRuntimeIsTold() async {
    let result = await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
      let coroutine = Coroutine(name: "looks", stackSize: 64 << 10) { () -> Int in
        let frame = UInt(bitPattern: coroutine_frame_address())
        guard let own = try StackPool.shared(stackSize: 64 << 10).stack(containing: frame) else { exit(3) }
        return lookNear(own.limit)
      }
      _ = try await coroutine.value
    }
    let text = report(result)
    #expect(text.contains("stack overflow in coroutine 1 \"looks\" (64 KiB stack)"), "\(text)")
    #expect(text.contains("lookNear("))
  }

  @Test func aFrameThatStepsOverTheGuardIsTold() async {
    let result = await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
      // Owns the stack below.
      let channel = Channel<Int>()
      let neighbour = Coroutine.immediate(stackSize: 640 << 10) { try channel.receive() }
      _ = try await Coroutine(name: "wide", stackSize: 640 << 10) { recurseWidely(0) }.value
      _ = try await neighbour.value
    }
    let text = report(result)
    #expect(text.contains("stack overflow in coroutine 2 \"wide\" (640 KiB stack)"), "\(text)")
    #expect(text.contains("recurseWidely(_:) at StackOverflowLimitTests.swift:"))
    #expect(text.contains("in StackOverflowLimitTests.aFrameThatStepsOverTheGuardIsTold"))
  }

  @Test func aGeneratorsFrameThatStepsOverTheGuardIsTold() async {
    let result = await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
      let consumer = Coroutine(name: "consumer") {
        // The generator's stack lies above its consumer's.
        let numbers = Generator<Int> { yield in try yield(recurseWidely(0)) }
        return numbers.next() ?? 0
      }
      _ = try await consumer.value
    }
    let text = report(result)
    #expect(text.contains("stack overflow in a generator of coroutine 1 \"consumer\" ("), "\(text)")
    #expect(text.contains("in StackOverflowLimitTests.aGeneratorsFrameThatStepsOverTheGuardIsTold"))
  }

  @Test func aStrayPointerIntoTheConsumersGuardIsNoOverflow() async {
    let result = await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
      let pool = try StackPool.shared(stackSize: 640 << 10)
      let channel = Channel<Int>()
      // The first coroutine has the lowest stack, and the generator the next one.
      let first = Coroutine.immediate(stackSize: 640 << 10) { try channel.receive() }
      let consumer = Coroutine.immediate(stackSize: 640 << 10) {
        _ = try channel.receive()
        var guards: Range<UInt>?
        pool.forEachLiveStack { if $0.contains(UInt(bitPattern: coroutine_frame_address())) { guards = $0.guardRange } }
        let place = try #require(guards).upperBound - 64
        let numbers = Generator<Int>(stackSize: 640 << 10) { yield in
          #expect(UInt(bitPattern: coroutine_frame_address()) < place)
          UnsafeMutablePointer<Int>(bitPattern: place)!.pointee = 1
          try yield(1)
        }
        return numbers.next() ?? 0
      }
      try await channel.send(1)
      _ = try await first.get()
      try await channel.send(1)
      _ = try await consumer.get()
    }
    #expect(!report(result).contains("stack overflow"))
  }
}

/// Goes down to just above `limit`, and stores into the lowest byte that a frame of `frame` bytes would have there.
@inline(never)
private func storeBelow(_ limit: UnsafeMutableRawPointer, frame: Int) -> Int {
  let here = UnsafeMutableRawPointer(mutating: coroutine_frame_address()!)
  if here - limit > 4096 { return storeBelow(limit, frame: frame) &* 3 ^ frame }
  (here - frame).storeBytes(of: 0xff, as: UInt8.self)
  return frame
}

/// Goes down to just above `limit`, and there uses types for the first time.
@inline(never)
private func lookNear(_ limit: UnsafeMutableRawPointer) -> Int {
  let here = UnsafeMutableRawPointer(mutating: coroutine_frame_address()!)
  if here - limit > 4096 { return lookNear(limit) &* 3 ^ 1 }
  let value: Any = Nested<[String: Set<Int>]>.Part<Result<[Int], any Error>>.Kind<(Int, String)>.none
  return "\(type(of: value))".utf8.count
}

private struct Nested<One> {
  var one: One?
  struct Part<Two> {
    var one: One?
    var two: Two?
    enum Kind<Three> {
      case one(One)
      case two([Two].Type)
      case three(Three)
      case none
    }
  }
}

/// Counts threads.
private final class Count: Sendable {
  private let count = Atomic<Int>(0)
  var value: Int { count.load(ordering: .acquiring) }
  func add() { count.add(1, ordering: .releasing) }
}
