// SPDX-License-Identifier: Apache-2.0

// A dump as text for people.

/// How a dump is written.
struct DumpStyle {
  var folds = true
  var fullPaths = false
  var isColored = false

  private enum Color: String {
    case bold = "1"
    case dim = "2"
    case green = "32"
    case yellow = "33"
    case blue = "34"
    case cyan = "36"
  }

  private func paint(_ text: String, _ color: Color) -> String {
    isColored ? "\u{1B}[\(color.rawValue)m\(text)\u{1B}[0m" : text
  }

  private func paint(_ state: CoroutineBacktrace.State) -> String {
    switch state {
    case .running: paint("running", .cyan)
    case .ready: paint("ready", .green)
    case .new: paint("not begun", .blue)
    case .suspended: paint("suspended", .yellow)
    }
  }

  // MARK: A group

  /// Coroutines with equal stacks, at least one.
  func write(
    _ group: DumpGroup, frames: [CoroutineBacktrace.Frame], creationFrames: [CoroutineBacktrace.Frame],
    to stream: inout some TextOutputStream
  ) {
    let sample = group.sample
    let kind = sample.isGenerator ? "generator" : "coroutine"
    let heading = group.count == 1 ? "\(kind) \(sample.label)" : "\(Self.number(group.count)) \(kind)s"
    stream.write("\(paint(heading, .bold)): \(paint(sample.state))\(time(of: group))")
    if sample.isCancelled { stream.write(", \(paint("cancelled", .yellow))") }
    if group.count == 1 {
      stream.write("\(reason(sample.waitsFor))\(timeLeft(of: group))\n")
    } else {
      writeMembers(of: group, to: &stream)
    }
    let details = details(of: group)
    if !details.isEmpty { stream.write("   \(paint(details, .dim))\n") }
    write(frames, to: &stream)
    if sample.isTruncated { stream.write("     … and further frames\n") }
    if sample.isUnanswered { stream.write("     (its thread did not answer)\n") }
    let creation = creationFrames.filter { !(folds && $0.isRuntime) }
    if !creation.isEmpty {
      stream.write("   created by\n")
      write(creation, to: &stream)
    }
  }

  private func writeMembers(of group: DumpGroup, to stream: inout some TextOutputStream) {
    let reasons = group.reasons.sorted {
      ($1.value.count, $0.value.members.lowest) < ($0.value.count, $1.value.members.lowest)
    }
    guard reasons.count > 1 else {
      stream.write(
        "\(reason(group.sample.waitsFor))\(timeLeft(of: group))\n   \(text(of: group.members, count: group.count))\n")
      return
    }
    stream.write("\n")
    for (reason, members) in reasons.prefix(DumpGroup.named) {
      stream.write("   \(reason.onOneLine): \(text(of: members.members, count: members.count))\n")
    }
    let others = reasons.dropFirst(DumpGroup.named)
    if group.otherReasons > 0 {
      let count = others.reduce(group.otherReasons) { $0 + $1.value.count }
      stream.write("   and other things: \(Self.number(count)) coroutines\n")
    } else if !others.isEmpty {
      stream.write("   and \(others.count) other things\n")
    }
  }

  private func reason(_ waitsFor: String) -> String { waitsFor.isEmpty ? "" : ", \(waitsFor.onOneLine)" }

  private func text(of members: DumpGroup.Members, count: Int) -> String {
    let named = members.labels.map(\.label).joined(separator: ", ")
    let others = count - members.labels.count
    return others > 0 ? "\(named), and \(Self.number(others)) more" : named
  }

  /// How long they have been waiting: from a second on.
  private func time(of group: DumpGroup) -> String {
    guard let shortest = group.shortest, let longest = group.longest, longest >= .seconds(1) else { return "" }
    let (first, last) = (Self.text(shortest), Self.text(longest))
    if first == last { return " for \(last)" }
    return shortest < .seconds(1) ? " for up to \(last)" : " for \(first) to \(last)"
  }

