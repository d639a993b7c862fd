import Foundation

/// The threads of another process, which are stopped as long as this value exists. Only the thread that made it may
/// use it.
struct StoppedThreads: ~Copyable {
  let ids: [CInt]

  init(of process: CInt) {
    var stopped: [CInt] = []
    // As long as a thread runs, it may start others.
    while true {
      let all = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task")) ?? []
      let new = all.compactMap { CInt($0) }.filter { !stopped.contains($0) && Self.stop($0) }
      if new.isEmpty { break }
      stopped += new
    }
    ids = stopped.sorted()
  }

  deinit {
    for id in ids { _ = ForkedProcess.ptrace(17, id, 0, 0) }  // PTRACE_DETACH
  }

  private static func stop(_ id: CInt) -> Bool {
    var status: CInt = 0
    // PTRACE_SEIZE, PTRACE_INTERRUPT, and __WALL for threads that are not a process's first.
    return ForkedProcess.ptrace(0x4206, id, 0, 0) == 0 && ForkedProcess.ptrace(0x4207, id, 0, 0) == 0
      && waitpid(id, &status, 0x4000_0000) == id
  }

  /// A thread's general registers, in the kernel's layout.
  func registers(of id: CInt) -> Data {
    var bytes = [UInt8](repeating: 0, count: 1024)
    let count = bytes.withUnsafeMutableBytes { bytes in
      withUnsafeTemporaryAllocation(of: iovec.self, capacity: 1) { vector -> Int in
        vector[0] = iovec(iov_base: bytes.baseAddress, iov_len: bytes.count)
        // PTRACE_GETREGSET
        return ForkedProcess.ptrace(0x4204, id, 1, Int(bitPattern: vector.baseAddress)) == 0 ? vector[0].iov_len : 0
      }
    }
    return Data(bytes[..<count])
  }
}
