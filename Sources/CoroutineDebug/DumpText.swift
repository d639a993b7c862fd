// A dump as text for people.

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
    let style = DumpStyle(folding: folding, fullPaths: fullPaths)
    guard !coroutines.isEmpty else {
      stream.write("no coroutine is suspended\n")
      return
    }
    var isFirst = true
    for group in groups() {
      if !isFirst { stream.write("\n") }
      isFirst = false
      style.write(group, to: &stream)
    }
  }

  /// The backtraces, by what the text shows once for all.
  private func groups() -> [[CoroutineBacktrace]] {
    struct Key: Hashable {
      let state: CoroutineBacktrace.State
      let addresses: [UInt]
    }
    var groups: [Key: [CoroutineBacktrace]] = [:]
    for coroutine in coroutines {
      groups[Key(state: coroutine.state, addresses: coroutine.frames.map(\.address)), default: []].append(coroutine)
    }
    return groups.values.sorted { ($1.count, $0[0].id) < ($0.count, $1[0].id) }
  }
}

extension CoroutineBacktrace: CustomStringConvertible {
  /// Its part of a dump.
  public var description: String {
    var text = ""
    DumpStyle(folding: true, fullPaths: false).write([self], to: &text)
    return text
  }

  /// Number and name: `12 "reader"`.
  fileprivate var label: String { name.isEmpty ? "\(id)" : "\(id) \"\(name)\"" }
}

extension CoroutineBacktrace.Frame: CustomStringConvertible {
  /// Address, function and place, on one line.
  public var description: String { DumpStyle(folding: true, fullPaths: false).text(of: self, isInlined: isInlined) }
}

/// How a dump is written.
private struct DumpStyle {
  let folding: Bool
  let fullPaths: Bool

  /// So many members of a group are named, and so many different things that they wait for.
  private static var namedMembers: Int { 8 }

  /// Coroutines with equal stacks, at least one.
  func write(_ group: [CoroutineBacktrace], to stream: inout some TextOutputStream) {
    let first = group[0]
    if group.count == 1 {
      stream.write("coroutine \(first.label): \(first.state)\(reason(first.waitsFor, first.state))\n")
    } else {
      writeHeader(of: group, to: &stream)
    }
    let frames = first.frames.filter { !(folding && $0.isRuntime) }
    for (number, frame) in frames.enumerated() {
      // What was inlined into a function that is left out stands there as if it had been called.
      let isInlined = frame.isInlined && number + 1 < frames.count && frames[number + 1].address == frame.address
      stream.write("\(Self.padded("\(number)", to: 5))  \(text(of: frame, isInlined: isInlined))\n")
    }
    if first.isTruncated { stream.write("     … and further frames\n") }
  }

  private func writeHeader(of group: [CoroutineBacktrace], to stream: inout some TextOutputStream) {
    let reasons = Dictionary(grouping: group, by: \.waitsFor).values
      .sorted { ($1.count, $0[0].id) < ($0.count, $1[0].id) }
    let state = group[0].state
    stream.write("\(group.count) coroutines: \(state)")
    guard reasons.count > 1 else {
      stream.write("\(reason(group[0].waitsFor, state))\n   \(members(of: group))\n")
      return
    }
    stream.write("\n")
    for same in reasons.prefix(Self.namedMembers) {
      stream.write("   \(same[0].waitsFor): \(members(of: same))\n")
    }
    if reasons.count > Self.namedMembers {
      stream.write("   and \(reasons.count - Self.namedMembers) other things\n")
    }
  }

  private func reason(_ waitsFor: String, _ state: CoroutineBacktrace.State) -> String {
    state == .ready ? "" : ", \(waitsFor)"
  }

  private func members(of group: [CoroutineBacktrace]) -> String {
    let named = group.prefix(Self.namedMembers).map(\.label).joined(separator: ", ")
    let others = group.count - Self.namedMembers
    return others > 0 ? "\(named), and \(others) more" : named
  }

  /// A frame's line.
  func text(of frame: CoroutineBacktrace.Frame, isInlined: Bool) -> String {
    var text = "0x" + Self.padded(String(frame.address, radix: 16), to: 12, with: "0") + " "
    text += frame.function ?? "???"
    if isInlined { text += " [inlined]" }
    if let file = frame.file, let line = frame.line {
      text += " at \(fullPaths ? file : Self.lastComponent(of: file)):\(line)"
    } else if let image = frame.image {
      text += " in \(fullPaths ? image : Self.lastComponent(of: image))"
      // With the offset a name can be found later, in an executable that was not stripped.
      if frame.function == nil { text += "+0x\(String(frame.imageOffset, radix: 16))" }
    }
    return text
  }

  private static func lastComponent(of path: String) -> String {
    guard let slash = path.lastIndex(of: "/") else { return path }
    return String(path[path.index(after: slash)...])
  }

  private static func padded(_ text: String, to width: Int, with character: Character = " ") -> String {
    String(repeating: character, count: max(0, width - text.count)) + text
  }
}
