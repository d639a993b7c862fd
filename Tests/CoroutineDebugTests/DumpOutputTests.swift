import CCoroutine
import Coroutine
import CoroutineDebug
import CoroutineTestSupport
import Foundation
import Testing

@inline(never)
private func outputWaits(_ channel: Channel<Int>) throws -> Int {
  try channel.receive() + 1
}

/// All parts of what is written, as one string.
private func written(_ options: CoroutineDump.Options) throws -> String {
  var bytes: [UInt8] = []
  try CoroutineDump.write(options: options) { bytes.append(contentsOf: $0) }
  return String(decoding: bytes, as: UTF8.self)
}

// TIOCSPTLCK and TIOCGPTPEER, which Swift does not import.
private let unlockTerminal: UInt = 0x4004_5431
private let openTerminal: UInt = 0x5441

@Suite(.ownThreads) struct DumpOutputTests {
  let channel = Channel<Int>(name: "output")

  /// Closes the channel and waits for the coroutines' ends. One expectation for all: one in which an error is thrown
  /// looks through all errors that there are.
  private func endAll(_ coroutines: [Coroutine<Int, any Error>]) {
    let ended = coroutines.filter { (try? $0.getBlocking()) == nil }
    #expect(ended.count == coroutines.count)
  }

  /// Coroutines that are suspended, and a function that ends them.
  private func suspend(_ count: Int) -> (coroutines: [Coroutine<Int, any Error>], end: () throws -> Void) {
    let coroutines = (0..<count).map { index in
      Coroutine.immediate(name: "waiting \(index)") { try outputWaits(channel) }
    }
    return (
      coroutines,
      {
        channel.close()
        endAll(coroutines)
      }
    )
  }

  @Test func theJSONIsAsItsSchemaSays() throws {
    // More than one batch, and coroutines of all kinds.
    let (coroutines, end) = suspend(2500)
    let numbers = Generator<Int> { yield in for number in 0... { try yield(number) } }
    _ = numbers.next()
    let sleeper = Coroutine.immediate(name: "a \"quoted\"\n\u{1} näme") { try Coroutine.sleep(for: .seconds(5000)) }
    let pool = ThreadPool(threads: 1)
    let dumping = Coroutine(on: pool) {
      _ = Coroutine(on: pool, name: "new") {}
      return try written(.init(format: .json))
    }
    let text = try dumping.getBlocking()
    let json = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    let schema = #filePath.split(separator: "/").dropLast(3).reduce("") { "\($0)/\($1)" } + "/docs/dump-schema.json"
    try JSONSchema(contentsOf: schema).validate(json)

    let all = try #require(json["coroutines"] as? [[String: Any]])
    let stacks = try #require(json["stacks"] as? [[[String: Any]]])
    #expect(json["count"] as? Int == all.count)
    let byID = Dictionary(grouping: all.filter { $0["kind"] as? String == "coroutine" }) { $0["id"] as? UInt64 ?? 0 }
    #expect(byID.values.allSatisfy { $0.count == 1 })
    for coroutine in coroutines {
      let found = try #require(byID[coroutine.id]?.first)
      #expect(found["state"] as? String == "suspended")
      #expect(found["name"] as? String == coroutine.name)
      let frames = stacks[try #require(found["stack"] as? Int)].filter { $0["runtime"] == nil }
      #expect(frames.first?["function"] as? String == "outputWaits(_:)")
    }
    #expect(byID[sleeper.id]?.first?["name"] as? String == "a \"quoted\"\n\u{1} näme")
    #expect(all.contains { $0["state"] as? String == "new" && $0["name"] as? String == "new" })
    #expect(byID[dumping.id]?.first?["state"] as? String == "running")
    #expect(all.contains { $0["kind"] as? String == "generator" })
    numbers.cancel()
    sleeper.cancel()
    try end()
  }

  @Test func manyAreOneGroupAndEachByItselfIfAskedFor() throws {
    // These wait in a function in which no other test's coroutines wait.
    let coroutines = (0..<1500).map { index in
      Coroutine.immediate(name: "member \(index)") { try outputWaits(channel) * 2 }
    }
    var options = CoroutineDump.Options()
    options.names = false
    let grouped = try written(options).withoutTimes
    #expect(grouped.contains(#"1,500 coroutines: suspended, receive on channel "output" (1500 receivers)"#))
    #expect(grouped.contains("and 1,492 more\n"))
    options.groups = false
    let headings = Set(
      try written(options).withoutTimes.split(separator: "\n").filter { $0.hasPrefix("coroutine ") })
    let waiting = ": suspended, receive on channel \"output\" (1500 receivers)"
    let missing = coroutines.filter { !headings.contains("coroutine \($0.id) \"\($0.name)\"\(waiting)") }
    #expect(missing.isEmpty)
    channel.close()
    endAll(coroutines)
  }

  @Test func withoutNamesThereAreOffsets() throws {
    let (_, end) = suspend(1)
    var options = CoroutineDump.Options()
    options.names = false
    let text = try written(options)
    #expect(!text.contains("outputWaits"))
    #expect(text.contains("+0x"))
    try end()
  }

  @Test func coloursAreForTerminalsUnlessAskedFor() throws {
    let (_, end) = suspend(1)
    var options = CoroutineDump.Options()
    options.names = false
    #expect(!(try written(options)).contains("\u{1B}["))
    options.colors = .always
    let coloured = try written(options)
    #expect(coloured.contains("\u{1B}[33msuspended\u{1B}[0m"))
    try end()
  }

  @Test(arguments: [nil, "", "1"] as [String?])
  func aTerminalGetsColoursUnlessItsUserWantsNone(noColor: String?) async {
    await #expect(processExitsWith: .success) { [noColor] in
      setenv("TERM", "xterm", 1)
      unsetenv("NO_COLOR")
      if let noColor { setenv("NO_COLOR", noColor, 1) }
      // The two ends of a terminal.
      let control = open("/dev/ptmx", O_RDWR | O_NOCTTY)
      var isLocked: Int32 = 0
      guard control >= 0, ioctl(control, unlockTerminal, &isLocked) == 0 else { leave(1) }
      let terminal = ioctl(control, openTerminal, O_RDWR | O_NOCTTY)
      guard terminal >= 0 else { leave(1) }
      let channel = Channel<Int>()
      Coroutine.immediate { try outputWaits(channel) }
      var options = CoroutineDump.Options()
      options.names = false
      try CoroutineDump.write(to: terminal, options: options)
      var buffer = [UInt8](repeating: 0, count: 4096)
      let count = read(control, &buffer, buffer.count)
      let isColoured = buffer[..<max(0, count)].contains(0x1B)
      leave(isColoured == (noColor?.isEmpty ?? true) ? 0 : 2)
    }
  }

