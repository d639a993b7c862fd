import Coroutine
import CoroutineIO
import Synchronization

/// A pipe, and how many bytes went in and came out.
final class CountedPipe: Sendable {
  let reader: PipeReader
  let writer: PipeWriter
  let written = Atomic<Int>(0)
  let read = Atomic<Int>(0)

  init() throws { (reader, writer) = try makePipe() }

  func write() throws {
    try writer.write([7])
    written.wrappingAdd(1, ordering: .relaxed)
  }

  private var rest: Int { written.load(ordering: .relaxed) - read.load(ordering: .relaxed) }

  /// What is not as it must be when no worker can go on.
  func problem(readers: [Int]) -> String? {
    guard !readers.isEmpty else { return nil }
    let text = "workers \(readers) wait to read"
    if readers.count > 1 { return "\(text), which one at a time may do" }
    if writer.isClosed { return "\(text) from a pipe whose writing end is closed" }
    return rest > 0 ? "\(text) from a pipe in which there are \(rest) bytes" : nil
  }

  /// The same when all workers have ended.
  func finalProblem() throws -> String? {
    writer.close()
    while let bytes = try reader.read() { read.wrappingAdd(bytes.count, ordering: .relaxed) }
    return rest == 0 ? nil : "\(rest) more bytes were written to the pipe than read"
  }
}
