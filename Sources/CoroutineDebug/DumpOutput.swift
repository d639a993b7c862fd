// SPDX-License-Identifier: Apache-2.0

import CoroutineLibc

/// Where a dump goes, some KiB at a time.
struct DumpOutput: TextOutputStream {
  private let sink: (UnsafeRawBufferPointer) throws -> Void
  private var buffer: [UInt8] = []
  /// After the first error nothing is written any more.
  private var failure: (any Error)?

  private static var size: Int { 32 << 10 }

  init(_ sink: @escaping (UnsafeRawBufferPointer) throws -> Void) {
    self.sink = sink
    buffer.reserveCapacity(Self.size + 4096)
  }

  mutating func write(_ string: String) {
    buffer.append(contentsOf: string.utf8)
    if buffer.count >= Self.size { flush() }
  }

  private mutating func flush() {
    if failure == nil, !buffer.isEmpty {
      do { try buffer.withUnsafeBytes(sink) } catch { failure = error }
    }
    buffer.removeAll(keepingCapacity: true)
  }

  /// Writes the rest. Throws what the sink threw, then or before.
  mutating func finish() throws {
    flush()
    if let failure { throw failure }
  }

  /// Throws if a write has failed: what follows is in vain.
  func check() throws {
    if let failure { throw failure }
  }
}

/// A dump could not be written.
public struct CoroutineDumpError: Error, Equatable, CustomStringConvertible {
  /// What was done: `write`, `open /tmp/dump.txt`.
  public let operation: String
  /// The system's number of the reason.
  public let code: CInt

  public var description: String { "a coroutine dump: \(operation): \(String(cString: strerror(code)))" }
}

/// Writes all of it, on whatever thread: waits where the other end has no room yet.
func writeAll(_ bytes: UnsafeRawBufferPointer, to descriptor: CInt) throws(CoroutineDumpError) {
  var rest = bytes[...]
  while let start = UnsafeRawBufferPointer(rebasing: rest).baseAddress, !rest.isEmpty {
    let count = write(descriptor, start, rest.count)
    if count > 0 {
      rest = rest.dropFirst(count)
    } else if count < 0 && errno == EAGAIN {
      var ready = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
      poll(&ready, 1, -1)
    } else if count == 0 || errno != EINTR {
      throw CoroutineDumpError(operation: "write", code: errno)
    }
  }
}

/// Lets a write of the calling thread into a pipe without a reader fail, as `writeAll` throws: a question about what
/// the program does is no reason for it to end. For threads of this library's own.
func surviveBrokenPipes() {
  var signals = sigset_t()
  sigemptyset(&signals)
  // It goes to the thread that writes.
  sigaddset(&signals, SIGPIPE)
  pthread_sigmask(SIG_BLOCK, &signals, nil)
}

/// Whether text for people is coloured there.
func isColored(_ descriptor: CInt) -> Bool {
  guard isatty(descriptor) == 1 else { return false }
  if let noColor = getenv("NO_COLOR"), noColor.pointee != 0 { return false }
  guard let terminal = getenv("TERM") else { return false }
  return strcmp(terminal, "dumb") != 0
}

/// Whether the process can have so much more memory.
func isMemoryAvailable(_ bytes: Int) -> Bool {
  let memory = mmap(nil, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
  guard let memory, memory != MAP_FAILED else { return false }
  munmap(memory, bytes)
  return true
}
