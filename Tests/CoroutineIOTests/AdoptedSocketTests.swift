import CoroutineIO
import CoroutineTestSupport
import Glibc
import Testing

@testable import Coroutine

/// Sockets that other code has made.
@Suite(.ownThreads) struct AdoptedSocketTests {
  /// A copy, which belongs to no object of the library.
  private func copy(of descriptor: Descriptor) throws -> Int32 {
    try descriptor.withFileDescriptor { fcntl($0, F_DUPFD, 3) }
  }

  private func isRefused(_ number: Int32, _ code: Int32, _ adopt: (Int32) throws -> Void) -> Bool {
    let flags = (fcntl(number, F_GETFL), fcntl(number, F_GETFD))
    do {
      try adopt(number)
      return false
    } catch let error as IOError {
      return error.code == code && flags == (fcntl(number, F_GETFL), fcntl(number, F_GETFD))
    } catch {
      return code == 0 && error is InvalidAddress && flags == (fcntl(number, F_GETFL), fcntl(number, F_GETFD))
    }
  }

  @Test func aListenerIsTakenOver() throws {
    try runUntilComplete {
      let first = try TCPListener()
      let number = try copy(of: first.descriptor)
      let listener = try TCPListener(adopting: number)
      #expect(listener.address == first.address && fcntl(number, F_GETFD) & FD_CLOEXEC != 0)
      first.close()
      let client = try TCPConnection(to: listener.address)
      let connection = try listener.accept()
      try client.write("x\n")
      #expect(try connection.readLine() == "x")
      listener.close()
      #expect(fcntl(number, F_GETFD) == -1)
    }
  }

  @Test func theEndOfAUnixListenerLeavesThePathToOthers() throws {
    try runUntilComplete {
      let folder = try TemporaryFolder()
      let path = folder.path + "/socket"
      let first = try UnixListener(path: path)
      let listener = try UnixListener(adopting: copy(of: first.descriptor))
      #expect(listener.address == first.address)
      listener.close()
      #expect(access(path, F_OK) == 0)
      let client = try UnixConnection(to: path)
      _ = try first.accept()
      client.close()
      first.close()
      #expect(access(path, F_OK) != 0)
    }
  }

  @Test func connectionsAreTakenOver() throws {
    try runUntilComplete {
      let listener = try TCPListener()
      let client = try TCPConnection(to: listener.address)
      let accepted = try listener.accept()
      let connection = try TCPConnection(adopting: copy(of: accepted.descriptor))
      accepted.close()
      #expect(try connection.remoteAddress == client.localAddress)
      try client.write("x\n")
      #expect(try connection.readLine() == "x")
      var ends: [Int32] = [0, 0]
      #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
      let pair = try ends.map { try UnixConnection(adopting: $0) }
      try pair[0].write("y\n")
      #expect(try pair[1].readLine() == "y")
    }
  }

  @Test func otherSocketsAreRefusedAndStayAsTheyAre() throws {
    let types = [Int32(SOCK_STREAM.rawValue), Int32(SOCK_DGRAM.rawValue)]
    let (stream, datagrams) = (socket(AF_INET, types[0], 0), socket(AF_INET, types[1], 0))
    let (unix, file) = (socket(AF_UNIX, types[0], 0), open("/dev/null", O_RDONLY))
    defer { for number in [stream, datagrams, unix, file] { close(number) } }
    #expect(isRefused(stream, EINVAL) { _ = try TCPListener(adopting: $0) })
    #expect(isRefused(stream, ENOTCONN) { _ = try TCPConnection(adopting: $0) })
    #expect(isRefused(datagrams, EPROTOTYPE) { _ = try TCPListener(adopting: $0) })
    #expect(isRefused(datagrams, EPROTOTYPE) { _ = try TCPConnection(adopting: $0) })
    #expect(isRefused(file, ENOTSOCK) { _ = try UnixListener(adopting: $0) })
    #expect(listen(stream, 1) == 0)
    #expect(isRefused(stream, 0) { _ = try UnixListener(adopting: $0) })
    #expect(isRefused(unix, EINVAL) { _ = try UnixListener(adopting: $0) })
  }
}
