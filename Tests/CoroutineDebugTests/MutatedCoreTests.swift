import CCoroutine
import CoroutineDebug
import CoroutineInspection
import CoroutineTestSupport
import Foundation
import Testing

/// Core files of a program with a coroutine of every kind, in which words are overwritten by chance: a dump is made of what
/// can be read, or refused. It does not crash, and comes to an end.
@Suite(
  .ownThreads,
  .disabled(if: coroutine_sanitizers_active(), "sanitizers reserve more memory than a file has room for"),
  .enabled(if: ForkedProcess.canBeInspected, "no process may look at another one here"))
struct MutatedCoreTests {
  /// `scripts/fuzz.sh` asks for more, for a time.
  @Test func anyWordsInACoreFileAreReadOrRefused() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      let seconds = ProcessInfo.processInfo.environment["COROUTINE_FUZZ_SECONDS"].flatMap { Int($0) }
      let core = try MutatedCore(piece: seconds == nil ? 64 : 1)
      let start = ContinuousClock.now
      let first: UInt64 = seconds == nil ? 0 : .random(in: 0..<1 << 40)
      var (seed, refused) = (first, 0)
      repeat {
        if !core.dump(mutatedBy: seed) { refused += 1 }
        seed += 1
      } while seconds.map { ContinuousClock.now - start < .seconds($0) } ?? (seed - first < 100)
      print("\(seed - first) core files, \(refused) of them refused; \(core.pageCount) pages were written to")
      fflush(nil)
      // Else the mutations would not reach far.
      if refused == Int(seed - first) { fatalError("all core files were refused") }
    }
    if let result { print(String(decoding: result.standardOutputContent, as: UTF8.self), terminator: "") }
  }
}

/// A core file, and the pages in it that a dump depends on.
final class MutatedCore {
  private static let pageSize = 4096

  private let core: CoreFile
  private let file: CInt
  private var pages: [off_t] = []
  /// What stands in them, to be put elsewhere: mostly addresses.
  private var words: [UInt64] = []

  var pageCount: Int { pages.count }

  /// - Parameter piece: how many pages at once are tried. Fewer find those that count more exactly, and take longer.
  init(piece: Int) throws {
    let program = try DumpedProgram()
    core = try CoreFile(of: program.id)
    withExtendedLifetime(program) {}
    file = open(core.path, O_RDWR)
    let all = dataPages()
    guard let whole = dump() else { fatalError("the core file can't be read") }
    for first in stride(from: 0, to: all.count, by: piece) {
      let candidates = all[first..<min(first + piece, all.count)]
      if hasEffect(candidates, whole) { pages += candidates }
    }
    for page in pages { words += read(page).filter { $0 != 0 } }
  }

  deinit { close(file) }

  /// Overwrites some words, makes a dump, and puts them back.
  ///
  /// - Returns: whether there was a dump.
  func dump(mutatedBy seed: UInt64) -> Bool {
    var random = SeededNumbers(seed)
    var before: [(place: off_t, word: UInt64)] = []
    for _ in 0..<1 << random.next(below: 10) {
      let place = pages[random.next(below: pages.count)] + off_t(8 * random.next(below: Self.pageSize / 8))
      var word: UInt64 = 0
      pread(file, &word, 8, place)
      // Most words are zeros that no reader looks at.
      if word == 0, random.next(below: 8) > 0 { continue }
      before.append((place, word))
      write(mutated(word, &random), at: place)
    }
    defer { for (place, word) in before.reversed() { write(word, at: place) } }
    return dump() != nil
  }

  private func mutated(_ word: UInt64, _ random: inout SeededNumbers) -> UInt64 {
    switch random.next(below: 8) {
    case 0: 0
    case 1: .max
    case 2: word ^ 1 << UInt64(random.next(below: 64))
    case 3: word &+ UInt64(bitPattern: Int64(random.next(below: 65)) - 32)
    case 4: UInt64(random.next(below: 1 << 16))
    case 5: random.next()
    default: words[random.next(below: words.count)]
    }
  }

  private func write(_ word: UInt64, at place: off_t) {
    var word = word
    pwrite(file, &word, 8, place)
  }

  private func read(_ page: off_t) -> [UInt64] {
    var words = [UInt64](repeating: 0, count: Self.pageSize / 8)
    pread(file, &words, Self.pageSize, page)
    return words
  }

  /// Without names, which are the same each time, and take longest.
  private func dump() -> String? {
    var options = CoroutineDump.Options(format: .json)
    options.names = false
    options.stackPeaks = true
    let process = InspectedProcess.core(core.path, executable: DumpedProgram.executable)
    let text = try? written { try CoroutineDump.write(of: process, to: $0, options: options) }
    // Without its beginning, which has the time.
    return text.flatMap { text in text.firstIndex(of: "[").map { String(text[$0...]) } }
  }

  // MARK: Which pages count

  /// Those that the file has bytes of, and that are not all zeros.
  private func dataPages() -> [off_t] {
    // SEEK_DATA and SEEK_HOLE, which Swift does not import.
    let (data, hole) = (CInt(3), CInt(4))
    var pages: [off_t] = []
    var place = lseek(file, 0, data)
    while place >= 0 {
      let end = lseek(file, place, hole)
      for page in stride(from: place & ~4095, to: end, by: Self.pageSize) {
        if read(page).contains(where: { $0 != 0 }) { pages.append(page) }
      }
      place = lseek(file, end, data)
    }
    return pages
  }

  /// Whether the dump is another one where they are inverted.
  private func hasEffect(_ candidates: ArraySlice<off_t>, _ whole: String) -> Bool {
    candidates.forEach(invert)
    defer { candidates.forEach(invert) }
    return dump() != whole
  }

  private func invert(_ page: off_t) {
    let words = read(page).map { ~$0 }
    pwrite(file, words, Self.pageSize, page)
  }
}

/// Numbers by chance that a seed repeats.
private struct SeededNumbers {
  private var state: UInt64

  init(_ seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 &+ 1 }

  mutating func next() -> UInt64 {
    state ^= state << 13
    state ^= state >> 7
    state ^= state << 17
    return state &* 0x2545_F491_4F6C_DD1D
  }

  mutating func next(below bound: Int) -> Int { Int(next() >> 33) % bound }
}
