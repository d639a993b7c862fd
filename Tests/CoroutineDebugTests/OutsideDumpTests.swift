import CCoroutine
import Coroutine
import CoroutineIO
import CoroutineInspection
import CoroutineTestSupport
import Foundation
import Testing

@testable import CoroutineDebug

/// Dumps of another process. It is a copy of this one, so that this process's own dump has to say the same.
@Suite(.ownThreads, .enabled(if: ForkedProcess.canBeInspected, "no process may look at another one here"))
struct OutsideDumpTests {
  // MARK: Agreement

  @Test func textAndJSONAreTheSameToTheLastByte() async {
    await #expect(processExitsWith: .success) {
      CoroutineDump.recordsTimes = false
      CoroutineDump.recordsCreation = true
      let channel = Channel<Int>(name: "jobs")
      let mutex = CoroutineMutex(0, name: "m")
      let coroutines = (0..<20).map { index in
        Coroutine.immediate(name: "worker \(index)") {
          if index % 2 == 0 {
            _ = try channel.receive()
          } else {
            try mutex.withLock { $0 = try channel.receive() }
          }
        }
      }
      let numbers = Generator<Int> { yield in try yield(1) }
      _ = numbers.next()
      var ends: [Int32] = [0, 0]
      try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
      let socket = try Descriptor(adopting: ends[0], name: "TCP 127.0.0.1:5432")
      let client = Coroutine.immediate(name: "client") { try socket.waitUntilReadable() }
      let copy = ForkedProcess()
      for format in [CoroutineDump.Format.text, .json] {
        for isBrief in [true, false] {
          var options = CoroutineDump.Options(format: format)
          options.tree = true
          (options.groups, options.folds) = (isBrief, isBrief)
          let inside = withoutProcess(try written { try CoroutineDump.write(to: $0, options: options) })
          let outside = withoutProcess(
            try written { try copy.write(to: $0, options: options) })
          #expect(inside == outside)
          #expect(inside.contains("worker 7"))
          #expect(inside.contains("read on TCP 127.0.0.1:5432"))
        }
      }
      channel.close()
      for coroutine in coroutines { _ = try? await coroutine.get() }
      numbers.cancel()
      // A `close` would not end it: the copy has the descriptor, too.
      write(ends[1], "x", 1)
      try await client.get()
      close(ends[1])
    }
  }

  /// The kernel appends a mark to the path of a file that is gone. A folder's name may end with the same mark.
  @Test func anExecutableThatIsGoneKeepsItsPathAndItsNames() throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "coroutine (deleted) \(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(at: folder) }
    let path = folder.appending(path: "program").path
    // Copied by another process. A file that this process has open for writing can't be executed. A program that
    // another thread has started meanwhile may inherit the descriptor, and keep it open.
    let copying = try Process.run(URL(filePath: "/bin/cp"), arguments: [DumpedProgram.executable, path])
    copying.waitUntilExit()
    try #require(copying.terminationStatus == 0)
    let program = try DumpedProgram(at: path)
    for isGone in [false, true] {
      if isGone { unlink(path) }
      let dump = try written {
        try CoroutineDump.write(of: .running(program.id), to: $0, options: .init(format: .json))
      }
      #expect(dump.contains("\"executable\":\"\(path)\""))
      #expect(dump.contains("\"image\":\"\(path)\"") && dump.contains("\"function\":\"descend(_:_:)\""))
      #expect(!dump.contains("\"warnings\""))
    }
    withExtendedLifetime(program) {}
  }

  @Test func coroutinesInThePoolsQueuesAreFound() async {
    await #expect(processExitsWith: .success) {
      let pool = ThreadPool(threads: 2)
      let (isBusy, isFull, isOver) = (Gate(), Gate(), Gate())
      // The other worker is busy, so it takes nothing.
      let busy = Coroutine(on: pool) {
        isBusy.open()
        isOver.wait()
      }
      isBusy.wait()
      // Fills its own worker's queues, and keeps the worker until the dump was made.
      let filling = Coroutine(on: pool) {
        let new = (0..<400).map { index in Coroutine(on: pool, name: "inside \(index)") {} }
        isFull.open()
        isOver.wait()
        return new
      }
      isFull.wait()
      let outside = try ForkedProcess().capture()
      isOver.open()
      let new = try await filling.get()
      for coroutine in new { #expect(outside[coroutine.id]?.name.hasPrefix("inside") == true) }
      #expect(outside[filling.id]?.state == .running)
      for coroutine in new { try await coroutine.get() }
      try await busy.get()
    }
  }

  // MARK: The process

  @Test(.disabled(if: coroutine_sanitizers_active(), "a copy by fork must not start threads there"))
  func theProcessGoesOnAfterwards() async {
    await #expect(processExitsWith: .success) {
      let copy = ForkedProcess {
        // Threads that come and go all the time: it takes more than one look to stop them all.
        for _ in 0..<3 {
          var thread = pthread_t()
          pthread_create(
            &thread, nil,
            { _ in
              while true {
                var brief = pthread_t()
                if pthread_create(&brief, nil, { _ in nil }, nil) == 0 { pthread_join(brief, nil) }
              }
            }, nil)
        }
      }
      for _ in 0..<10 {
        _ = try copy.capture()
        #expect(copy.status("TracerPid") == "0")
      }
      #expect(!copy.status("State").hasPrefix("t") && !copy.status("State").hasPrefix("T"))
    }
  }

  @Test func aStoppedProcessStaysStopped() async {
    await #expect(processExitsWith: .success) {
      let copy = ForkedProcess()
      kill(copy.id, SIGSTOP)
      var status: CInt = 0
      #expect(waitpid(copy.id, &status, WUNTRACED) == copy.id)
      _ = try copy.capture()
      // On its way there the process goes through other states.
      while !copy.status("State").hasPrefix("T") { sched_yield() }
    }
  }

  /// As with `dispatchMain()`: the process's first thread has ended, and the others go on.
  @Test(.disabled(if: coroutine_sanitizers_active(), "a copy by fork must not start threads there"))
  func aProcessWhoseFirstThreadHasEndedIsLookedAt() async {
    await #expect(processExitsWith: .success) {
      let channel = Channel<Int>(name: "jobs")
      let waiting = Coroutine.immediate(name: "waiting") { _ = try channel.receive() }
      let copy = ForkedProcess {
        ForkedProcess.startThread { _ in ForkedProcess.stay() }
        ForkedProcess.endThread()
      }
      while !copy.status("State").hasPrefix("Z") { sched_yield() }
      let dump = try copy.capture()
      #expect(dump[waiting.id]?.waitsFor == #"receive on channel "jobs" (1 receiver)"#)
      let steps = try backtrace(of: waiting).steps
      #expect(dump[waiting.id]?.steps == steps)
      #expect(copy.status("TracerPid") == "0")
      channel.close()
      _ = try? await waiting.get()
    }
  }

  /// A thread that waits for a child by `vfork`, or for a disk, can be stopped only after that.
  @Test(.disabled(if: coroutine_sanitizers_active(), "a copy by fork must not start threads there"))
  func aThreadThatCannotBeStoppedIsNamedAndTheOthersGoOn() async {
    await #expect(processExitsWith: .success) {
      let copy = ForkedProcess {
        ForkedProcess.startThread { _ in
          ForkedProcess.waitForChild()
          return nil
        }
      }
      var others: [String] = []
      var stuck: String?
      while stuck == nil {
        let all = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(copy.id)/task")
        stuck = all.first { copy.status("State", of: $0).hasPrefix("D") }
        others = all.filter { $0 != stuck }
      }
      let problem = try #require(copy.problem)
      #expect(problem.reason == .system)
      let thread = try #require(stuck)
      #expect(problem.description.contains("thread \(thread)"), "\(problem)")
      #expect(problem.description.contains("can't be stopped"), "\(problem)")
      for other in others {
        #expect(copy.status("TracerPid", of: other) == "0")
        #expect(!copy.status("State", of: other).lowercased().hasPrefix("t"))
      }
    }
  }

  // MARK: Errors

  @Test func processesThatCannotBeLookedAtAreReported() async {
    await #expect(processExitsWith: .success) {
      #expect(reason(-1) == .noProcess)
      #expect(reason(0x3fff_ffff) == .noProcess)
      #expect(reason(getpid()) == .notPermitted)

      let ended = ForkedProcess { _exit(0) }
      // A child that has ended, and whose parent has not waited for it.
      var info = siginfo_t()
      #expect(waitid(P_PID, id_t(ended.id), &info, WEXITED | WNOWAIT) == 0)
      #expect(ended.problem?.reason == .noProcess)

      let traced = ForkedProcess { _ = ForkedProcess.ptrace(0, 0, 0, 0) }
      while traced.status("TracerPid") == "0" { sched_yield() }
      #expect(traced.problem?.reason == .notPermitted)
      #expect(traced.problem?.description.contains("is being debugged by process \(getpid())") == true)

      var id: pid_t = 0
      let arguments = [strdup("sleep"), strdup("1000"), nil]
      defer { for argument in arguments { free(argument) } }
      try #require(posix_spawn(&id, "/bin/sleep", nil, nil, arguments, nil) == 0)
      // Until it has executed the new program, it is still a copy of this one.
      while reason(id) != .noRuntime { sched_yield() }
      kill(id, SIGKILL)
    }
  }

  @Test func otherVersionsOfTheRuntimeAreReportedAndUnusedOnesAreEmpty() async {
    await #expect(processExitsWith: .success) {
      let generator = Generator<Int> { yield in try yield(1) }
      _ = generator.next()
      let newer = ForkedProcess { coroutine_debug_layout_address()!.pointee.version = 999 }
      // Until the copy has got that far.
      while newer.problem == nil { sched_yield() }
      #expect(newer.problem?.reason == .otherVersion)
      #expect(newer.problem?.description.contains("its layout is 999") == true)
      // After its head the older structure has another layout: no field of it may be read.
      let older = ForkedProcess {
        let layout = UnsafeMutableRawPointer(coroutine_debug_layout_address()!)
        memset(layout + 16, 0xff, MemoryLayout<coroutine_debug_layout>.size - 16)
        layout.storeBytes(of: 2, toByteOffset: 8, as: UInt32.self)
        layout.storeBytes(of: 400, toByteOffset: 12, as: UInt32.self)
      }
      while older.problem?.description.contains("its layout is 2, and") != true { sched_yield() }
      #expect(older.problem?.reason == .otherVersion)
      let unfinished = ForkedProcess { coroutine_debug_layout_address()!.pointee.size -= 8 }
      while unfinished.problem == nil { sched_yield() }
      #expect(unfinished.problem?.reason == .otherVersion)
      let size = MemoryLayout<coroutine_debug_layout>.size
      #expect(unfinished.problem?.description.contains("with \(size - 8) bytes, and \(size) bytes is what") == true)
      let unused = ForkedProcess { coroutine_debug_layout_address()!.pointee.is_complete = 0 }
      while try !unused.capture().coroutines.isEmpty { sched_yield() }
      generator.cancel()
    }
  }

  @Test func whatTheProcessHasOverwrittenIsReportedOrLeftOut() async {
    await #expect(processExitsWith: .success) {
      let channel = Channel<Int>()
      let waiting = Coroutine.immediate { _ = try channel.receive() }
      let queue = DispatchQueue(label: "closed")
      queue.suspend()
      let new = Coroutine(on: queue) {}

      let layout = coroutine_debug_layout_address()!.pointee
      let arena = word(word(word(layout.stack_pools).pointee).pointee + layout.pool_newest_arena).pointee
      for (place, value) in [
        (layout.arena_base, .max - 7), (layout.arena_stack_size, .max), (layout.arena_older, arena),
      ] {
        let copy = ForkedProcess { word(arena + place).pointee = value }
        // Until the copy has got that far.
        while copy.problem == nil { sched_yield() }
        #expect(copy.problem?.reason == .noRuntime)
      }
      let copy = ForkedProcess { coroutine_debug_layout_address()!.pointee.unstarted_rows = .max - 7 }
      while try copy.capture()[new.id] != nil { sched_yield() }
      #expect(try copy.capture()[waiting.id]?.state == .suspended)

      queue.resume()
      channel.close()
      try await new.get()
      _ = try? await waiting.get()
    }
  }
}

