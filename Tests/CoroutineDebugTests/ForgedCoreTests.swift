import CCoroutine
import CCoroutineInspection
import CCoroutineUnwind
import Coroutine
import CoroutineInspection
import CoroutineTestSupport
import Foundation
import Testing

@testable import CoroutineDebug

/// Core files that lie. They come from strangers, and must not make the tool read other files of its user.
@Suite(.ownThreads) struct ForgedCoreTests {
  private let folder = Folder()
  private static let executable = ForgedImage(build: 1)

  // MARK: Which files are read

  @Test func onlyFilesThatTheCoreProvesAreItsMemory() throws {
    let library = ForgedImage(build: 2)
    let secret = try folder.write("secret", Data("the secret of another user".utf8))
    let right = try folder.write("right.so", library.file(filledWith: 7))
    let other = try folder.write("other.so", ForgedImage(build: 3).file(filledWith: 8))
    let unproven = try folder.write("unproven.so", ForgedImage(build: 4).file(filledWith: 9))
    let size = UInt64(ForgedImage.size)
    var core = Self.core(ofExecutable: try executable())
    for (index, path) in [secret, right, other, unproven].enumerated() {
      let start = UInt64(0x100_0000 * (index + 1))
      core.mappings.append(.init(start: start, end: start + size, path: path))
      let bytes = path == right || path == other ? library.page : []
      core.parts.append(.init(address: start, bytes: bytes, memory: size))
    }
    let target = try open(core)
    defer { coroutine_target_close(target) }
    #expect(read(target, at: 0x100_0000) == nil, "the secret")
    #expect(read(target, at: 0x200_1000) == 7)
    #expect(read(target, at: 0x300_1000) == nil, "another build")
    #expect(read(target, at: 0x400_1000) == nil, "nothing is known of its build")
    var states: [String: target_file] = [:]
    for index in 0..<coroutine_target_image_count(target) {
      let image = coroutine_target_image_at(target, index)!.pointee
      states[String(cString: image.path)] = image.state
      // Nor are they opened later, for the names of functions.
      #expect((String(cString: image.file) != "") == (image.state == target_file_right))
    }
    #expect(states[right] == target_file_right && states[other] == target_file_other_build)
    // Both are said to have had code, so it is reported that nothing is read of them.
    #expect(states[unproven] == target_file_unproven && states[secret] == target_file_unproven)
  }

  @Test func whatIsNoRegularFileIsNotOpened() throws {
    let path = folder.path + "/pipe"
    try #require(mkfifo(path, 0o600) == 0)
    let watch = inotify_init1(CInt(IN_NONBLOCK))
    defer { close(watch) }
    let added = inotify_add_watch(watch, path, UInt32(IN_OPEN))
    #expect(added >= 0)
    #expect(coroutine_open_regular_file(path) == -1 && errno == EINVAL)
    var events = [UInt8](repeating: 0, count: 512)
    #expect(Glibc.read(watch, &events, events.count) == -1, "it was opened, to see what it is")
    #expect(coroutine_open_regular_file(folder.path) == -1)
    let file = coroutine_open_regular_file(try folder.write("file", Data("x".utf8)))
    #expect(file >= 0)
    close(file)
  }

  // MARK: Numbers

  @Test func manyMappingsOfTwoNamesOpenTwoFiles() throws {
    let image = ForgedImage(build: 2)
    let paths = [
      try folder.write("one.so", image.file(filledWith: 1)), try folder.write("two.so", image.file(filledWith: 2)),
    ]
    let core = Self.core(ofExecutable: try executable(), mappings: Self.manyMappings, of: paths, image)
    let watch = inotify_init1(CInt(IN_NONBLOCK))
    defer { close(watch) }
    for path in paths { #expect(inotify_add_watch(watch, path, UInt32(IN_OPEN)) >= 0) }
    let target = try open(core)
    defer { coroutine_target_close(target) }
    for index in [2, 3, Self.manyMappings - 2, Self.manyMappings - 1] {
      #expect(read(target, at: 0x100_0000 + index * 4096) == UInt8(index % 2 + 1))
    }
    // The events of opens that alternate are not taken together.
    var events = [UInt8](repeating: 0, count: 1 << 20)
    let size = max(0, Glibc.read(watch, &events, events.count))
    #expect(size / MemoryLayout<inotify_event>.size <= 2 * paths.count, "each once to compare it, and once to read it")
  }

  @Test(.disabled(if: coroutine_sanitizers_active(), "they need address space of their own"))
  func aCoreTakesMemoryAsItsFileIsLarge() async {
    await #expect(processExitsWith: .success) {
      let tests = ForgedCoreTests()
      let paths = ["one", "two"].map { "/nowhere/\($0).so" }
      let image = ForgedImage(build: 2)
      let executable = try tests.executable()
      var core = Self.core(ofExecutable: executable, mappings: Self.manyMappings, of: paths, image)
      let once = try tests.folder.write("once", core.data)
      core.noteHeaders = 500
      let repeated = try tests.folder.write("repeated", core.data)
      let size = try FileManager.default.attributesOfItem(atPath: once)[.size] as! Int
      let pages = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")[0]
      // Twenty times the file: as much as an array of mappings takes that doubles. The notes, read for each header, are 500 times.
      let most = rlim_t(Int(pages)! * 4096 + 20 * size)
      var limit = rlimit(rlim_cur: most, rlim_max: most)
      #expect(setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit) == 0)
      var failure = target_failure(0)
      var (has, wants): (UInt64, UInt64) = (0, 0)
      let target = coroutine_target_open_core(once, executable, &failure, &has, &wants)
      #expect(target != nil, "failure \(failure.rawValue)")
      coroutine_target_close(target)
      #expect(coroutine_target_open_core(repeated, executable, &failure, &has, &wants) == nil)
      #expect(failure == target_failed_contradiction)
    }
  }

