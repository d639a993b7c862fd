import Glibc

/// How many bytes of the process's C heap are in use: for tests in a process of their own. Says nothing under
/// AddressSanitizer and ThreadSanitizer, which have heaps of their own.
///
/// Memory that a thread keeps for its next allocations counts, as in `mallinfo2`. Swift does not import that
/// function, and can't call one by its address that returns such a large structure. `malloc_info` writes the same as
/// XML.
public func heapInUse() -> Int {
  // The type that <malloc.h> declares.
  typealias Function = @convention(c) (CInt, UnsafeMutablePointer<FILE>) -> CInt
  guard let function = dlsym(nil, "malloc_info").map({ unsafeBitCast($0, to: Function.self) }) else { return 0 }
  var text = [UInt8](repeating: 0, count: 256 << 10)
  let size = text.count
  let isWritten = text.withUnsafeMutableBufferPointer { text in
    guard let file = fmemopen(text.baseAddress, size, "w") else { return false }
    let failure = function(0, file)
    return fclose(file) == 0 && failure == 0
  }
  guard isWritten else { return 0 }
  // The sums follow the last of the arenas.
  let lines = String(decoding: text.prefix { $0 != 0 }, as: UTF8.self).split(separator: "\n")
  func sum(_ tag: String) -> Int {
    guard let line = lines.last(where: { $0.hasPrefix(tag) }) else { return 0 }
    return line.split(separator: "\"").last(where: { Int($0) != nil }).flatMap { Int($0) } ?? 0
  }
  let free = sum("<total type=\"fast\"") + sum("<total type=\"rest\"")
  return sum("<system type=\"current\"") - free + sum("<total type=\"mmap\"")
}

/// The memory of the process's resident pages.
public func residentBytes() -> Int {
  guard let file = fopen("/proc/self/statm", "r") else { return 0 }
  defer { fclose(file) }
  var line = [CChar](repeating: 0, count: 128)
  guard fgets(&line, 128, file) != nil else { return 0 }
  let words = line.prefix { $0 != 0 }.split(separator: CChar(UInt8(ascii: " ")))
  let pages = words.dropFirst().first.map { String(decoding: $0.map(UInt8.init(bitPattern:)), as: UTF8.self) }
  return pages.flatMap(Int.init).map { $0 * sysconf(Int32(_SC_PAGESIZE)) } ?? 0
}

/// Stops the test library from recording thrown errors: it records where each was thrown, and the heap grows. For
/// tests in a process of their own.
public func forgetThrownErrors() {
  // Two atomic words of the Swift runtime: the functions that it calls at each throw, if they are set.
  for hook in ["_swift_willThrow", "_swift_willThrowTypedImpl"] {
    dlsym(nil, hook)?.assumingMemoryBound(to: UnsafeRawPointer?.self).pointee = nil
  }
}
