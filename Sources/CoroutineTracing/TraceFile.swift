// SPDX-License-Identifier: Apache-2.0

import Context
import CoroutineLibc

/// The file: complete JSON after each write, since each writes the end of the text too, and the next one over that.
struct TraceFile: ~Copyable {
  /// The text to be written next.
  var text = TraceText()
  private let descriptor: CInt
  /// By the timers' clock: to compare it with recordings of other tools.
  private let start: UInt64
  private var length: off_t = 0
  private var failure: CoroutineTraceError?
  private var isOpen = true

  /// How many letters a number has at most.
  private static let longestNumber = String(Int.max).count

  /// So many bytes are written at once, about.
  static var chunk: Int { 256 << 10 }

  init(_ path: String, startedAt start: UInt64) throws(CoroutineTraceError) {
    self.start = start
    do {
      descriptor = try OutputFile.open(path, appends: false)
    } catch {
      throw CoroutineTraceError(operation: error.operation, code: error.code)
    }
    text.append("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")
    text.append("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":\(getpid()),\"tid\":0,\"args\":{\"name\":")
    text.appendQuoted(CommandLine.arguments.first.map { String($0.split(separator: "/").last ?? "") } ?? "")
    text.append("}}")
  }

  deinit { if isOpen { CoroutineLibc.close(descriptor) } }

  /// Writes the text. After the first failure it writes nothing any more.
  mutating func flush(dropped: Int) {
    guard failure == nil, !text.bytes.isEmpty else { return text.bytes.removeAll(keepingCapacity: true) }
    let count = text.count
    // As long each time: on a full disk it has to fit where the one before was.
    let padding = String(repeating: " ", count: Self.longestNumber - String(dropped).count)
    text.append("\n],\"otherData\":{\"dropped events\":\"\(dropped)\",")
    text.append("\(padding)\"monotonic clock at 0\":\"\(start)\"}}\n")
    failure = text.bytes.withUnsafeBytes { Self.write($0, to: descriptor, at: length) }
    if failure == nil {
      length += off_t(count)
    } else if length == 0 {
      // Without what comes first nothing is complete.
      _ = ftruncate(descriptor, 0)
    } else {
      // Some of it may have gone over the end of what was there. That was as long, so there is room for it.
      _ = text.bytes[count...].withUnsafeBytes { Self.write($0, to: descriptor, at: length) }
      _ = ftruncate(descriptor, length + off_t(text.count - count))
    }
    text.bytes.removeAll(keepingCapacity: true)
  }

  private static func write(
    _ bytes: UnsafeRawBufferPointer, to descriptor: CInt, at start: off_t
  ) -> CoroutineTraceError? {
    var written = 0
    while written < bytes.count {
      let count = pwrite(descriptor, bytes.baseAddress! + written, bytes.count - written, start + off_t(written))
      if count > 0 {
        written += count
      } else if count == 0 || errno != EINTR {
        return CoroutineTraceError(operation: "write", code: errno)
      }
    }
    return nil
  }

  mutating func close() -> Result<Void, CoroutineTraceError> {
    if isOpen {
      isOpen = false
      if CoroutineLibc.close(descriptor) != 0, failure == nil {
        failure = CoroutineTraceError(operation: "close", code: errno)
      }
    }
    return failure.map { .failure($0) } ?? .success(())
  }
}

/// JSON in the making.
struct TraceText {
  var bytes: [UInt8] = []

  var count: Int { bytes.count }

  mutating func append(_ text: String) { bytes.append(contentsOf: text.utf8) }

  mutating func append(_ number: some BinaryInteger) { append(String(number)) }

  /// Nanoseconds as the format's microseconds.
  mutating func append(microsecondsOf nanoseconds: UInt64) {
    append(nanoseconds / 1000)
    bytes.append(UInt8(ascii: "."))
    let rest = nanoseconds % 1000
    for digit in [rest / 100, rest / 10 % 10, rest % 10] { bytes.append(UInt8(ascii: "0") + UInt8(digit)) }
  }

  mutating func appendQuoted(_ text: String) {
    bytes.append(UInt8(ascii: "\""))
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"):
        bytes.append(UInt8(ascii: "\\"))
        bytes.append(byte)
      case 0..<0x20:
        append("\\u00" + (byte < 0x10 ? "0" : "") + String(byte, radix: 16))
      default:
        bytes.append(byte)
      }
    }
    bytes.append(UInt8(ascii: "\""))
  }
}
