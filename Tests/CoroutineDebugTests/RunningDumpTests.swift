import CCoroutine
import Coroutine
import CoroutineInspection
import CoroutineTestSupport
import Foundation
import Testing

@testable import CoroutineDebug

/// Blocks its thread in a system call that signals interrupt, until it is opened.
private final class Door: Sendable {
  private let ends: (read: CInt, write: CInt)
  private let visitor = DispatchSemaphore(value: 0)

  init() {
    var ends: [CInt] = [0, 0]
    pipe(&ends)
    self.ends = (ends[0], ends[1])
  }

  deinit {
    close(ends.read)
    close(ends.write)
  }

  func open() {
    var byte: UInt8 = 1
    _ = Foundation.write(ends.write, &byte, 1)
  }

  func awaitVisitor() { visitor.wait() }

  /// What `read` returned.
  @inline(never)
  func wait() -> Int {
    var byte: UInt8 = 0
    visitor.signal()
    let count = read(ends.read, &byte, 1)
    return count + Int(byte) - 1
  }
}

private let enterLine = #line
@inline(never)
private func enter(_ depth: Int, _ door: Door) -> Int {
  guard depth > 0 else { return door.wait() + 1 }
  return enter(depth - 1, door) + 1
}

@inline(never)
private func total(_ numbers: Generator<Int>) -> Int {
  var total = 0
  for number in numbers { total += number }
  return total
}

/// A copy of this process whose thread runs a coroutine, and that coroutine's number.
private func copiedInACoroutine() throws -> (UInt64, ForkedProcess) {
  try runUntilComplete { (Coroutine.currentID!, ForkedProcess()) }
}

/// Backtraces of running coroutines. The tests run one after the other: each interrupts all threads, and a thread in
/// a signal handler can't be inspected from outside.
@Suite(
  .ownThreads,
  .serialized, .disabled(if: coroutine_sanitizers_active(), "sanitizers hold signals back until a thread calls them"))
struct RunningDumpTests {
  /// A dump made while the coroutine blocks at the door.
  private func dump(of id: UInt64, at door: Door) throws -> CoroutineDump {
    door.awaitVisitor()
    var dump: CoroutineDump?
    // The coroutine may not have got there yet, and may get no processor for a while on a busy machine.
    try look {
      let looked = try CoroutineDump.capture(interruptsThreads: true)
      let frames = looked[id]?.frames ?? []
      dump = looked
      return frames.count > 1 && frames[0].image?.contains("libc.so") == true && frames[1].function == "Door.wait()"
    }
    return try #require(dump)
  }