  /// Until they give up waiting.
  private func timeLeft(of group: DumpGroup) -> String {
    guard let left = group.timeLeft else { return "" }
    let (first, last) = (Self.text(left.lowerBound), Self.text(left.upperBound))
    return first == last ? ", \(last) left" : ", \(first) to \(last) left"
  }

  private func details(of group: DumpGroup) -> String {
    var details: [String] = []
    if let scheduler = group.scheduler, !scheduler.isEmpty { details.append("on \(scheduler.onOneLine)") }
    if case .some(.some(let parent)) = group.parentID { details.append("created by coroutine \(parent)") }
    if case .some(.some(let scope)) = group.scope {
      details.append(scope.name.isEmpty ? "in a scope" : "in scope \"\(scope.name.onOneLine)\"")
    }
    if let size = group.stackSize {
      let used =
        group.mostUsed == 0
        ? "" : group.count > 1 ? "up to \(Self.kib(group.mostUsed)) of " : "\(Self.kib(group.mostUsed)) of "
      details.append("\(used)\(Self.kib(size)) KiB of stack")
      if group.peak > 0 { details.append("\(Self.kib(group.peak)) KiB at its deepest") }
    }
    return details.joined(separator: ", ")
  }

  // MARK: Sizes of stacks

  func write(_ sizes: [CoroutineDump.StackSize], to stream: inout some TextOutputStream) {
    guard !sizes.isEmpty else { return }
    stream.write("\n\(paint("stack sizes that would do, by how deep they have been", .bold))\n")
    for size in sizes { stream.write("   \(size.description.onOneLine)\n") }
  }

  // MARK: Frames

  /// - Parameter start: the number of the first one.
  func write(_ all: [CoroutineBacktrace.Frame], from start: Int = 0, to stream: inout some TextOutputStream) {
    let frames = all.filter { !(folds && $0.isRuntime) }
    for (number, frame) in frames.enumerated() {
      // A function that was inlined into one that is left out is shown as if it had been called.
      let isInlined = frame.isInlined && number + 1 < frames.count && frames[number + 1].address == frame.address
      stream.write("\(Self.padded("\(start + number)", to: 5))  \(text(of: frame, isInlined: isInlined))\n")
    }
  }

  /// A frame's line.
  func text(of frame: CoroutineBacktrace.Frame, isInlined: Bool) -> String {
    var text = paint("0x" + Self.padded(String(frame.address, radix: 16), to: 12, with: "0"), .dim) + " "
    text += frame.function?.onOneLine ?? "???"
    if isInlined { text += " [inlined]" }
    if let file = frame.file, let line = frame.line {
      text += " at " + paint("\((fullPaths ? file : Self.lastComponent(of: file)).onOneLine):\(line)", .blue)
    } else if let image = frame.image {
      text += " in \((fullPaths ? image : Self.lastComponent(of: image)).onOneLine)"
      // With the offset a name can be found later, in an executable that was not stripped.
      if frame.function == nil { text += "+0x\(String(frame.imageOffset, radix: 16))" }
    }
    return text
  }

  static func lastComponent(of path: String) -> String {
    guard let slash = path.lastIndex(of: "/") else { return path }
    return String(path[path.index(after: slash)...])
  }

  private static func padded(_ text: String, to width: Int, with character: Character = " ") -> String {
    String(repeating: character, count: max(0, width - text.count)) + text
  }

  // MARK: Quantities

  /// With a comma between each three digits.
  static func number(_ number: Int) -> String {
    var digits = String(number)
    var index = digits.count - 3
    while index > 0 {
      digits.insert(",", at: digits.index(digits.startIndex, offsetBy: index))
      index -= 3
    }
    return digits
  }

  /// To one digit below ten.
  static func kib(_ bytes: Int) -> String {
    let tenths = (bytes * 10 + 512) / 1024
    return bytes >= 10 << 10 || tenths % 10 == 0 ? number((tenths + 5) / 10) : "\(tenths / 10).\(tenths % 10)"
  }

