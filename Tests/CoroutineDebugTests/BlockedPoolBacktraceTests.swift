import CCoroutine
import CCoroutineUnwind
import Coroutine
import CoroutineDebug
import CoroutineTestSupport
import Foundation
import Testing

/// A pipe whose reader blocks its thread.
private struct Pipe: Sendable {
  let reader, writer: CInt

  init() {
    var ends: [CInt] = [-1, -1]
    precondition(pipe(&ends) == 0)
    (reader, writer) = (ends[0], ends[1])
  }

  func open() {
    var byte: UInt8 = 1
    _ = Foundation.write(writer, &byte, 1)
  }
}

// What blocks a thread. Each returns what the system call has returned, which must be no error: nothing has happened to it.

@inline(never)
private func readByte(_ pipe: Pipe) -> Int {
  var byte: UInt8 = 0
  let count = read(pipe.reader, &byte, 1)
  return count + Int(byte) - 1
}

@inline(never)
private func pollForByte(_ pipe: Pipe, milliseconds: CInt) -> Int {
  var events = pollfd(fd: pipe.reader, events: Int16(POLLIN), revents: 0)
  let count = poll(&events, 1, milliseconds)
  return Int(count) + Int(events.revents & Int16(POLLIN)) - Int(POLLIN)
}

@inline(never)
private func sleepForAnHour() -> CInt {
  // More than the call, so that it is no jump.
  let left = sleep(3600)
  return CInt(left) * 2 + 1
}

@inline(never)
private func readByteWhereLibrariesAreListed(_ pipe: Pipe) -> Int {
  withUnsafePointer(to: pipe) { pipe in
    let count = listLibraries(
      { _, _, pipe in CInt(readByte(pipe!.load(as: Pipe.self))) }, UnsafeMutableRawPointer(mutating: pipe))
    return Int(count)
  }
}

/// `dl_iterate_phdr`, which Swift sees only with the GNU extensions. It calls `body` with the loader's lock held.
private let listLibraries = unsafeBitCast(
  // That C function has this type.
  dlsym(nil, "dl_iterate_phdr"),
  to: (@convention(c) (
    _ body: @convention(c) (UnsafeRawPointer?, Int, UnsafeMutableRawPointer?) -> CInt, UnsafeMutableRawPointer?
  ) -> CInt).self)

/// Whether some thread of the process sleeps in `sleep`.
private func isSomeThreadAsleep() throws -> Bool {
  try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").contains { thread in
    var call = coroutine_blocked_call()
    guard coroutine_blocked_call_of(pid_t(thread)!, &call) == COROUTINE_THREAD_IN_CALL else { return false }
    return coroutine_call_name(call.number).map { String(cString: $0) } == "clock_nanosleep"
  }
}

/// The report on a pool whose workers are all blocked has their coroutines' backtraces in a program that links CoroutineDebug.
@Suite(
  .ownThreads, .enabled(if: access("/proc/self/syscall", R_OK) == 0, "the kernel does not tell who would notice"),
  .disabled(if: coroutine_sanitizers_active(), "sanitizers hold signals back until a thread calls them"))
struct BlockedPoolBacktraceTests {
  private func output(of result: ExitTest.Result?) -> String {
    String(decoding: result?.standardOutputContent ?? [], as: UTF8.self)
  }

  @Test func theReportHasTheBacktracesOfThoseThatBlock() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      let words = WordsOnStandardError(secondsUntilTold: "3")
      let pool = ThreadPool(threads: 2)
      let (first, second) = (Pipe(), Pipe())
      let reader = Coroutine(on: pool, name: "reader") { readByte(first) }
      let poller = Coroutine(on: pool, name: "poller") { pollForByte(second, milliseconds: -1) }
      let waiting = Coroutine(on: pool, name: "waiting") {}
      print(words.nextParagraph())
      first.open()
      second.open()
      // As if nothing had happened.
      #expect(try await reader.get() == 1)
      #expect(try await poller.get() == 1)
      try await waiting.get()
    }
    let text = output(of: result)
    #expect(text.contains("Their backtraces follow."), "\(text)")
    let parts = text.split(separator: /coroutine \d+ "(reader|poller)":\n/)
    #expect(parts.count == 3, "\(text)")
    #expect(parts.count { $0.contains("readByte(_:) at BlockedPoolBacktraceTests.swift:") } == 1, "\(text)")
    #expect(parts.count { $0.contains("pollForByte(_:milliseconds:) at BlockedPool") } == 1, "\(text)")
  }

  @Test func aSleepThatIsAskedWhereItStandsGoesOn() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      let words = WordsOnStandardError(secondsUntilTold: "3")
      let pool = ThreadPool(threads: 1)
      let sleeper = Coroutine(on: pool, name: "sleeper") {
        leave(sleepForAnHour() & 0xff)
      }
      let waiting = Coroutine(on: pool) {}
      print(words.nextParagraph())
      // It is let go by now, and either comes to an end, and ends the process, or is asleep again, with the rest of its hour.
      while try !isSomeThreadAsleep() { sched_yield() }
      withExtendedLifetime((sleeper, waiting)) { leave() }
    }
    #expect(output(of: result).contains("sleepForAnHour() at BlockedPoolBacktraceTests.swift:"))
  }

  @Test func aCallThatWouldEndEarlyIsLeftAlone() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      let words = WordsOnStandardError(secondsUntilTold: "3")
      let pool = ThreadPool(threads: 1)
      let pipe = Pipe()
      let poller = Coroutine(on: pool, name: "poller") { pollForByte(pipe, milliseconds: 3_600_000) }
      let waiting = Coroutine(on: pool) {}
      print(words.nextParagraph())
      pipe.open()
      #expect(try await poller.get() == 1)
      try await waiting.get()
    }
    let text = output(of: result)
    #expect(text.contains("\"poller\" (in "), "\(text)")
    #expect(text.contains("\"poller\":\n     (unknown: "), "\(text)")
  }

  @Test func aThreadThatBlocksTheSignalIsNotWaitedForForLong() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      let words = WordsOnStandardError(secondsUntilTold: "3")
      let pool = ThreadPool(threads: 1)
      let pipe = Pipe()
      let blocker = Coroutine(on: pool, name: "blocker") {
        var (all, before) = (sigset_t(), sigset_t())
        sigfillset(&all)
        pthread_sigmask(SIG_BLOCK, &all, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        return readByte(pipe)
      }
      let waiting = Coroutine(on: pool) {}
      print(words.nextParagraph())
      pipe.open()
      #expect(try await blocker.get() == 1)
      try await waiting.get()
    }
    #expect(output(of: result).contains("\"blocker\":\n     (unknown: "))
  }

  /// The walk of a stack waits for that lock: the coroutines of other pools go on meanwhile, and the words were said before.
  @Test func aBlockedThreadMayHoldTheLoadersLock() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      let words = WordsOnStandardError(secondsUntilTold: "3")
      let pool = ThreadPool(threads: 1)
      let other = ThreadPool(threads: 1)
      try await Coroutine(on: other) {}.get()
      let pipe = Pipe()
      let holder = Coroutine(on: pool, name: "holder") { readByteWhereLibrariesAreListed(pipe) }
      let waiting = Coroutine(on: pool) {}
      let first = words.next()
      for _ in 1...1000 { try await Coroutine(on: other) { Coroutine.yield() }.get() }
      pipe.open()
      print(first + "\n" + words.nextParagraph())
      #expect(try await holder.get() == 1)
      try await waiting.get()
    }
    #expect(output(of: result).contains("been blocked for 3 s, in coroutine"))
  }
}
