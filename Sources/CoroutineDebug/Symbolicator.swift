// SPDX-License-Identifier: Apache-2.0

import CCoroutineUnwind
package import Context
import Coroutine
import CoroutineLibc
import Runtime

/// Makes frames of stacks of addresses. Equal stacks are looked up once, and share one array; so are equal addresses.
///
/// Not for two threads at a time. Describes the libraries that were loaded when it was made.
package struct Symbolicator: ~Copyable {
  /// `nil` without memory: nothing has a name then.
  private let symbols: OpaquePointer?
  private var stacks: [ArraySlice<UInt>: [CoroutineBacktrace.Frame]] = [:]
  private var locations: [UInt: Location] = [:]
  private let found = UnsafeMutableBufferPointer<symbol>.allocate(capacity: Int(symbols_most))

  /// What lies at an address.
  private struct Location {
    var image: String?
    var imageOffset: UInt
    /// Innermost first; all but the last one are inlined.
    var functions: [(name: FunctionName?, file: String?, line: Int?, column: Int?)]
  }

  /// Whether names and lines are looked up: takes some MiB of memory for each large executable.
  private let namesFunctions: Bool

  /// What of the process is its context backend's.
  private let backend: ContextCode?

  /// For this process.
  init(namesFunctions: Bool = true) {
    symbols = coroutine_symbols_open()
    backend = SelectedBackend.code
    self.namesFunctions = namesFunctions
  }

  /// An executable or a library of another process.
  package struct Image {
    let addresses: Range<UInt>
    let shift: UInt
    let path: String
    let file: String

    /// - Parameters:
    ///   - shift: an address less this is the address as the file counts.
    ///   - path: as the process knows it.
    ///   - file: where it can be opened now.
    package init(addresses: Range<UInt>, shift: UInt, path: String, file: String) {
      (self.addresses, self.shift, self.path, self.file) = (addresses, shift, path, file)
    }
  }

  /// For another process.
  package init(images: [Image], backend: ContextCode?, namesFunctions: Bool) {
    symbols = coroutine_symbols_open_empty()
    self.backend = backend
    self.namesFunctions = namesFunctions
    guard let symbols else { return }
    for image in images {
      _ = coroutine_symbols_add(
        symbols, image.addresses.lowerBound, image.addresses.upperBound, image.shift, image.path, image.file,
        coroutine_image_build())
    }
  }

  deinit {
    if let symbols { coroutine_symbols_close(symbols) }
    found.deallocate()
  }

  /// The frames of a stack of return addresses.
  mutating func frames(of stack: ArraySlice<UInt>) -> [CoroutineBacktrace.Frame] {
    if let known = stacks[stack] { return known }
    var frames: [CoroutineBacktrace.Frame] = []
    // From the outside inwards: what the runtime calls of the libraries is its own affair, and so is what calls it.
    var calledByRuntime = true
    let locations = stack.map { location(at: $0) }
    for (number, address) in stack.enumerated().reversed() {
      let location = locations[number]
      for (index, function) in location.functions.enumerated().reversed() {
        let isRuntime: Bool
        let inner = index > 0 ? location.functions[index - 1] : number > 0 ? locations[number - 1].functions.last : nil
        if Self.isGlue(function.name, in: function.file, calling: inner?.name) {
          isRuntime = true
        } else {
          switch owner(of: function.name, in: location.image) {
          case .program: isRuntime = false
          case .runtime: isRuntime = true
          case .caller: isRuntime = calledByRuntime
          }
          calledByRuntime = isRuntime
        }
        frames.append(
          CoroutineBacktrace.Frame(
            address: address, function: function.name?.text, file: function.file, line: function.line,
            column: function.column, image: location.image, imageOffset: location.imageOffset,
            isInlined: index < location.functions.count - 1, isRuntime: isRuntime))
      }
    }
    frames.reverse()
    stacks[stack] = frames
    return frames
  }

  /// Whether the compiler made it between two functions: then it has no location in the source, or one in a file that does
  /// not exist. Or it was made of a function whose body is in its callee now, which would be there twice.
  static func isGlue(_ function: FunctionName?, in file: String?, calling callee: FunctionName?) -> Bool {
    guard let function else { return false }
    if let callee, function.isMoved(to: callee) { return true }
    return function.isThunk && (file.map { $0.hasSuffix("<compiler-generated>") } ?? true)
  }

  /// The code that a function belongs to, which may have no name: where a stack begins, the C library's has none.
  private func owner(of function: FunctionName?, in image: String?) -> FunctionName.Owner {
    if let function, function.owner != .program { return function.owner }
    let file = image?.split(separator: "/").last ?? ""
    return file.hasPrefix("libc.so") || backend?.library.map(file.hasPrefix) == true ? .caller : .program
  }

  private mutating func location(at address: UInt) -> Location {
    if let known = locations[address] { return known }
    let location = lookUp(address)
    locations[address] = location
    return location
  }

  private func lookUp(_ address: UInt) -> Location {
    var image = symbol_image()
    guard let symbols else { return Location(image: nil, imageOffset: 0, functions: [(nil, nil, nil, nil)]) }
    // Of another process the address may be anything: it wraps.
    guard namesFunctions else {
      _ = coroutine_symbols_find_image(symbols, address &- 1, &image)
      return Location(
        image: image.path.map { String(cString: $0) }, imageOffset: image.offset &+ (image.path == nil ? 0 : 1),
        functions: [(nil, nil, nil, nil)])
    }
    let count = coroutine_symbols_find(symbols, address, &image, found.baseAddress!)
    return Location(
      image: image.path.map { String(cString: $0) }, imageOffset: image.offset,
      functions: found[..<count].map { symbol in
        let name = symbol.function.map { FunctionName(mangled: Self.text($0), backend: backend) }
        guard symbol.line > 0, let file = Self.path(of: symbol) else { return (name, nil, nil, nil) }
        return (name, file, Int(symbol.line), symbol.column > 0 ? Int(symbol.column) : nil)
      })
  }

  /// The path of a symbol's file, as complete as the compiler wrote it.
  private static func path(of symbol: symbol) -> String? {
    guard let file = symbol.file else { return nil }
    let path = text(file)
    guard !path.hasPrefix("/"), let directory = symbol.directory else { return path }
    return text(directory) + "/" + path
  }

  /// A name of a file that may be forged. Many may share one run of bytes that has no end for megabytes: of a longer name than
  /// compilers give, the beginning.
  private static func text(_ name: UnsafePointer<CChar>) -> String {
    let bytes = UnsafeRawBufferPointer(start: name, count: strnlen(name, 1 << 14))
    return String(decoding: bytes, as: UTF8.self)
  }
}
