import Context
import CoroutineTestSupport
import Foundation
import Testing

/// A link or a FIFO in the place of an output file neither leads the runtime to another file nor makes it wait.
@Suite(.ownThreads) struct OutputFileTests {
  private let folder: String

  init() throws {
    var template = Array("/tmp/coroutine-output-XXXXXX".utf8CString)
    folder = try #require(mkdtemp(&template).map { String(cString: $0) })
  }

  private func inFolder(_ body: (_ path: String) throws -> Void) throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    try body(folder + "/file")
  }

  /// The words of the refusal; `nil` if the file was opened.
  private func refusal(of path: String, appends: Bool) -> (operation: String, code: CInt)? {
    do {
      close(try OutputFile.open(path, appends: appends))
      return nil
    } catch {
      return (error.operation, error.code)
    }
  }

  @Test func aNewFileIsItsOwnersAlone() throws {
    try inFolder { path in
      for appends in [true, false] {
        let descriptor = try OutputFile.open(path, appends: appends)
        var status = stat()
        #expect(fstat(descriptor, &status) == 0 && status.st_mode & 0o777 == 0o600)
        #expect(fcntl(descriptor, F_GETFD) & FD_CLOEXEC != 0)
        close(descriptor)
        unlink(path)
      }
    }
  }

  @Test(arguments: [true, false]) func whatAFileHasStaysOnlyWhenAppending(appends: Bool) throws {
    try inFolder { path in
      try "old ".write(toFile: path, atomically: false, encoding: .utf8)
      let descriptor = try OutputFile.open(path, appends: appends)
      #expect(write(descriptor, "new", 3) == 3)
      close(descriptor)
      #expect(try String(contentsOfFile: path, encoding: .utf8) == (appends ? "old new" : "new"))
    }
  }

  @Test(arguments: [true, false]) func aSymbolicLinkIsNotFollowed(appends: Bool) throws {
    try inFolder { path in
      let target = folder + "/target"
      try "precious".write(toFile: target, atomically: false, encoding: .utf8)
      for destination in [target, folder + "/missing"] {
        symlink(destination, path)
        let refusal = refusal(of: path, appends: appends)
        #expect(refusal?.code == ELOOP)
        #expect(refusal?.operation == "open \(path), a symbolic link, which is not followed")
        unlink(path)
      }
      #expect(try String(contentsOfFile: target, encoding: .utf8) == "precious")
      #expect(access(folder + "/missing", F_OK) != 0)
    }
  }

  /// As a symbolic link it may lead to a file that only the caller may write.
  @Test(arguments: [true, false]) func aFileWithAnotherNameIsRefused(appends: Bool) throws {
    try inFolder { path in
      let target = folder + "/target"
      try "precious".write(toFile: target, atomically: false, encoding: .utf8)
      #expect(link(target, path) == 0)
      let refusal = refusal(of: path, appends: appends)
      #expect(refusal?.operation == "open \(path), a file that has other names, or none any more")
      #expect(refusal?.code == EMLINK)
      #expect(try String(contentsOfFile: target, encoding: .utf8) == "precious")
    }
  }

  /// It could be read by the other user, whatever the mode.
  @Test(.enabled(if: geteuid() == 0, "only root may give a file away"), arguments: [true, false])
  func aFileOfAnotherUserIsRefused(appends: Bool) throws {
    try inFolder { path in
      try "theirs".write(toFile: path, atomically: false, encoding: .utf8)
      #expect(chown(path, 65534, 65534) == 0)
      let refusal = refusal(of: path, appends: appends)
      #expect(refusal?.operation == "open \(path), which is another user's file" && refusal?.code == EPERM)
      #expect(try String(contentsOfFile: path, encoding: .utf8) == "theirs")
    }
  }

  @Test(arguments: [true, false]) func aFIFOMakesNoCallerWait(appends: Bool) throws {
    try inFolder { path in
      #expect(mkfifo(path, 0o600) == 0)
      #expect(refusal(of: path, appends: appends)?.operation == "open \(path), which is no regular file")
      // A FIFO that has a reader.
      let reader = open(path, O_RDONLY | O_NONBLOCK)
      defer { close(reader) }
      let refusal = refusal(of: path, appends: appends)
      #expect(refusal?.operation == "open \(path), which is no regular file" && refusal?.code == EINVAL)
    }
  }

  @Test func whatIsNoFileIsRefused() throws {
    try inFolder { path in
      #expect(refusal(of: folder, appends: true)?.code == EISDIR)
      #expect(refusal(of: path + "/below", appends: true)?.code == ENOENT)
      #expect(refusal(of: "/dev/zero", appends: false)?.operation == "open /dev/zero, which is no regular file")
      #expect(refusal(of: "/dev/null", appends: false) == nil)
    }
  }
}