  @Test func notesThatTheFileHasNoRoomForAreRefused() throws {
    var core = Self.core(ofExecutable: try executable())
    for index in 0..<200 { core.mappings.append(.init(start: 1, end: 2, path: "/nowhere/\(index)")) }
    core.noteHeaders = 500
    #expect(try failure(core) == target_failed_contradiction)
  }

  @Test func numbersThatOverflowAreRefused() throws {
    var core = Self.core(ofExecutable: try executable())
    core.parts.append(.init(address: 0x5000, memory: 4096, offset: .max - 10, size: 4096))
    #expect(try failure(core) == target_failed_contradiction)
    var data = Self.core(ofExecutable: try executable()).data
    data.replaceSubrange(32..<40, with: [UInt8](repeating: 0xff, count: 8))
    #expect(try failure(data) == target_failed_contradiction)
  }

  @Test func partsThatWrapAroundAreNoMemory() throws {
    var core = Self.core(ofExecutable: try executable())
    core.parts.append(.init(address: .max - 0xfff, bytes: [UInt8](repeating: 5, count: 8192), memory: 8192))
    core.mappings.append(.init(start: 0x9000, end: 0x8000, page: .max, path: "/nowhere"))
    let target = try open(core)
    defer { coroutine_target_close(target) }
    #expect(read(target, at: .max - 0xfff) == nil && read(target, at: 0x100) == nil)
    #expect(read(target, at: Self.place) == 0x7f)
  }

