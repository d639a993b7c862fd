// SPDX-License-Identifier: Apache-2.0

import CCoroutineInspection
import CoroutineLibc

extension TargetMemory {
  /// Opens a process or a core file. A process stands still from here on.
  convenience init(opening inspected: InspectedProcess) throws(InspectionError) {
    switch inspected {
    case .running(let id):
      guard id != getpid() else {
        throw InspectionError(.notPermitted, "a process can't look at itself from outside: use CoroutineDump.capture()")
      }
      var failure = target_failure(0)
      guard let target = coroutine_target_open_process(id, &failure) else {
        throw InspectionError(failure, ofProcess: id, code: errno)
      }
      self.init(target)
    case .core(let core, let executable):
      var failure = target_failure(0)
      var (has, wants): (UInt64, UInt64) = (0, 0)
      guard let target = coroutine_target_open_core(core, executable, &failure, &has, &wants) else {
        throw InspectionError(failure, ofCore: core, executable, has: has, wants: wants, code: errno)
      }
      self.init(target)
    }
  }
}

extension InspectionError {
  fileprivate init(_ failure: target_failure, ofProcess id: CInt, code: CInt) {
    let status = ProcessStatus(id)
    switch failure {
    case target_failed_no_process: self.init(.noProcess, "there is no process \(id)")
    case target_failed_gone: self.init(.noProcess, "process \(id) has ended")
    case target_failed_permission where status.hasEnded: self.init(.noProcess, "process \(id) has ended")
    case target_failed_permission:
      if let tracer = status.tracer {
        self.init(
          .notPermitted,
          "process \(id) is being debugged by process \(tracer): detach that first, or use gdb's command `coroutines`")
      } else {
        self.init(.notPermitted, "no permission to look at process \(id)" + Self.advice)
      }
    case target_failed_stuck:
      self.init(
        .system,
        "\(status.stuckThread.map { "thread \($0) of process \(id)" } ?? "a thread of process \(id)") can't be stopped: it "
          + "waits in the kernel, for a child by vfork, or a disk. All others go on; try again later.")
    default: self.init(.system, "process \(id): \(String(cString: strerror(code)))")
    }
  }

  /// What may keep one from debugging a process.
  private static var advice: String {
    let text = ProcessStatus.contents(of: "/proc/sys/kernel/yama/ptrace_scope")
    if text.hasPrefix("1") || text.hasPrefix("2") {
      return ": this system allows it to root only (kernel.yama.ptrace_scope is \(text.prefix(1))). Try sudo."
    }
    return
      ": it must be of the same user, and one that may be debugged. Try sudo. In a container: --cap-add=SYS_PTRACE."
  }

  fileprivate init(
    _ failure: target_failure, ofCore core: String, _ executable: String, has: UInt64, wants: UInt64, code: CInt
  ) {
    switch failure {
    case target_failed_no_core: self.init(.unusableCore, "\(core) is no core file")
    case target_failed_architecture: self.init(.unusableCore, "\(core) is of another kind of machine")
    case target_failed_cut_short:
      self.init(
        .unusableCore,
        "\(core) is cut short: it has \(has) of \(wants) bytes. Was the disk full, or its size limited (ulimit -c)?")
    case target_failed_contradiction:
      self.init(.unusableCore, "\(core) contradicts itself: it was overwritten, or forged")
    case target_failed_executable: self.init(.unusableExecutable, "\(executable) is no executable that can be read")
    case target_failed_other_executable:
      self.init(.unusableExecutable, "\(executable) is not the executable that \(core) is of, but another build")
    default: self.init(.unusableCore, "\(core): \(String(cString: strerror(code)))")
    }
  }
}

/// The facts about a process that the kernel shows every user.
private struct ProcessStatus {
  private let id: CInt
  private let lines: [Substring]

  init(_ id: CInt) {
    self.id = id
    lines = Self.contents(of: "/proc/\(id)/status").split(separator: "\n")
  }

  private func value(_ key: String) -> Substring? {
    lines.first { $0.hasPrefix(key + ":") }?.dropFirst(key.utf8.count + 1).drop { $0 == "\t" || $0 == " " }
  }

  /// It has ended, and its parent has not collected it yet.
  var hasEnded: Bool { value("State")?.hasPrefix("Z") ?? true }

  /// The process that debugs it: the kernel names the thread.
  var tracer: CInt? {
    guard let thread = value("TracerPid").flatMap({ CInt($0) }), thread != 0 else { return nil }
    return ProcessStatus(thread).value("Tgid").flatMap { CInt($0) } ?? thread
  }

  /// The number and the name of a thread that neither signals nor debuggers reach.
  var stuckThread: String? {
    guard let folder = opendir("/proc/\(id)/task") else { return nil }
    defer { closedir(folder) }
    while let entry = readdir(folder) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      guard let thread = CInt(name) else { continue }
      let status = ProcessStatus(thread)
      guard status.value("State")?.hasPrefix("D") == true else { continue }
      // It may have given itself any name.
      return "\(thread) (\((status.value("Name") ?? "").filter { $0.isASCII && $0 >= " " && $0 != "\u{7f}" }))"
    }
    return nil
  }

  static func contents(of path: String) -> String {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return "" }
    defer { close(file) }
    return String(unsafeUninitializedCapacity: 8192) { max(0, read(file, $0.baseAddress, $0.count)) }
  }
}
