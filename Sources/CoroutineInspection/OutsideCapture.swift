// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import CCoroutineInspection
import Context
import Coroutine
import CoroutineDebug
import CoroutineLibc

/// Reads the coroutines of another process, as `StackCapture` does of its own: all at once, while the process stands
/// still, so that they belong together. It goes on before the dump is made of them.
struct OutsideCapture: DumpSource {
  let process: DumpedProcess
  let warnings: [String]
  private(set) var stacks: StackTable
  private let coroutines: [CoroutineBacktrace]
  private let images: [Symbolicator.Image]
  /// `nil` if the process does not say: its backend's functions count as the program's.
  private let backendCode: ContextCode?
  /// Keeps what the images' names lead to.
  private let memory: TargetMemory

  init(_ inspected: InspectedProcess, frameLimit: Int, stackPeaks: Bool) throws(InspectionError) {
    require(frameLimit > 0, "a dump of at most \(frameLimit) frames a coroutine shows nothing")
    let memory = try TargetMemory(opening: inspected)
    defer { coroutine_target_resume(memory.target) }
    self.memory = memory
    let isRunning = if case .running = inspected { true } else { false }
    warnings = memory.warnings(isCore: !isRunning)
    let (layout, executable) = try Self.layout(in: memory, isRunning ? [] : warnings)
    var stacks = StackTable()
    var found: [CoroutineBacktrace] = []
    var backend = ""
    var backendCode: ContextCode?
    if let layout {
      var reader = CoroutineReader(
        memory, layout, frameLimit: min(frameLimit, CoroutineDump.Options.mostFrames), stackPeaks: stackPeaks,
        knowsTime: isRunning)
      do throws(TargetMemory.Unreadable) {
        backend = try memory.cString(layout.backend)
        backendCode = ContextCode(line: try memory.cString(layout.backend_code))
        try reader.readAll { found.append($0) }
      } catch {
        guard !coroutine_target_is_exhausted(memory.target) else { throw Self.exhausted(isRunning) }
        throw isRunning
          ? InspectionError(
            .noRuntime, "the runtime's lists of coroutines can't be read: memory is missing, or was overwritten")
          : InspectionError(
            .unusableCore,
            "the core file lacks memory of the coroutines, or the program had overwritten it. gdb's gcore leaves it out: "
              + "have the kernel write it (ulimit -c unlimited; kill -SYS), or look at the process while it runs")
      }
      // What can't be read any more is missing, and was passed over.
      guard !coroutine_target_is_exhausted(memory.target) else { throw Self.exhausted(isRunning) }
      stacks = reader.stacks
    }
    self.stacks = stacks
    coroutines = found
    images = memory.images
    self.backendCode = backendCode
    process = DumpedProcess(
      id: coroutine_target_pid(memory.target), executable: executable, backend: backend, time: Self.time(of: inspected))
  }

  func readAll(
    batch: Int, between: (inout Self) throws -> Void, _ body: (CoroutineBacktrace) throws -> Void
  ) throws {
    var copy = self
    for (index, coroutine) in coroutines.enumerated() {
      if index > 0, index.isMultiple(of: batch) { try between(&copy) }
      try body(coroutine)
    }
  }

  func symbolicator(namesFunctions: Bool) -> Symbolicator {
    Symbolicator(images: images, backend: backendCode, namesFunctions: namesFunctions)
  }

  /// What was overwritten, or forged, would be read for ever.
  private static func exhausted(_ isRunning: Bool) -> InspectionError {
    InspectionError(
      isRunning ? .noRuntime : .unusableCore,
      "the runtime's lists of coroutines lead round in circles, or name more than there is memory for: they were "
        + "overwritten, or forged")
  }

  /// When it was as it was read: a core file is as old as it looks.
  private static func time(of inspected: InspectedProcess) -> Duration {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    if case .core(let path, _) = inspected {
      var status = stat()
      if stat(path, &status) == 0 { time = status.st_mtim }
    }
    // A file may be as old as it likes: in milliseconds it is reckoned with.
    return .seconds(max(0, min(time.tv_sec, 1 << 40))) + .nanoseconds(time.tv_nsec)
  }

  /// The layout that the runtime has published, `nil` if nothing has been created yet; and the executable.
  private static func layout(
    in memory: TargetMemory, _ warnings: [String]
  ) throws(InspectionError) -> (coroutine_debug_layout?, executable: String) {
    let paths = (0..<coroutine_target_image_count(memory.target)).compactMap {
      coroutine_target_image_at(memory.target, $0)?.pointee
    }
    let executable = paths.first { $0.is_executable }.map { String(cString: $0.path) } ?? ""
    let ours = UInt32(coroutine_debug_version)
    var index = 0
    var isFound = false
    while case let address = coroutine_target_find_note(
      memory.target, "Coroutine", UInt32(coroutine_debug_note_type), &index), address != 0
    {
      guard let magic = try? memory.load(address, as: UInt64.self),
        withUnsafeBytes(of: magic, { Array($0) }) == Array(COROUTINE_DEBUG_MAGIC.utf8) + [0],
        let version = try? memory.load(address &+ 8, as: UInt32.self),
        let size = try? memory.load(address &+ 12, as: UInt32.self)
      else { continue }
      let ourSize = MemoryLayout<coroutine_debug_layout>.size
      guard version == ours, size == ourSize else {
        // One that changed without a new number: of the same version, in the middle of its making.
        let (its, known) =
          version == ours ? ("\(version) with \(size) bytes", "\(ourSize) bytes") : ("\(version)", "\(ours)")
        throw InspectionError(
          .otherVersion,
          "\(executable) has another version of the runtime: its layout is \(its), and \(known) is what can be read "
            + "here. Use the coroutine-dump that belongs to it.")
      }
      isFound = true
      guard let layout = try? memory.load(address, as: coroutine_debug_layout.self), layout.is_complete != 0 else {
        continue
      }
      guard layout.is_complete == 1 else {
        throw InspectionError(
          .noRuntime,
          "\(executable) was built without reflection metadata, by which its coroutines could be found: "
            + "build it without -disable-reflection-metadata")
      }
      return (layout, executable)
    }
    guard isFound else {
      throw InspectionError(
        .noRuntime,
        (["there is no coroutine runtime in \(executable.isEmpty ? "it" : executable)"] + warnings)
          .joined(separator: "; "))
    }
    return (nil, executable)
  }
}

extension TargetMemory {
  /// Which files are not the loaded ones, and the consequences.
  fileprivate func warnings(isCore: Bool) -> [String] {
    (0..<coroutine_target_image_count(target)).compactMap { index in
      guard let image = coroutine_target_image_at(target, index)?.pointee else { return nil }
      let problem: String
      switch image.state {
      case target_file_missing: problem = "can't be read"
      case target_file_other_build: problem = "is another build than the one that was loaded"
      case target_file_no_image: problem = "is no library any more"
      case target_file_unproven: problem = "is not read, as the core file has nothing of it to recognise it by"
      default: return nil
      }
      return "\(String(cString: image.path)) \(problem): its functions have no names"
        + (isCore ? ", and stacks end where they lead into it" : "")
    }
  }

  fileprivate var images: [Symbolicator.Image] {
    (0..<coroutine_target_image_count(target)).compactMap { index in
      // Its fields are read from its headers in memory, which may have been overwritten.
      guard let image = coroutine_target_image_at(target, index)?.pointee, image.start < image.end else { return nil }
      return Symbolicator.Image(
        addresses: UInt(image.start)..<UInt(image.end), shift: UInt(image.bias), path: String(cString: image.path),
        file: String(cString: image.file))
    }
  }
}