/// The word at the address.
private func word(_ address: UInt64) -> UnsafeMutablePointer<UInt64> {
  UnsafeMutablePointer(bitPattern: UInt(address))!
}

private func reason(_ id: CInt) -> InspectionError.Reason? {
  do throws(InspectionError) {
    _ = try CoroutineDump.capture(of: .running(id))
    return nil
  } catch {
    return error.reason
  }
}

/// What `write` writes to a descriptor.
func written(_ write: (CInt) throws -> Void) throws -> String {
  var path = Array("/tmp/coroutine-dump-XXXXXX".utf8CString)
  let file = mkstemp(&path)
  unlink(path)
  defer { close(file) }
  try write(file)
  let size = Int(lseek(file, 0, SEEK_END))
  return String(unsafeUninitializedCapacity: size) { max(0, pread(file, $0.baseAddress, size, 0)) }
}

/// The JSON without its beginning, which has the process and the time.
private func withoutProcess(_ text: String) -> String {
  guard text.hasPrefix("{"), let start = text.firstRange(of: "\"coroutines\":") else { return text }
  return String(text[start.lowerBound...])
}

/// Blocks threads until it is opened.
private final class Gate: Sendable {
  private let semaphore = DispatchSemaphore(value: 0)

  func open() { semaphore.signal() }

  /// May be called by any number of threads.
  func wait() {
    semaphore.wait()
    semaphore.signal()
  }
}