  @Test func whatTheSinkThrowsComesOut() throws {
    struct Full: Error {}
    let (_, end) = suspend(3000)
    var options = CoroutineDump.Options()
    options.groups = false
    options.names = false
    var calls = 0
    #expect(throws: Full.self) {
      try CoroutineDump.write(options: options) { _ in
        calls += 1
        throw Full()
      }
    }
    #expect(calls == 1)
    let problem = #expect(throws: CoroutineDumpError.self) { try CoroutineDump.write(to: -1) }
    #expect(problem?.code == EBADF)
    try end()
  }

  @Test func theSinkMayWaitForCoroutines() throws {
    let (_, end) = suspend(3000)
    var options = CoroutineDump.Options(format: .json)
    options.names = false
    var answers = 0
    try CoroutineDump.write(options: options) { _ in answers += try Coroutine { 1 }.getBlocking() }
    #expect(answers > 1)
    try end()
  }

  /// In a service all threads may want a dump, and the dump that is being made waits for one of them.
  @Test func theSinkMayWaitForAnotherDumpAndNoneIsListedTwice() throws {
    let count = amount(3000, sanitized: 600)
    let (suspended, end) = suspend(count)
    let thread = ThreadPool(threads: 1)
    let door = DispatchSemaphore(value: 0)
    let first = Coroutine(on: thread) { door.wait() }
    let new = (0..<count).map { _ in Coroutine(on: thread) {} }
    let ids = suspended.map(\.id) + new.map(\.id)
    let other = ThreadPool(threads: 1)
    var options = CoroutineDump.Options(format: .json)
    options.names = false
    var (output, dumps) = (Data(), 0)
    try CoroutineDump.write(options: options) { part in
      output.append(contentsOf: part)
      // Other tests may have so many coroutines that repeated dumps take too long.
      guard dumps < 4 else { return }
      let listed = Coroutine(on: other) { Set(try CoroutineDump.capture().coroutines.map(\.id)) }
      if try listed.getBlocking().isSuperset(of: ids) { dumps += 1 }
    }
    #expect(dumps == 4)
    let json = try #require(try JSONSerialization.jsonObject(with: output) as? [String: Any])
    let listed = try #require(json["coroutines"] as? [[String: Any]]).filter { $0["kind"] as? String == "coroutine" }
    let counts = Dictionary(listed.map { ($0["id"] as? UInt64, 1) }, uniquingKeysWith: +)
    #expect(ids.allSatisfy { counts[$0] == 1 })
    door.signal()
    for coroutine in new { try coroutine.getBlocking() }
    try first.getBlocking()
    try end()
  }

  /// Some of them begin on stacks that the dump has already passed. In a process of its own, so that no other dump is
  /// made.
  @Test func aCoroutineThatBeginsDuringADumpIsListedOnce() async {
    await #expect(processExitsWith: .success) { try writeWhileManyBegin() }
  }

  /// The dump looks for them by number, in several parts. One with a small number that becomes ready late comes last.
  @Test func aCoroutineScheduledDuringADumpIsListedOnce() async {
    await #expect(processExitsWith: .success) { try writeWhileOneIsScheduled() }
  }

  @Test func theSinkMayAskWhatACoroutineWaitsFor() throws {
    let (suspended, end) = suspend(3000)
    var options = CoroutineDump.Options(format: .json)
    options.names = false
    var answers: Set<String?> = []
    try CoroutineDump.write(options: options) { _ in answers.insert(suspended[0].suspension?.waitsFor) }
    #expect(answers.count == 1 && answers.first.map { $0 != nil } == true)
    try end()
  }

  @Test func aProcessWithoutMemoryGetsADumpWithoutNames() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      let channel = Channel<Int>(name: "narrow")
      let waiting = (0..<2000).map { _ in Coroutine.immediate { try outputWaits(channel) } }
      // Little more address space than is in use.
      var pages = 0
      let file = fopen("/proc/self/statm", "r")
      withUnsafeMutablePointer(to: &pages) { pages in _ = withVaList([pages]) { vfscanf(file!, "%ld", $0) } }
      var limit = rlimit(rlim_cur: UInt(pages * 4096 + (8 << 20)), rlim_max: .max)
      guard setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit) == 0 else { leave(1) }
      try CoroutineDump.write()
      withExtendedLifetime(waiting) {}
      leave()
    }
    let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(text.contains("(too little memory to look up names)"))
    #expect(text.contains("2,000 coroutines: suspended"))  // the time since then depends on the machine
    #expect(text.contains("receive on channel \"narrow\""))
  }

  /// Each number in a process of its own, in which the heap has the same history: what was freed there may be used again.
  @Test(.disabled(if: coroutine_sanitizers_active(), "the sanitizers keep what was freed"))
  func tenTimesAsManyTakeNoMoreMemory() async throws {
    let observed: [any PartialKeyPath<ExitTest.Result> & Sendable] = [\.standardOutputContent]
    let few = await #expect(processExitsWith: .success, observing: observed) { try printGrowth(2000, .text) }
    let many = await #expect(processExitsWith: .success, observing: observed) { try printGrowth(20000, .text) }
    let fewAsJSON = await #expect(processExitsWith: .success, observing: observed) { try printGrowth(2000, .json) }
    let manyAsJSON = await #expect(processExitsWith: .success, observing: observed) { try printGrowth(20000, .json) }
    for (few, many) in [(few, many), (fewAsJSON, manyAsJSON)] {
      let limit = try #require(growth(in: few)) + 1 << 20
      #expect(try #require(growth(in: many)) <= limit)
    }
  }
}