  @Test func aCoroutineThatRunsOnAnotherThreadHasABacktrace() throws {
    let door = Door()
    let line = #line + 1
    let coroutine = Coroutine(on: ThreadPool(threads: 1), name: "guest") { enter(2, door) }
    let found = try #require(try dump(of: coroutine.id, at: door)[coroutine.id])
    #expect(found.state == .running && !found.isUnanswered)
    let level = Step("enter(_:_:)", enterLine + 4)
    let steps = found.steps.drop { $0.function != "enter(_:_:)" }
    #expect(
      Array(steps) == [
        Step("enter(_:_:)", enterLine + 3), level, level,
        Step("closure #1 in RunningDumpTests.aCoroutineThatRunsOnAnotherThreadHasABacktrace()", line),
      ])
    // Then follow its resumer's frames, as far as the optimiser has left them, out to the thread's beginning.
    #expect(found.frames.last?.image?.contains("libc.so") == true, "\(found.frames)")
    #expect(try #require(found.stackUsed) > 100)
    // The wait went on: the signal had no other effect.
    door.open()
    #expect(try coroutine.getBlocking() == 4)
  }

  @Test func itHasNoneIfThreadsMustNotBeInterrupted() throws {
    let door = Door()
    let coroutine = Coroutine(on: ThreadPool(threads: 1)) { enter(0, door) }
    _ = try dump(of: coroutine.id, at: door)
    let found = try #require(try CoroutineDump.capture()[coroutine.id])
    #expect(found.state == .running && found.frames.isEmpty && found.stackUsed == nil && !found.isUnanswered)
    door.open()
    #expect(try coroutine.getBlocking() == 2)
  }

  @Test func theGeneratorsThatItRunsArePartOfIt() throws {
    let door = Door()
    let coroutine = Coroutine(on: ThreadPool(threads: 1)) {
      total(Generator { yield in try yield(enter(0, door)) })
    }
    let found = try #require(try dump(of: coroutine.id, at: door)[coroutine.id])
    let functions = found.steps.map(\.function).drop { $0 != "enter(_:_:)" }
    let here = "RunningDumpTests.theGeneratorsThatItRunsArePartOfIt()"
    #expect(
      Array(functions) == ["enter(_:_:)", "closure #1 in closure #1 in \(here)", "total(_:)", "closure #1 in \(here)"])
    door.open()
    #expect(try coroutine.getBlocking() == 2)
  }

  @Test func theResumerFollowsAndHasABacktraceOfItsOwn() throws {
    let door = Door()
    let ids = Channel<UInt64>(capacity: .buffered(1))
    let outer = Coroutine(on: ThreadPool(threads: 1), name: "outer") {
      let inner = Coroutine.immediate(name: "inner") {
        try ids.send(Coroutine.currentID!)
        return enter(0, door)
      }
      return try inner.get() + 1
    }
    let innerID = try ids.receiveBlocking()
    let dump = try dump(of: innerID, at: door)
    let inner = try #require(dump[innerID])
    let here = "RunningDumpTests.theResumerFollowsAndHasABacktraceOfItsOwn()"
    #expect(
      inner.steps.map(\.function).drop { $0 != "enter(_:_:)" }
        == ["enter(_:_:)", "closure #1 in closure #1 in \(here)", "closure #1 in \(here)"])
    let found = try #require(dump[outer.id])
    #expect(found.state == .running && found.steps.map(\.function) == ["closure #1 in \(here)"])
    #expect(inner.frames.suffix(found.frames.count) == found.frames[...])
    door.open()
    #expect(try outer.getBlocking() == 3)
  }

  @Test func theOneThatMakesTheDumpGoesOnIntoItsResumer() throws {
    let frames = try runUntilComplete { try CoroutineDump.capture()[Coroutine.currentID!]!.steps.map(\.function) }
    let here = "RunningDumpTests.theOneThatMakesTheDumpGoesOnIntoItsResumer()"
    #expect(frames.starts(with: ["closure #1 in \(here)", here]), "\(frames)")
  }

  /// When coroutines yield, the pool's loop does not always run the next one. It does return to the loop, though.
  @Test func theNextAfterOneThatYieldedGoesOnIntoTheLoop() async {
    // Where something observes the turns, they begin in the loop.
    await #expect(processExitsWith: .success) {
      CoroutineDump.recordsTimes = false
      let pool = ThreadPool(threads: 1)
      let coroutines = try await Coroutine(on: pool) {
        (0..<2).map { _ in
          Coroutine {
            try (0..<3).map { _ in
              defer { Coroutine.yield() }
              return try CoroutineDump.capture()[Coroutine.currentID!]!.frames.suffix(2)
            }
          }
        }
      }.get()
      var ends: [ArraySlice<CoroutineBacktrace.Frame>] = []
      for coroutine in coroutines { ends += try await coroutine.get() }
      // The thread's beginning, the same for all.
      #expect(ends.count == 6 && ends.allSatisfy { $0.count == 2 && $0.elementsEqual(ends[0]) })
    }
  }

  @Test func aThreadThatBlocksTheSignalIsSaidNotToAnswer() async {
    await #expect(processExitsWith: .success) {
      let door = Door()
      let isIn = Channel<Void>(capacity: .buffered(1))
      let coroutine = Coroutine(on: ThreadPool(threads: 1)) {
        var all = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_BLOCK, &all, nil)
        try isIn.send(())
        return door.wait()
      }
      try await isIn.receive()
      let dump = try CoroutineDump.capture(interruptsThreads: true)
      #expect(dump[coroutine.id]?.isUnanswered == true)
      #expect(dump[coroutine.id]?.frames.isEmpty == true)
      #expect(dump.description.contains("(its thread did not answer)"))
      leave()
    }
  }

  @Test func signalsOfOthersStillReachTheirHandler() async {
    await #expect(processExitsWith: .success) {
      signal(SIGURG) { _ in leave(EXIT_SUCCESS) }
      let coroutine = Coroutine(on: ThreadPool(threads: 1)) { while true { sched_yield() } }
      while try CoroutineDump.capture(interruptsThreads: true)[coroutine.id]?.frames.isEmpty != false {}
      kill(getpid(), SIGURG)
      while true { sched_yield() }
    }
  }

  /// The process that this one has started inspects it.
  @Test(.enabled(if: ForkedProcess.canBeInspected, "no process may look at another one here"))
  func itIsTheSameFromOutside() async throws {
    let door = Door()
    let coroutine = Coroutine(on: ThreadPool(threads: 1), name: "seen") {
      total(Generator { yield in try yield(enter(3, door)) })
    }
    let inside = try #require(try dump(of: coroutine.id, at: door)[coroutine.id])
    let addresses = inside.frames.map(\.address)
    let used = inside.stackUsed
    await #expect(processExitsWith: .success) {
      [id = coroutine.id as UInt64, addresses = addresses as [UInt], used = used as Int?] in
      do throws(InspectionError) {
        let outside = try CoroutineDump.capture(of: .running(getppid()))[id]
        #expect(outside?.state == .running)
        #expect(outside?.frames.map(\.address) == addresses)
        #expect(outside?.stackUsed == used)
      } catch {
        // A system that lets processes inspect their children may not let them inspect their parents.
        #expect(error.reason == .notPermitted)
      }
    }
    door.open()
    #expect(try await coroutine.get() == 5)
  }

  @Test(.enabled(if: ForkedProcess.canBeInspected, "no process may look at another one here"))
  func liveProcessAndCoreFileAgreeOnIt() async {
    await #expect(processExitsWith: .success) {
      let (id, copy) = try copiedInACoroutine()
      while !copy.status("State").hasPrefix("S") { sched_yield() }
      let core = try CoreFile(of: copy)
      let live = try #require(try copy.capture()[id])
      let left = try #require(
        try CoroutineDump.capture(of: .core(core.path, executable: CoreFile.executable))[id])
      #expect(live.state == .running && live.frames == left.frames && live.stackUsed == left.stackUsed)
      #expect(live.frames.contains { $0.function?.hasPrefix("ForkedProcess.init") == true })
      #expect(live.frames.contains { $0.function?.hasPrefix("runUntilComplete") == true })
    }
  }
}