  /// Two digits or more: `250 ms`, `3.2 s`, `12 min`, `5 h 3 min`.
  static func text(_ duration: Duration) -> String {
    let milliseconds = duration.components.seconds * 1000 + duration.components.attoseconds / 1_000_000_000_000_000
    switch milliseconds {
    case ..<1000: return "\(milliseconds) ms"
    case ..<10_000:
      let tenths = milliseconds / 100
      return tenths % 10 == 0 ? "\(tenths / 10) s" : "\(tenths / 10).\(tenths % 10) s"
    case ..<120_000: return "\(milliseconds / 1000) s"
    case ..<7_200_000: return "\(milliseconds / 60_000) min"
    default:
      let minutes = milliseconds / 60_000
      return minutes % 60 == 0 ? "\(minutes / 60) h" : "\(minutes / 60) h \(minutes % 60) min"
    }
  }
}

extension CoroutineDump: CustomStringConvertible {
  /// The text of `write(to:)`.
  public var description: String { text() }

  /// The text of `write(to:)`, in one piece.
  public func text(folding: Bool = true, fullPaths: Bool = false) -> String {
    var text = ""
    write(to: &text, folding: folding, fullPaths: fullPaths)
    return text
  }

  /// Writes the backtraces, those with equal frames together, the largest group first; where two are equal in size, the
  /// one with the lowest number.
  ///
  /// - Parameters:
  ///   - stream: gets it line by line.
  ///   - folding: leaves out the frames of the runtime and of the compiler. What remains is the same on all backends.
  ///   - fullPaths: writes a source file's whole path, not its last component.
  public func write(to stream: inout some TextOutputStream, folding: Bool = true, fullPaths: Bool = false) {
    let style = DumpStyle(folds: folding, fullPaths: fullPaths)
    guard !coroutines.isEmpty else {
      stream.write("no coroutines\n")
      return
    }
    // Equal frames get equal numbers here: backtraces that were not captured have none.
    var numbers: [[UInt]: Int] = [:]
    func number(_ frames: [CoroutineBacktrace.Frame]) -> Int {
      let count = numbers.count
      let number = numbers[frames.map(\.address), default: count]
      numbers[frames.map(\.address)] = number
      return number
    }
    var groups = DumpGroups()
    for coroutine in coroutines {
      var numbered = coroutine
      numbered.stackNumber = number(coroutine.frames)
      numbered.creatorsNumber = coroutine.creationFrames.isEmpty ? nil : number(coroutine.creationFrames)
      groups.insert(numbered)
    }
    var isFirst = true
    for group in groups.sorted {
      if !isFirst { stream.write("\n") }
      isFirst = false
      style.write(
        group, frames: group.sample.frames, creationFrames: group.sample.creationFrames, to: &stream)
    }
  }
}

extension CoroutineBacktrace: CustomStringConvertible {
  /// Its part of a dump.
  public var description: String {
    var text = ""
    DumpStyle().write(DumpGroup(self), frames: frames, creationFrames: creationFrames, to: &text)
    return text
  }
}

extension CoroutineBacktrace.Frame: CustomStringConvertible {
  /// Address, function and location, on one line.
  public var description: String { DumpStyle().text(of: self, isInlined: isInlined) }
}

extension String {
  /// For a line of text. A name, also one of another process, may contain what ends a line, what a terminal takes for a
  /// command, or what reverses the rest of the line.
  package var onOneLine: String {
    // All but these bytes are plain characters.
    guard utf8.contains(where: { $0 < 0x20 || $0 >= 0x7f }) else { return self }
    return unicodeScalars.reduce(into: "") { text, scalar in
      if scalar.isControl {
        text += "\\u{\(String(scalar.value, radix: 16))}"
      } else {
        text.unicodeScalars.append(scalar)
      }
    }
  }
}

extension Unicode.Scalar {
  fileprivate var isControl: Bool {
    switch properties.generalCategory {
    case .control, .lineSeparator, .paragraphSeparator: true
    default: properties.isBidiControl
    }
  }
}