/// Prints by how many bytes a dump of so many suspended coroutines makes the process larger.
private func printGrowth(_ count: Int, _ format: CoroutineDump.Format) throws {
  let channel = Channel<Int>(name: "many")
  let waiting = (0..<count).map { _ in Coroutine.immediate { try outputWaits(channel) } }
  var bytes = 0
  let before = anonymousMemory()
  try CoroutineDump.write(options: .init(format: format)) { bytes += $0.count }
  print("growth:", anonymousMemory() - before)
  fflush(nil)
  withExtendedLifetime(waiting) {}
  leave()
}

private func growth(in result: ExitTest.Result?) -> Int? {
  let output = String(decoding: result?.standardOutputContent ?? [], as: UTF8.self)
  return output.firstMatch(of: /growth: (-?[0-9]+)/).flatMap { Int($0.1) }
}

/// The process's memory that is no file's: how many pages of its files the kernel maps at once depends on what it has read.
/// Counted page by page, since the kernel's own sums are off by some megabytes.
private func anonymousMemory() -> Int {
  let file = fopen("/proc/self/smaps_rollup", "r")
  defer { fclose(file!) }
  return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { line in
    while fgets(line.baseAddress!, 256, file!) != nil {
      let words = String(cString: line.baseAddress!).split(separator: " ")
      if words.first == "Anonymous:" { return Int(words[1])! << 10 }
    }
    leave(2)
  }
}

