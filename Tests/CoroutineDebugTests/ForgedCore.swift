import Foundation

/// An ELF image of one page, which the core file and the library's file have in common.
struct ForgedImage {
  static let size = 0x3000

  let page: [UInt8]

  init(build: UInt64) {
    var data = ForgedCore.header(type: 3, parts: 2)
    data.append(part: 1, flags: 5, at: 0, offset: 0, size: UInt64(Self.size), memory: UInt64(Self.size))
    data.append(part: 4, flags: 4, at: 0x200, offset: 0x200, size: 24, memory: 24)
    data.append(Data(count: 0x200 - data.count))
    for word in [4, 8, 3] as [UInt32] { data.append(number: word) }
    data.append(contentsOf: Array("GNU".utf8) + [0])
    data.append(number: build)
    data.append(Data(count: 4096 - data.count))
    page = Array(data)
  }

  /// The library's file. Bytes that no core file has follow the first page.
  func file(filledWith byte: UInt8) -> Data {
    Data(page) + Data(repeating: byte, count: Self.size - page.count)
  }
}

/// A core file in which each number can be chosen.
struct ForgedCore {
  struct Mapping {
    var start: UInt64
    var end: UInt64
    var page: UInt64 = 0
    var path: String
  }

  struct Part {
    var type: UInt32 = 1
    var flags: UInt32 = 5
    var address: UInt64
    var bytes: [UInt8] = []
    var memory: UInt64
    /// Where the part is said to lie; `nil`: where its bytes are.
    var offset: UInt64?
    /// The size that the part is said to have; `nil`: its real size.
    var size: UInt64?
  }

  var mappings: [Mapping] = []
  var parts: [Part] = []
  /// The address of the executable's program headers.
  var programHeaders: UInt64 = 0
  /// How many parts of the list are notes.
  var noteHeaders = 1

  var data: Data {
    let notes = self.notes
    var data = Self.header(type: 4, parts: UInt16(parts.count + noteHeaders))
    var place = UInt64(64 + 56 * (parts.count + noteHeaders))
    for _ in 0..<noteHeaders {
      data.append(part: 4, flags: 0, at: 0, offset: place, size: UInt64(notes.count), memory: 0)
    }
    place += UInt64(notes.count)
    for part in parts {
      data.append(
        part: part.type, flags: part.flags, at: part.address, offset: part.offset ?? place,
        size: part.size ?? UInt64(part.bytes.count), memory: part.memory)
      place += UInt64(part.bytes.count)
    }
    data.append(notes)
    for part in parts { data.append(contentsOf: part.bytes) }
    return data
  }

  private var notes: Data {
    var auxiliary = Data()
    for word in [3, programHeaders, 0, 0] as [UInt64] { auxiliary.append(number: word) }
    var list = Data()
    for word in [UInt64(mappings.count), 4096] { list.append(number: word) }
    for mapping in mappings { for word in [mapping.start, mapping.end, mapping.page] { list.append(number: word) } }
    for mapping in mappings { list.append(contentsOf: Array(mapping.path.utf8) + [0]) }
    var notes = Data()
    for (type, value) in [(6, auxiliary), (0x4649_4c45, list)] as [(UInt32, Data)] {
      for number in [5, UInt32(value.count), type] { notes.append(number: number) }
      notes.append(contentsOf: Array("CORE".utf8) + [0, 0, 0, 0])
      notes.append(value + Data(count: (4 - value.count % 4) % 4))
    }
    return notes
  }

  /// The header of an ELF file, which the program headers follow.
  fileprivate static func header(type: UInt16, parts: UInt16) -> Data {
    var header = Data([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0] + [UInt8](repeating: 0, count: 8))
    header.append(number: type)
    #if arch(x86_64)
      header.append(number: UInt16(62))
    #else
      header.append(number: UInt16(183))
    #endif
    header.append(number: UInt32(1))
    for word in [0, 64, 0] as [UInt64] { header.append(number: word) }
    header.append(number: UInt32(0))
    for half in [64, 56, parts, 64, 0, 0] as [UInt16] { header.append(number: half) }
    return header
  }
}

extension Data {
  fileprivate mutating func append(number: some FixedWidthInteger) {
    Swift.withUnsafeBytes(of: number.littleEndian) { append(contentsOf: $0) }
  }

  fileprivate mutating func append(
    part type: UInt32, flags: UInt32, at address: UInt64, offset: UInt64, size: UInt64, memory: UInt64
  ) {
    append(number: type)
    append(number: flags)
    for word in [offset, address, 0, size, memory, 4096] { append(number: word) }
  }
}
