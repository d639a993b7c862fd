import Context
import Glibc
import Testing

/// Runs `body` on `count` threads at once and returns when all have ended.
func onThreads(_ count: Int, _ body: @escaping @Sendable (_ thread: Int) -> Void) {
  final class Start {
    let thread: Int
    let body: @Sendable (Int) -> Void

    init(_ thread: Int, _ body: @escaping @Sendable (Int) -> Void) {
      self.thread = thread
      self.body = body
    }
  }
  let threads = (0..<count).map { number in
    var thread = pthread_t()
    let start = Unmanaged.passRetained(Start(number, body)).toOpaque()
    let result = pthread_create(&thread, nil, runStart, start)
    #expect(result == 0)
    return thread
  }
  func runStart(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    let start = Unmanaged<Start>.fromOpaque(argument!).takeRetainedValue()
    start.body(start.thread)
    return nil
  }
  for thread in threads {
    pthread_join(thread, nil)
  }
}

/// Counts the memory mappings of this process.
func mappingCount() -> Int {
  guard let file = fopen("/proc/self/maps", "r") else { return 0 }
  defer { fclose(file) }
  var lines = 0
  while true {
    let byte = getc_unlocked(file)
    if byte == EOF { return lines }
    if byte == 0x0a { lines += 1 }
  }
}

extension Stack {
  /// Writes a byte to each page of the `depth` highest bytes, as a chain of frames would.
  func touch(depth: Int) {
    for offset in stride(from: 1, through: depth, by: pageSize) {
      (top - offset).storeBytes(of: 0xa5, as: UInt8.self)
    }
  }

  var residentBytes: Int { StackMemory.residentBytes(of: self) }
}

extension StackPool {
  /// How many idle stacks the pool keeps the memory of, and how many bytes of `stacks` have memory. None of `stacks`
  /// may be in use. Both are taken while the pool's own thread gives nothing back.
  func residency(of stacks: [Stack]) -> (idle: Int, bytes: Int) {
    while true {
      let before = statistics.residentIdle
      let isQuiet = trimmingCount == 0
      let bytes = stacks.reduce(0) { $0 + $1.residentBytes }
      if isQuiet, statistics.residentIdle == before { return (before, bytes) }
    }
  }
}

let pageSize = sysconf(CInt(_SC_PAGESIZE))

/// Whether the kernel has guards that need no mapping of their own (Linux 6.13).
let hasGuardMarks: Bool = {
  guard let pool = try? StackPool(guards: .madvise), let stack = try? pool.allocate() else { return false }
  pool.release(stack)
  return true
}()

/// The kinds of guards that this kernel has.
let guardKinds: [StackPool.Guards] = hasGuardMarks ? [.madvise, .mprotect] : [.mprotect]