private func writeWhileManyBegin() throws {
  let thread = ThreadPool(threads: 1)
  let (staying, leaving) = (Channel<Int>(), Channel<Int>())
  let suspended = (0..<3000).map { number in
    Coroutine(on: thread) { _ = try (number.isMultiple(of: 6) ? leaving : staying).receive() }
  }
  try Coroutine(on: thread) {}.getBlocking()
  leaving.close()
  try Coroutine(on: thread) {}.getBlocking()
  let door = DispatchSemaphore(value: 0)
  let first = Coroutine(on: thread) { door.wait() }
  let new = (0..<500).map { _ in Coroutine(on: thread) { _ = try staying.receive() } }
  var options = CoroutineDump.Options(format: .json)
  options.names = false
  var output = Data()
  var isOpen = false
  try CoroutineDump.write(options: options) { part in
    output.append(contentsOf: part)
    guard !isOpen, part.count > 1 << 10 else { return }
    isOpen = true
    door.signal()
    try Coroutine(on: thread) {}.getBlocking()
    // The detector looks at the coroutines that have just begun. The dump must still list them.
    _ = try DeadlockDetector.find()
  }
  let json = try JSONSerialization.jsonObject(with: output) as? [String: Any]
  let listed = json?["coroutines"] as? [[String: Any]] ?? []
  let counts = Dictionary(listed.map { ($0["id"] as? UInt64, 1) }, uniquingKeysWith: +)
  precondition(isOpen, "nothing was written before the end")
  precondition(new.allSatisfy { counts[$0.id] == 1 }, "not every one that began is listed once")
  precondition(suspended.indices.allSatisfy { $0.isMultiple(of: 6) || counts[suspended[$0].id] == 1 })
  staying.close()
  for coroutine in suspended + new { _ = try? coroutine.getBlocking() }
  try first.getBlocking()
}

private func writeWhileOneIsScheduled() throws {
  let (end, door) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
  let (busy, thread) = (ThreadPool(threads: 1), ThreadPool(threads: 1))
  let ending = Coroutine(on: busy, name: "ending") { end.wait() }.finally {}
  let next = Coroutine(on: busy) { door.wait() }
  let first = Coroutine(on: thread) { door.wait() }
  let new = (0..<20_000).map { _ in Coroutine(on: thread) {} }
  var options = CoroutineDump.Options(format: .json)
  options.names = false
  var output = Data()
  var hasEnded = false
  try CoroutineDump.write(options: options) { part in
    output.append(contentsOf: part)
    guard !hasEnded, part.count > 1 << 10 else { return }
    hasEnded = true
    end.signal()
    try ending.getBlocking()
  }
  let json = try JSONSerialization.jsonObject(with: output) as? [String: Any]
  let listed = json?["coroutines"] as? [[String: Any]] ?? []
  let others = listed.filter { $0["id"] as? UInt64 != ending.id }
  let counts = Dictionary(others.map { ($0["id"] as? UInt64, 1) }, uniquingKeysWith: +)
  precondition(hasEnded, "nothing was written before the end")
  precondition(others.count { $0["name"] as? String == "ending" } == 1, "what follows the end is not listed once")
  precondition(new.allSatisfy { counts[$0.id] == 1 }, "not every one that has not begun is listed once")
  for _ in 1...2 { door.signal() }
  for coroutine in new + [first, next] { try coroutine.getBlocking() }
}
