// SPDX-License-Identifier: Apache-2.0

/// A dump as JSON: `docs/dump-schema.json`. The coroutines come first, each with the number of its stack; then the stacks,
/// each once. So neither side needs to keep the coroutines in memory.
struct DumpJSON {
  static let version = 1

  private var isFirst = true
  private var count = 0

  func begin(_ process: DumpedProcess, warnings: [String], to stream: inout some TextOutputStream) {
    var line = "{\"format\":\"coroutine-dump\",\"version\":\(Self.version),\"process\":{\"id\":\(process.id),"
    line += "\"executable\":\(Self.string(process.executable)),"
    line += "\"backend\":\(Self.string(process.backend)),"
    line += "\"time\":\(Self.seconds(process.time))},"
    if !warnings.isEmpty { line += "\"warnings\":[\(warnings.map(Self.string).joined(separator: ","))]," }
    line += "\"coroutines\":["
    stream.write(line)
  }

  mutating func write(_ coroutine: CoroutineBacktrace, to stream: inout some TextOutputStream) {
    var line = isFirst ? "\n" : ",\n"
    isFirst = false
    count += 1
    line += "{\"id\":\(coroutine.id),\"kind\":\"\(coroutine.isGenerator ? "generator" : "coroutine")\","
    line += "\"name\":\(Self.string(coroutine.name)),\"state\":\"\(coroutine.state.rawValue)\""
    if coroutine.isCancelled { line += ",\"cancelled\":true" }
    if coroutine.state == .suspended {
      line += ",\"waitsFor\":{\"operation\":\(Self.string(coroutine.operation.isEmpty ? "next" : coroutine.operation)),"
      line += "\"text\":\(Self.string(coroutine.waitsFor))"
      if let timeLeft = coroutine.timeLeft { line += ",\"timeLeft\":\(Self.seconds(timeLeft))" }
      line += "}"
    }
    if let duration = coroutine.duration { line += ",\"duration\":\(Self.seconds(duration))" }
    if !coroutine.scheduler.isEmpty { line += ",\"scheduler\":\(Self.string(coroutine.scheduler))" }
    if let parent = coroutine.parentID { line += ",\"parent\":\(parent)" }
    if let scope = coroutine.scope {
      line += ",\"scope\":{\"id\":\(Self.address(scope.id)),\"name\":\(Self.string(scope.name))"
      if let owner = scope.ownerID { line += ",\"owner\":\(owner)" }
      line += "}"
    }
    if let size = coroutine.stackSize {
      line += ",\"stackSize\":\(size)"
      if let used = coroutine.stackUsed { line += ",\"stackUsed\":\(used)" }
      if let peak = coroutine.stackPeak { line += ",\"stackPeak\":\(peak)" }
    }
    line += ",\"stack\":\(coroutine.stackNumber)"
    if coroutine.isTruncated { line += ",\"truncated\":true" }
    if coroutine.isUnanswered { line += ",\"unanswered\":true" }
    if let creators = coroutine.creatorsNumber { line += ",\"createdBy\":\(creators)" }
    stream.write(line + "}")
  }

  /// All stacks that were referred to, what sizes would do, if that was asked for, and the end.
  func end(
    stacks: [[CoroutineBacktrace.Frame]], sizes: [CoroutineDump.StackSize]?, to stream: inout some TextOutputStream
  ) {
    stream.write("\n],\"stacks\":[")
    for (number, frames) in stacks.enumerated() {
      stream.write(number == 0 ? "\n[" : ",\n[")
      for (index, frame) in frames.enumerated() {
        if index > 0 { stream.write(",") }
        stream.write(Self.text(of: frame))
      }
      stream.write("]")
    }
    if let sizes {
      let texts = sizes.map {
        "\n{\"of\":\(Self.string($0.label)),\"count\":\($0.count),\"peak\":\($0.peak),\"size\":\($0.size),"
          + "\"suggestion\":\($0.suggestion)}"
      }
      stream.write("\n],\"stackSizes\":[" + texts.joined(separator: ","))
    }
    stream.write("\n],\"count\":\(count)}\n")
  }

  private static func text(of frame: CoroutineBacktrace.Frame) -> String {
    var text = "{\"address\":\(address(frame.address))"
    if let function = frame.function { text += ",\"function\":\(string(function))" }
    if let file = frame.file { text += ",\"file\":\(string(file))" }
    if let line = frame.line { text += ",\"line\":\(line)" }
    if let column = frame.column { text += ",\"column\":\(column)" }
    if let image = frame.image { text += ",\"image\":\(string(image)),\"offset\":\(address(frame.imageOffset))" }
    if frame.isInlined { text += ",\"inlined\":true" }
    if frame.isRuntime { text += ",\"runtime\":true" }
    return text + "}"
  }

  /// Not every reader's numbers have 64 bits.
  private static func address(_ address: UInt) -> String { "\"0x\(String(address, radix: 16))\"" }

  private static func seconds(_ duration: Duration) -> String {
    let milliseconds = duration.components.seconds * 1000 + duration.components.attoseconds / 1_000_000_000_000_000
    return "\(Double(milliseconds) / 1000)"
  }

  static func string(_ text: String) -> String {
    var result = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": result += "\\\""
      case "\\": result += "\\\\"
      case "\n": result += "\\n"
      case "\t": result += "\\t"
      case _ where scalar.value < 0x20:
        let digits = String(scalar.value, radix: 16)
        result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result + "\""
  }
}
