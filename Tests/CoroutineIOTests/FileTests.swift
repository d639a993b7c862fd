import CCoroutineIO
import CCoroutineTests
import CoroutineTestSupport
import Foundation
import Testing

@testable import Coroutine
@testable import CoroutineIO

/// Files and folders: reads and writes, paths that are no regular files, cancels and closes in the middle.
@Suite(.ownThreads, .timeLimit(.minutes(30))) struct FileTests {
  /// Calls `body` with a new folder, which it removes.
  private func withFolder<Value: Sendable>(_ body: @escaping @Sendable (String) throws -> Value) throws -> Value {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("files-\(UUID())").path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    return try Coroutine { try body(folder) }.getBlocking()
  }

  private func expectError(_ code: CInt, _ body: () throws -> Void, line: Int = #line) {
    do {
      try body()
      Issue.record("no error in line \(line)")
    } catch { #expect((error as? IOError)?.code == code, "line \(line)") }
  }

  @Test func whatIsWrittenAtOffsetsIsRead() throws {
    try withFolder { folder in
      let file = try File(opening: folder + "/a", for: .readingAndWriting, creating: .always)
      try file.write([1, 2, 3], at: 0)
      try file.write([9], at: 5)
      #expect(try file.read(upTo: 100, at: 0) == [1, 2, 3, 0, 0, 9])
      #expect(try file.read(upTo: 2, at: 1) == [2, 3])
      #expect(try file.read(upTo: 2, at: 6) == [])
      #expect(try file.size() == 6)
      try file.resize(to: 2)
      try file.synchronize()
      #expect(try File.contents(of: folder + "/a") == [1, 2])
    }
  }

  @Test func whatAFileWasNotOpenedForIsRefused() throws {
    try withFolder { folder in
      let path = folder + "/a"
      try File.replace(path, with: Array("HEADERDATA".utf8))
      for access in [File.Access.writing, .readingAndWriting, .reading] {
        expectError(EBADF) { try File(opening: path, for: access).append(Array("log".utf8)) }
      }
      expectError(EBADF) { try File(opening: path, for: .appending).write([1], at: 0) }
      #expect(try File.contents(of: path) == Array("HEADERDATA".utf8))
    }
  }

  @Test func aZeroByteInAPathIsRefused() throws {
    try withFolder { folder in
      let path = folder + "/secret"
      try File.replace(path, with: [1])
      expectError(EINVAL) { _ = try File.contents(of: path + "\0.png") }
      expectError(EINVAL) { _ = try File(opening: path + "\0.png") }
      expectError(EINVAL) { try File.replace(path + "\0.png", with: []) }
      expectError(EINVAL) { _ = try Folder.entries(of: folder + "\0x").next() }
      expectError(EINVAL) { _ = try ChildProcess("true", ["a\0b"]) }
      #expect(try File.contents(of: path) == [1])
    }
  }

  @Test func asMuchAsThereIsCanBeAskedFor() throws {
    try withFolder { folder in
      try File.replace(folder + "/a", with: [1, 2, 3])
      let file = try File(opening: folder + "/a")
      #expect(try file.read(upTo: .max, at: 0) == [1, 2, 3])
      #expect(try file.read(upTo: .max, at: 2) == [3])
      #expect(try file.read(upTo: .max, at: 9) == [])
      // Its size is said to be zero.
      #expect(try File(opening: "/proc/self/maps").read(upTo: .max, at: 0).isEmpty == false)
    }
  }

  @Test func anErrorInTheMiddleOfAReadIsNotTakenForTheEnd() throws {
    try withFolder { folder in
      // The second page is one that can't be had, as a bad block of a disk.
      let page = sysconf(Int32(_SC_PAGESIZE))
      let memory = try #require(
        mmap(nil, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
      defer { munmap(memory, 2 * page) }
      let empty = open(folder + "/empty", O_RDWR | O_CREAT, 0o600)
      defer { close(empty) }
      #expect(mmap(memory + page, page, PROT_READ, MAP_SHARED | MAP_FIXED, empty, 0) == memory + page)
      let file = try File(opening: "/proc/self/mem")
      let offset = Int64(Int(bitPattern: memory))
      #expect(try file.read(upTo: page, at: offset).count == page)
      expectError(EIO) { _ = try file.read(upTo: 2 * page, at: offset) }
      expectError(EIO) { _ = try file.read(upTo: 1 << 30, at: offset) }
    }
  }

  @Test func aReplacedLinkLeadsToTheNewFile() throws {
    try withFolder { folder in
      #expect(symlink("inner/b", folder + "/a") == 0 && mkdir(folder + "/inner", 0o700) == 0)
      #expect(symlink("c", folder + "/inner/b") == 0)
      try File.replace(folder + "/a", with: [7])
      #expect(try File.contents(of: folder + "/inner/c") == [7])
      #expect(symlink("loop", folder + "/loop") == 0)
      expectError(ELOOP) { try File.replace(folder + "/loop", with: [7]) }
    }
  }

  @Test func aNameOfOtherBytesThanTextIsKept() throws {
    try withFolder { folder in
      let real = Array(folder.utf8) + Array("/b".utf8) + [0xFF]
      let path = (real + [0]).map { CChar(bitPattern: $0) }
      close(open(path, O_CREAT | O_WRONLY, 0o600))
      #expect(symlink(path, folder + "/a") == 0)
      try File.replace(folder + "/a", with: [7])
      #expect(try File.contents(of: folder + "/a") == [7])
      let entries = Folder.entries(of: folder)
      for _ in 1...2 { #expect(try entries.next() != nil) }
      #expect(try entries.next() == nil)
    }
  }

  /// As a FAT refuses some names.
  @Test func aReplacementThatTheFileSystemRefusesIsNoSuccess() async {
    await #expect(processExitsWith: .success) {
      let path = FileManager.default.temporaryDirectory.appendingPathComponent("refused-\(UUID())").path
      defer { unlink(path) }
      let old = try await Coroutine {
        try File.replace(path, with: [1])
        precondition(coroutine_test_refuse_renames(EINVAL) == 0)
        for synchronizes in [false, true] {
          do {
            try File.replace(path, with: [2], synchronizing: synchronizes)
            fatalError("it was replaced")
          } catch let error as IOError {
            precondition(error.code == EINVAL && error.operation == "rename")
          }
        }
        return try File.contents(of: path)
      }.value
      precondition(old == [1])
    }
  }

  /// As one of the network does it, which has kept the bytes back.
  @Test func aReplacementThatItsCloseRefusesIsNoSuccess() async {
    await #expect(processExitsWith: .success) {
      let path = FileManager.default.temporaryDirectory.appendingPathComponent("unclosed-\(UUID())").path
      defer { unlink(path) }
      let old = try await Coroutine {
        try File.replace(path, with: [1])
        precondition(coroutine_test_refuse_closes(EIO) == 0)
        do {
          try File.replace(path, with: [2])
          fatalError("it was replaced")
        } catch let error as IOError {
          precondition(error.code == EIO && error.operation == "close")
        }
        return try File.contents(of: path)
      }.value
      precondition(old == [1])
    }
  }

  @Test func anInterruptedSynchronizationIsRepeated() async {
    await #expect(processExitsWith: .success) {
      let number = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)
      precondition(coroutine_test_interrupt_fsync() == 0)
      precondition(coroutine_io_file_synchronize(number) == 0)
      precondition(coroutine_test_fsync_count() == 2)
    }
  }

  @Test(.disabled(if: getuid() == 0, "root may read every folder"))
  func aReplacementThatFailsLeavesTheOldFile() throws {
    try withFolder { folder in
      try File.replace(folder + "/a", with: [1])
      #expect(chmod(folder, 0o333) == 0)
      expectError(EACCES) { try File.replace(folder + "/a", with: [2], synchronizing: true) }
      #expect(chmod(folder, 0o700) == 0)
      #expect(try File.contents(of: folder + "/a") == [1])
    }
  }

  @Test func onAPlainThreadItIsAPlainCall() throws {
    let path = FileManager.default.temporaryDirectory.appendingPathComponent("plain-\(UUID())").path
    defer { unlink(path) }
    try File.replace(path, with: [7])
    #expect(try File.contents(of: path) == [7])
    #expect(try Folder.entries(of: "/proc/self").next() != nil)
  }

  @Test func manyWritersOfOneFileDoNotDisturbEachOther() throws {
    try withFolder { folder in
      let file = try File(opening: folder + "/a", for: .readingAndWriting, creating: .always)
      let writers = (0..<32).map { number in
        Coroutine {
          for turn in 0..<16 {
            try file.write([UInt8](repeating: UInt8(number), count: 4), at: Int64(4 * (32 * turn + number)))
          }
        }
      }
      for writer in writers { try writer.get() }
      let all = try file.read(upTo: .max >> 40, at: 0)
      #expect(all == (0..<16).flatMap { _ in (0..<32).flatMap { [UInt8](repeating: UInt8($0), count: 4) } })
    }
  }

  @Test func appendedLinesOfTwoOpeningsAreAllThere() throws {
    try withFolder { folder in
      let writers = (0..<4).map { _ in
        Coroutine {
          let log = try File(opening: folder + "/log", for: .appending, creating: .ifMissing)
          for _ in 0..<50 { try log.append(Array("a line of it\n".utf8)) }
        }
      }
      for writer in writers { try writer.get() }
      let lines = String(decoding: try File.contents(of: folder + "/log"), as: UTF8.self).split(separator: "\n")
      #expect(lines.count == 200 && Set(lines) == ["a line of it"])
    }
  }

  @Test func chunksComeInOrderAndTheRestAtTheEnd() throws {
    try withFolder { folder in
      let bytes = (0..<1000).map { UInt8(truncatingIfNeeded: $0) }
      try File.replace(folder + "/a", with: bytes)
      var chunks = try File(opening: folder + "/a").chunks(of: 300)
      var sizes: [Int] = []
      var read: [UInt8] = []
      while let chunk = try chunks.next() {
        sizes.append(chunk.count)
        read += chunk
      }
      #expect(sizes == [300, 300, 300, 100])
      #expect(read == bytes)
    }
  }

  // MARK: Whole files

  @Test func filesThatDoNotTellTheirSizeAreReadToTheirEnd() throws {
    #expect(try File.contents(of: "/proc/self/status").count > 100)
    try withFolder { folder in
      let bytes = [UInt8](repeating: 5, count: 200_000)
      try File.replace(folder + "/a", with: bytes)
      #expect(try File.contents(of: folder + "/a") == bytes)
    }
  }

  @Test func aReplacedFileKeepsItsRightsAndItsLink() throws {
    try withFolder { folder in
      try File.replace(folder + "/a", with: [1], permissions: 0o600)
      chmod(folder + "/a", 0o640)
      symlink("a", folder + "/link")
      try File.replace(folder + "/link", with: [2], synchronizing: true)
      var status = stat()
      #expect(stat(folder + "/a", &status) == 0 && status.st_mode & 0o7777 == 0o640)
      #expect(lstat(folder + "/link", &status) == 0 && status.st_mode & S_IFMT == S_IFLNK)
      #expect(try File.contents(of: folder + "/a") == [2])
      let names = try FileManager.default.contentsOfDirectory(atPath: folder)
      #expect(names.sorted() == ["a", "link"])
    }
  }

  @Test func aFileMayHaveAsManyBytesAsAllowed() throws {
    try withFolder { folder in
      try File.replace(folder + "/a", with: [1, 2, 3])
      #expect(try File.contents(of: folder + "/a", limit: 3) == [1, 2, 3])
      #expect(throws: StreamTooLong(limit: 2, subject: folder + "/a")) {
        try File.contents(of: folder + "/a", limit: 2)
      }
      // It claims more than any machine has memory for.
      #expect(truncate(folder + "/a", 1 << 43) == 0)
      #expect(throws: StreamTooLong.self) { try File.contents(of: folder + "/a", limit: 1 << 20) }
    }
  }

  @Test(.enabled(if: getuid() == 0, "only root may give files away"))
  func aFileOfAnotherUserStaysThatUsers() throws {
    try withFolder { folder in
      try File.replace(folder + "/a", with: [1])
      #expect(chown(folder + "/a", 1234, 1235) == 0 && chmod(folder + "/a", 0o4755) == 0)
      try File.replace(folder + "/a", with: [2])
      var status = stat()
      #expect(stat(folder + "/a", &status) == 0)
      #expect(status.st_uid == 1234 && status.st_gid == 1235 && status.st_mode & 0o7777 == 0o4755)
    }
  }

  /// The old file was for its group, and the new one has another group.
  @Test(.enabled(if: getuid() == 0, "only root can become another user"))
  func theRightsOfAGroupGoToNoOther() throws {
    let folder = try TemporaryFolder()
    let path = folder.path + "/a"
    try File.replace(path, with: [1])
    #expect(chmod(folder.path, 0o777) == 0 && chown(path, 1234, 1235) == 0 && chmod(path, 0o640) == 0)
    for (groups, expected) in [([], (1236, 0o600)), ([1235], (1235, 0o640))] as [([gid_t], (gid_t, mode_t))] {
      #expect(chown(path, 1234, 1235) == 0)
      let end = Child.end {
        guard setgroups(groups.count, groups) == 0, setgid(1236) == 0, setuid(1234) == 0 else { return 1 }
        // A folder above it may be closed to others.
        guard access(folder.path, W_OK) == 0 else { return 2 }
        do { try File.replace(path, with: [2]) } catch { return 3 }
        var status = stat()
        return stat(path, &status) == 0 && status.st_gid == expected.0 && status.st_mode & 0o7777 == expected.1 ? 0 : 4
      }
      #expect(end == .exited(0) || end == .exited(2))
      #expect(chmod(path, 0o640) == 0)
    }
  }

  /// Of a file server, which is asked to give it up.
  @Test func aLeaseOnAFileIsWaitedFor() throws {
    // F_SETSIG, F_SETLEASE, F_GETLEASE, which Swift does not see.
    let (setSignal, setLease, getLease): (CInt, CInt, CInt) = (10, 1024, 1025)
    try withFolder { folder in
      let path = folder + "/a"
      try File.replace(path, with: [1])
      let holder = open(path, O_RDWR | O_CLOEXEC)
      defer { close(holder) }
      // In place of SIGIO, which would end the process.
      #expect(fcntl(holder, setSignal, SIGURG) == 0)
      // Not all file systems have leases.
      guard fcntl(holder, setLease, F_WRLCK) == 0 else { return }
      let reader = Coroutine { try File.contents(of: path) }
      while fcntl(holder, getLease) == F_WRLCK { try Coroutine.sleep(for: .milliseconds(1)) }
      #expect(fcntl(holder, setLease, F_UNLCK) == 0)
      #expect(try reader.get() == [1])
    }
  }

  @Test func aFileThatCanNotBeReplacedLeavesNothingBehind() throws {
    try withFolder { folder in
      #expect(mkfifo(folder + "/fifo", 0o600) == 0)
      expectError(ESPIPE) { try File.replace(folder + "/fifo", with: [1]) }
      #expect(unlink(folder + "/fifo") == 0)
      mkdir(folder + "/a", 0o700)
      expectError(EISDIR) { try File.replace(folder + "/a", with: [1]) }
      expectError(ENOENT) { try File.replace(folder + "/none/a", with: [1]) }
      let names = try FileManager.default.contentsOfDirectory(atPath: folder)
      #expect(names == ["a"])
    }
  }

  /// `/dev/full` is no regular file. The process's limit on file sizes stands in for a full disk.
  @Test func aFullDiskTellsHowMuchWasWritten() async {
    await #expect(processExitsWith: .success) {
      signal(SIGXFSZ, SIG_IGN)
      var limit = rlimit(rlim_cur: 10, rlim_max: 10)
      let path = FileManager.default.temporaryDirectory.appendingPathComponent("full-\(UUID())").path
      defer { unlink(path) }
      let fill = {
        let file = try File(opening: path, for: .writing, creating: .always)
        setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit)
        try file.write([UInt8](repeating: 1, count: 100), at: 0)
      }
      do {
        try fill()
        fatalError("it was written")
      } catch let error as PartialWrite {
        precondition(error.bytesWritten == 10 && (error.cause as? IOError)?.code == EFBIG)
      }
    }
  }

  // MARK: What is no file

  @Test func whatHasNoOffsetsIsRefusedAndNothingWaits() throws {
    try withFolder { folder in
      mkfifo(folder + "/fifo", 0o600)
      expectError(ESPIPE) { _ = try File(opening: folder + "/fifo") }
      expectError(ESPIPE) { _ = try File(opening: folder + "/fifo", for: .writing) }
      expectError(ESPIPE) { _ = try File(opening: "/dev/null") }
      expectError(EISDIR) { _ = try File(opening: folder) }
      expectError(ENOENT) { _ = try File(opening: folder + "/none") }
      try File.replace(folder + "/a", with: [])
      expectError(EEXIST) { _ = try File(opening: folder + "/a", creating: .always) }
      expectError(EBADF) { try File(opening: folder + "/a").write([1], at: 0) }
    }
  }

  // MARK: Closed, cancelled

  @Test func afterTheCloseEachOperationSaysSo() throws {
    try withFolder { folder in
      let file = try File(opening: folder + "/a", for: .readingAndWriting, creating: .always)
      file.close()
      file.close()
      #expect(throws: DescriptorClosed.self) { try file.write([1], at: 0) }
      #expect(throws: DescriptorClosed.self) { _ = try file.read(upTo: 1, at: 0) }
      #expect(throws: DescriptorClosed.self) { _ = try file.size() }
    }
  }

  /// close(2) may take long, and would keep the thread of the other coroutines.
  @Test func aFileThatACoroutineDropsIsClosedByTheFilesPool() async {
    await #expect(processExitsWith: .success) {
      FilePool.shared.threadLimit = 1
      let (begun, gate) = (Gate(), Gate())
      try runInExitTest {
        let blocker = Coroutine(on: .pool) {
          try blocking(on: FilePool.shared) {
            begun.open()
            gate.pass()
          }
        }
        begun.pass()
        let number = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)
        _ = FileNumber(number)
        // The only thread is taken.
        precondition(fcntl(number, F_GETFD) != -1)
        let other = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)
        FileNumber(other).close()
        precondition(fcntl(other, F_GETFD) == -1)
        gate.open()
        try blocker.get()
        while fcntl(number, F_GETFD) != -1 { try Coroutine.sleep(for: .milliseconds(1)) }
      }
    }
  }

  @Test(.disabled(if: StackSupply.sanitizersActive, "a sanitizer's locks are not free in a child"))
  func aFileThatACoroutineInAChildDropsIsClosed() throws {
    try runUntilComplete {
      // The pool of files, and its threads, are the parent's.
      _ = try File.contents(of: "/proc/self/status")
      let number = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)
      let end = Child.end {
        _ = FileNumber(number)
        return fcntl(number, F_GETFD) == -1 ? 0 : 1
      }
      #expect(end == .exited(0))
      close(number)
    }
  }

  /// The pool's thread keeps nothing of an operation that has returned. In a process of its own: a child that another test
  /// starts would have the file for a moment.
  @Test func aCloseBehindAnOperationIsDoneWhenItReturns() async {
    await #expect(processExitsWith: .success) {
      // F_SETLEASE, which Swift does not see.
      let setLease: CInt = 1024
      let path = FileManager.default.temporaryDirectory.appendingPathComponent("lease-\(UUID())").path
      defer { unlink(path) }
      try runInExitTest {
        for _ in 0..<200 {
          let file = try File(opening: path, for: .writing, creating: .ifMissing)
          try file.write([1], at: 0)
          file.close()
          let number = open(path, O_RDWR | O_CLOEXEC)
          // Refused by EAGAIN where the file is open elsewhere. Not all file systems have leases.
          precondition(fcntl(number, setLease, F_WRLCK) == 0 || errno != EAGAIN)
          close(number)
        }
      }
    }
  }

  @Test func aCancelledOperationThrowsAndTheFileStaysUsable() throws {
    try withFolder { folder in
      let file = try File(opening: folder + "/a", for: .readingAndWriting, creating: .always)
      let hasBegun = Channel<Bool>(capacity: .buffered(1))
      let reader = Coroutine { () -> Bool in
        try hasBegun.send(true)
        while !Coroutine.isCancelled { Coroutine.yield() }
        do {
          _ = try file.read(upTo: 1, at: 0)
          return false
        } catch { return error is CancellationError }
      }
      _ = try hasBegun.receive()
      reader.cancel()
      #expect(try reader.get())
      try file.write([3], at: 0)
      #expect(try file.read(upTo: 1, at: 0) == [3])
    }
  }

  // MARK: Folders

  @Test func aFolderOfManyEntriesIsReadToItsEndWithTheirKinds() throws {
    try withFolder { folder in
      for number in 0..<200 { try File.replace("\(folder)/\(number)", with: []) }
      mkdir(folder + "/folder", 0o700)
      symlink("nowhere", folder + "/link")
      mkfifo(folder + "/fifo", 0o600)
      var kinds: [String: Folder.Kind] = [:]
      let entries = Folder.entries(of: folder)
      while let entry = try entries.next() { kinds[entry.name] = entry.kind }
      #expect(kinds.count == 203)
      #expect(
        kinds["folder"] == .folder && kinds["link"] == .symbolicLink && kinds["fifo"] == .other && kinds["7"] == .file)
    }
  }

  @Test func aFolderThatCanNotBeReadIsAnError() throws {
    try withFolder { folder in
      let entries = Folder.entries(of: folder + "/none")
      expectError(ENOENT) { _ = try entries.next() }
    }
  }

  @Test func aFolderLeftInTheMiddleIsClosed() throws {
    let count = amount(5000, sanitized: 1100)
    try withFolder { folder in
      for number in 0..<200 { try File.replace("\(folder)/\(number)", with: []) }
      // More folders than most processes may have open.
      for _ in 0..<count { #expect(try Folder.entries(of: folder).next() != nil) }
    }
    #expect(try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count < count)
  }
}
