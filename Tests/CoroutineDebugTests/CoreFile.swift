import CoroutineInspection
import Foundation

/// A core file of a stopped process, as the kernel would write it. It has the memory that the process or its loader
/// has written to, the headers of the executable and the libraries, and notes. The file is removed with its object.
///
/// The kernel can't write it here: exit tests turn core files off, and some systems send them elsewhere.
final class CoreFile {
  let path: String
  private let file: CInt

  static let executable = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""

  private struct Mapping {
    let start: UInt64
    let end: UInt64
    let offset: UInt64
    let isWritable: Bool
    let path: String

    /// Whether the file has the mapping's bytes. What the loader has written to lies in front of a writable mapping.
    func isOwn(before next: Mapping?) -> Bool {
      isWritable || offset != 0 && next?.isWritable == true && next?.start == end && next?.path == path
    }

    /// Parses a line of `maps`.
    init?(_ line: Substring) {
      let parts = line.split(separator: " ", maxSplits: 5)
      let range = parts[0].split(separator: "-").compactMap { UInt64($0, radix: 16) }
      guard range.count == 2, parts[1].hasPrefix("r"), let offset = UInt64(parts[2], radix: 16) else { return nil }
      (start, end, self.offset) = (range[0], range[1], offset)
      isWritable = parts[1].hasPrefix("rw")
      path = parts.count > 5 ? parts[5].trimmingCharacters(in: .whitespaces) : ""
    }
  }

  convenience init(of process: ForkedProcess, isGdbs: Bool = false) throws {
    try self.init(of: process.id, isGdbs: isGdbs)
    withExtendedLifetime(process) {}
  }

  /// - Parameters:
  ///   - process: a process that is stopped meanwhile.
  ///   - isGdbs: whether to write each mapping only up to its first guard, as gdb's gcore does.
  init(of process: CInt, isGdbs: Bool = false) throws {
    var template = Array((NSTemporaryDirectory() + "/coroutine-core-XXXXXX").utf8CString)
    file = mkstemp(&template)
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let threads = StoppedThreads(of: process)
    let folder = "/proc/\(process)/"
    // To the end: the kernel returns the file page by page.
    let lines = try FileHandle(forReadingFrom: URL(filePath: folder + "maps")).readToEnd() ?? Data()
    let maps = String(decoding: lines, as: UTF8.self)
    let mappings = maps.split(separator: "\n").compactMap { Mapping($0) }.filter { !$0.path.hasPrefix("[v") }
    let auxiliary = try Data(contentsOf: URL(filePath: folder + "auxv"))
    let memory = open(folder + "mem", O_RDONLY)
    defer { close(memory) }
    let notes = Self.notes(process, threads, auxiliary, mappings.filter { $0.path.hasPrefix("/") })
    let kept = mappings.enumerated().compactMap { index, mapping -> (start: UInt64, size: UInt64)? in
      let next = index + 1 < mappings.count ? mappings[index + 1] : nil
      if mapping.isOwn(before: next) { return (mapping.start, mapping.end - mapping.start) }
      return mapping.offset == 0 && mapping.path.hasPrefix("/") ? (mapping.start, 4096) : nil
    }
    var place = UInt64(64 + 56 * (kept.count + 1))
    var head = Self.header(parts: kept.count + 1)
    head.append(part: 4, at: 0, offset: place, size: UInt64(notes.count))
    let notesPlace = place
    place = (place + UInt64(notes.count) + 4095) & ~4095
    let first = place
    for part in kept {
      head.append(part: 1, at: part.start, offset: place, size: part.size)
      place += part.size
    }
    write(head, at: 0)
    write(notes, at: notesPlace)
    let zeros = [UInt8](repeating: 0, count: 1 << 16)
    var page = zeros
    place = first
    for part in kept {
      var offset: UInt64 = 0
      while offset < part.size {
        let count = pread(memory, &page, Int(min(UInt64(page.count), part.size - offset)), off_t(part.start + offset))
        // Most of it is stack memory that was never used: holes in the file.
        if count <= 0, isGdbs { break }
        if count > 0, memcmp(page, zeros, count) != 0 { pwrite(file, page, count, off_t(place + offset)) }
        // A page in the middle of a mapping that can't be read is a guard.
        offset += UInt64(max(count, 4096))
      }
      place += part.size
    }
    ftruncate(file, off_t(place))
  }

  deinit {
    close(file)
    unlink(path)
  }

  var size: Int { Int(lseek(file, 0, SEEK_END)) }

  func cut(to size: Int) { ftruncate(file, size) }

  private func write(_ data: Data, at offset: UInt64) {
    _ = data.withUnsafeBytes { pwrite(file, $0.baseAddress, $0.count, off_t(offset)) }
  }

  /// The header of an ELF core file, which the program headers follow.
  private static func header(parts: Int) -> Data {
    var header = Data([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0] + [UInt8](repeating: 0, count: 8))
    #if arch(x86_64)
      let machine: UInt16 = 62
    #else
      let machine: UInt16 = 183
    #endif
    header.append(UInt16(4))
    header.append(machine)
    header.append(UInt32(1))
    for word in [0, 64, 0] as [UInt64] { header.append(word) }
    header.append(UInt32(0))
    for half in [64, 56, UInt16(parts), 64, 0, 0] as [UInt16] { header.append(half) }
    return header
  }

  private static func notes(
    _ id: CInt, _ threads: borrowing StoppedThreads, _ auxiliary: Data, _ files: [Mapping]
  ) -> Data {
    // The layout of `struct elf_prpsinfo`: 136 bytes.
    var information = Data(count: 136)
    withUnsafeBytes(of: id) { information.replaceSubrange(24..<28, with: $0) }
    // The layout of `struct elf_prstatus`: 112 bytes, and then the general registers.
    let statuses = threads.ids.map { thread -> (UInt32, Data) in
      var status = Data(count: 112) + threads.registers(of: thread) + Data(count: 8)
      withUnsafeBytes(of: thread) { status.replaceSubrange(32..<36, with: $0) }
      return (1, status)
    }
    var list = Data()
    for word in [UInt64(files.count), 4096] { list.append(word) }
    for file in files { for word in [file.start, file.end, file.offset / 4096] { list.append(word) } }
    for file in files { list.append(contentsOf: Array(file.path.utf8) + [0]) }
    var notes = Data()
    for (type, value) in statuses + [(3, information), (6, auxiliary), (0x4649_4c45, list)] {
      notes.append(UInt32(5))
      notes.append(UInt32(value.count))
      notes.append(type)
      notes.append(contentsOf: Array("CORE".utf8) + [0, 0, 0, 0])
      notes.append(value + Data(count: (4 - value.count % 4) % 4))
    }
    return notes
  }
}

extension Data {
  fileprivate mutating func append(_ number: some FixedWidthInteger) {
    Swift.withUnsafeBytes(of: number.littleEndian) { append(contentsOf: $0) }
  }

  /// Appends a program header.
  fileprivate mutating func append(part type: UInt32, at address: UInt64, offset: UInt64, size: UInt64) {
    append(type)
    append(UInt32(6))
    for word in [offset, address, 0, size, size, 4096] { append(word) }
  }
}