  @Test(
    .enabled(if: ForkedProcess.canBeInspected, "no process may look at another one here"),
    .disabled(if: isSanitized, "sixteen million bits, read one by one"))
  func countsThatNoMemoryHasRoomForAreRefused() async {
    await #expect(processExitsWith: .success) {
      let generator = Generator<Int> { yield in try yield(1) }
      _ = generator.next()
      let layout = coroutine_debug_layout_address()!.pointee
      let arena = word(word(word(layout.stack_pools).pointee).pointee + layout.pool_newest_arena).pointee
      // That many stacks, all of them in use.
      let slots = 1 << 24 - 1
      let bits = mmap(nil, slots / 8 + 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)!
      memset(bits, 0xff, slots / 8 + 8)
      let isSet = UInt64(UInt(bitPattern: bits))
      let copy = ForkedProcess {
        word(arena + layout.arena_live).pointee = isSet
        word(arena + layout.arena_slots).pointee = UInt64(slots)
      }
      while copy.problem == nil {}
      #expect(copy.problem?.reason == .noRuntime)
      #expect(copy.problem?.description.contains("than there is memory for") == true)
      generator.cancel()
    }
  }

  /// What the process says of itself is not trusted either: each word of it in turn is one that fits nowhere.
  @Test(
    .enabled(if: ForkedProcess.canBeInspected, "no process may look at another one here"),
    .disabled(if: coroutine_sanitizers_active(), "some two hundred dumps, each of which takes long there"))
  func anyWordOfTheLayoutMayBeWrong() async {
    await #expect(processExitsWith: .success) {
      let queue = DispatchQueue(label: "held")
      queue.suspend()
      let (gate, generator) = (Channel<Int>(), Generator<Int> { yield in try yield(1) })
      let unstarted = Coroutine(on: queue) { 1 }
      let waiting = Coroutine(on: ThreadPool(threads: 1)) { try gate.receive() }
      _ = generator.next()
      while waiting.suspension == nil { sched_yield() }
      let head = MemoryLayout<coroutine_debug_layout>.offset(of: \.is_complete)!
      let end = MemoryLayout<coroutine_debug_layout>.offset(of: \.kinds)!
      for offset in stride(from: head, to: end, by: 8) {
        for wrong in [256, .max] as [UInt64] {
          let copy = ForkedProcess {
            UnsafeMutableRawPointer(coroutine_debug_layout_address()!).storeBytes(
              of: wrong, toByteOffset: offset, as: UInt64.self)
          }
          _ = copy.problem
        }
      }
      gate.close()
      generator.cancel()
      queue.resume()
      _ = (try await unstarted.get(), try? await waiting.get())
    }
  }

  @Test func anyAddressHasAFrame() async {
    await #expect(processExitsWith: .success) {
      for namesFunctions in [false, true] {
        let image = Symbolicator.Image(addresses: 1..<UInt.max, shift: 8, path: "/nowhere", file: "")
        var symbolicator = Symbolicator(images: [image], backend: nil, namesFunctions: namesFunctions)
        #expect(symbolicator.frames(of: [0, 1, 2, 8, .max]).count == 5)
      }
    }
  }

  @Test func aNumberThatIsThereTwiceIsInTheTreeOnce() {
    var tree = ScopeTree()
    for (id, parentID) in [(1, nil), (1, 1), (1, 1), (2, 1), (2, 2)] as [(UInt64, UInt64?)] {
      var coroutine = CoroutineBacktrace(id: id, name: "number \(id)", state: .suspended)
      coroutine.parentID = parentID
      tree.insert(coroutine)
    }
    var text = ""
    tree.write(to: &text)
    #expect(text.split(separator: "\n").count == 2, "\(text)")
  }

  @Test func theNameOfAScopeStaysOnItsLineOfTheTree() {
    var tree = ScopeTree()
    var coroutine = CoroutineBacktrace(id: 1, name: "child", state: .suspended)
    coroutine.scope = .init(id: 1, name: "two\nlines \u{1b}[31m", ownerID: nil)
    tree.insert(coroutine)
    var text = ""
    tree.write(to: &text)
    #expect(text.split(separator: "\n").count == 2 && !text.contains("\u{1b}"), "\(text)")
  }

  // MARK: Making and opening them

  private static let place: UInt64 = 0x40_0000

  private func executable() throws -> String {
    try folder.write("program", Self.executable.file(filledWith: 0))
  }

  private static func core(ofExecutable path: String) -> ForgedCore {
    let size = UInt64(ForgedImage.size)
    return ForgedCore(
      mappings: [.init(start: place, end: place + size, path: path)],
      parts: [.init(address: place, bytes: executable.page, memory: size)], programHeaders: place + 64)
  }

  private static let manyMappings: UInt64 = 40_000

  /// Mappings of a page each, of the files in turn: first of their first page, which the core has, then of their second.
  private static func core(
    ofExecutable path: String, mappings count: UInt64, of paths: [String], _ image: ForgedImage
  ) -> ForgedCore {
    var core = core(ofExecutable: path)
    for index in 0..<count {
      let start = 0x100_0000 + index * 4096
      let isFirst = index < paths.count
      core.mappings.append(
        .init(start: start, end: start + 4096, page: isFirst ? 0 : 1, path: paths[Int(index) % paths.count]))
      if isFirst { core.parts.append(.init(address: start, bytes: image.page, memory: 4096)) }
    }
    return core
  }

  private func open(_ core: ForgedCore) throws -> OpaquePointer {
    var failure = target_failure(0)
    var (has, wants): (UInt64, UInt64) = (0, 0)
    let target = coroutine_target_open_core(
      try folder.write("core", core.data), try executable(), &failure, &has, &wants)
    return try #require(target, "failure \(failure.rawValue)")
  }

  private func failure(_ core: ForgedCore) throws -> target_failure? { try failure(core.data) }

  private func failure(_ core: Data) throws -> target_failure? {
    var failure = target_failure(0)
    var (has, wants): (UInt64, UInt64) = (0, 0)
    let target = coroutine_target_open_core(try folder.write("core", core), try executable(), &failure, &has, &wants)
    guard let target else { return failure }
    coroutine_target_close(target)
    return nil
  }

  private func read(_ target: OpaquePointer, at address: UInt64) -> UInt8? {
    var byte: UInt8 = 0
    return coroutine_target_read(target, address, &byte, 1) ? byte : nil
  }
}

/// The word at the address.
private func word(_ address: UInt64) -> UnsafeMutablePointer<UInt64> {
  UnsafeMutablePointer(bitPattern: UInt(address))!
}

/// A folder for one test.
private final class Folder: Sendable {
  let path = NSTemporaryDirectory() + "/coroutine-forged-\(UUID().uuidString)"

  init() { try? FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  func write(_ name: String, _ data: Data) throws -> String {
    try data.write(to: URL(filePath: path + "/" + name))
    return path + "/" + name
  }
}
