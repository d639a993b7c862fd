import CoroutineTestSupport
import Foundation
import Glibc
import Synchronization
import Testing

@testable import Coroutine
@testable import CoroutineIO

@Suite(.ownThreads)
struct ListenerTests {
  @Test func aPortThatIsTakenIsRefused() throws {
    let listener = try TCPListener()
    let error = #expect(throws: IOError.self) { try TCPListener(at: listener.address) }
    #expect(error?.code == EADDRINUSE)
    let one = try TCPListener(reusePort: true)
    let other = try TCPListener(at: one.address, reusePort: true)
    #expect(one.address == other.address)
  }

  @Test func acceptEndsByTimeoutCancelAndClose() throws {
    try runUntilComplete {
      let listener = try TCPListener()
      #expect(throws: TimeoutError.self) { try listener.accept(timeout: .milliseconds(1)) }
      #expect(throws: TimeoutError.self) { try listener.accept(timeout: .zero) }
      let cancelled = Coroutine { try listener.accept() }
      let closed = Coroutine { try listener.accept() }
      Coroutine.yield()
      cancelled.cancel()
      #expect(throws: CancellationError.self) { try cancelled.get() }
      listener.close()
      #expect(throws: DescriptorClosed.self) { try closed.get() }
      #expect(throws: DescriptorClosed.self) { try listener.accept() }
    }
  }

  @Test func oneThatIsCancelledAcceptsNothingMore() throws {
    try runUntilComplete {
      let listener = try TCPListener()
      let client = try TCPConnection(to: listener.address)
      let acceptor = Coroutine { try listener.accept() }
      acceptor.cancel()
      #expect(throws: CancellationError.self) { try acceptor.get() }
      let cancelledInside = Coroutine {
        try #require(Coroutine.current).cancel()
        _ = try listener.accept()
      }
      #expect(throws: CancellationError.self) { try cancelledInside.get() }
      #expect(try listener.accept().remoteAddress == client.localAddress)
    }
  }

  @Test func eachWaiterGetsAConnectionOfItsOwn() throws {
    try runUntilComplete {
      let listener = try TCPListener()
      let accepts = (0..<3).map { _ in Coroutine { try listener.accept() } }
      Coroutine.yield()
      let clients = try (0..<3).map { _ in try TCPConnection(to: listener.address) }
      let peers = try accepts.map { try $0.get().remoteAddress }
      #expect(try Set(peers) == Set(clients.map { try $0.localAddress }))
    }
  }

  @Test func aConnectionResetBeforeItsTurnDisturbsNoOther() throws {
    try runUntilComplete {
      let listener = try TCPListener()
      let hasty = try TCPConnection(to: listener.address)
      try hasty.descriptor.withFileDescriptor { number in
        var option = linger(l_onoff: 1, l_linger: 0)
        #expect(setsockopt(number, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size)) == 0)
      }
      hasty.close()
      let patient = try TCPConnection(to: listener.address)
      try patient.write("hello")
      var seen: [[UInt8]] = []
      // Linux hands over the first connection all the same, and its first read fails.
      while seen.isEmpty {
        let connection = try listener.accept()
        do { seen.append(try connection.readExactly(5)) } catch let error as IOError {
          #expect(error.code == ECONNRESET)
        }
      }
      #expect(seen == [bytes("hello")])
    }
  }

  @Test func aUnixListenersPathComesAndGoes() throws {
    let folder = try TemporaryFolder()
    let path = folder.path + "/socket"
    let listener = try UnixListener(path: path)
    #expect(FileManager.default.fileExists(atPath: path))
    #expect(listener.address.path == path)
    listener.close()
    #expect(!FileManager.default.fileExists(atPath: path))
    _ = try UnixListener(path: path)
    #expect(!FileManager.default.fileExists(atPath: path))
  }

  @Test(.disabled(if: StackSupply.sanitizersActive, "a sanitizer's locks are not free in a child"))
  func aChildThatClosesItsCopyLeavesThePath() throws {
    let folder = try TemporaryFolder()
    let path = folder.path + "/socket"
    let listener = try UnixListener(path: path)
    let end = Child.end {
      listener.close()
      return 0
    }
    #expect(end == .exited(0))
    #expect(FileManager.default.fileExists(atPath: path))
  }

  @Test func aLivingListenersPathIsNotTaken() throws {
    let folder = try TemporaryFolder()
    let path = folder.path + "/socket"
    let listener = try UnixListener(path: path)
    let error = #expect(throws: IOError.self) { try UnixListener(path: path) }
    #expect(error?.code == EADDRINUSE)
    try runUntilComplete {
      let client = try UnixConnection(to: path)
      // The other listener's probe may come first.
      while true {
        let connection = try listener.accept()
        try? client.write("x")
        if try connection.read() != nil { break }
      }
    }
  }

  @Test func aPathThatWasLeftBehindIsTakenOver() throws {
    let folder = try TemporaryFolder()
    let path = folder.path + "/socket"
    let number = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    #expect(try SocketAddress.unix(path: path).withSockaddr { bind(number, $0, $1) } == 0)
    close(number)
    let listener = try UnixListener(path: path)
    try runUntilComplete {
      _ = try UnixConnection(to: path)
      _ = try listener.accept()
    }
  }

  @Test func aPathOfAnotherKindOfFileStays() throws {
    let folder = try TemporaryFolder()
    let path = folder.path + "/file"
    try "text".write(toFile: path, atomically: true, encoding: .utf8)
    #expect(throws: IOError.self) { try UnixListener(path: path) }
    #expect(try String(contentsOfFile: path, encoding: .utf8) == "text")
  }

  @Test func aPathThatOthersHaveTakenStays() throws {
    let folder = try TemporaryFolder()
    let path = folder.path + "/socket"
    let listener = try UnixListener(path: path)
    unlink(path)
    let other = try UnixListener(path: path)
    listener.close()
    #expect(FileManager.default.fileExists(atPath: path))
    other.close()
    #expect(!FileManager.default.fileExists(atPath: path))
  }

  @Test func oneOfTwoClosesAtOnceRemovesThePath() throws {
    let folder = try TemporaryFolder()
    let address = try SocketAddress.unix(path: folder.path + "/socket")
    let number = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    let file = try SocketFile.bind(number, to: address, name: "socket", backlog: 1)
    let storage = ListenerStorage(try Descriptor(adopting: number), at: address, file: file)
    storage.close()
    // On ext4 its file has the number of the one that has gone. On tmpfs it has another one, and the test passes in any case.
    let other = try UnixListener(at: address)
    // What a close does that found the descriptor open still, and comes to the path when the other one is done.
    storage.removeFile()
    #expect(FileManager.default.fileExists(atPath: folder.path + "/socket"))
    other.close()
  }

  @Test func anAbstractNameNeedsNoFile() throws {
    try runUntilComplete {
      let address = try SocketAddress.unix(abstractName: "coroutine-io-test-\(getpid())")
      let listener = try UnixListener(at: address)
      #expect(throws: IOError.self) { try UnixListener(at: address) }
      let client = try UnixConnection(to: address)
      #expect(try client.localAddress.description == "unix:(unnamed)")
      _ = try listener.accept()
    }
  }

  @Test func aShortageOfDescriptorsIsToldAndWaitedOut() async {
    await #expect(processExitsWith: .success) {
      let told = Channel<AcceptSuspended>(capacity: .unbounded)
      CoroutineErrors.unhandled = { error, _ in
        guard let error = error as? AcceptSuspended else { exit(2) }
        _ = told.trySend(error)
      }
      try runInExitTest {
        let listener = try TCPListener()
        let clients = try (0..<2).map { _ in try TCPConnection(to: listener.address) }
        let (reader, writer) = try makePipe()
        // All numbers below the limit are taken, the pipe's among them.
        let next = dup(0)
        let last = try max(next, reader.descriptor.withFileDescriptor { $0 })
        close(next)
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = rlim_t(last) + 8
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        var taken: [Int32] = []
        while case let number = dup(0), number >= 0 { taken.append(number) }
        // A number that a stream of the module gives back.
        let first = Coroutine { try listener.accept() }
        if try told.receive().cause.code != EMFILE { exit(3) }
        if first.isFinished { exit(4) }
        reader.close()
        let accepted = try first.get()
        // Other threads of the process may have given some back.
        while case let number = dup(0), number >= 0 { taken.append(number) }
        // Numbers that the module does not see coming back. This is not reported again.
        let second = Coroutine { try listener.accept() }
        Coroutine.yield()
        if second.isFinished { exit(5) }
        // Closes all of them: another thread may take the first free one.
        for number in taken { close(number) }
        try clients[1].write("x")
        if try second.get().read() == nil { exit(6) }
        if case .received = told.tryReceive() { exit(7) }
        withExtendedLifetime((accepted, writer, clients)) {}
      }
      exit(0)
    }
  }

  /// Whatever the descriptor is of: the next look would come later.
  @Test func aShortageIsToldOfEachClose() async {
    await #expect(processExitsWith: .success) {
      try runInExitTest {
        let file = try File(opening: "/proc/self/exe")
        let socket = try UDPSocket()
        let listener = try TCPListener()
        let (one, other) = try makePair()
        let folder = try TemporaryFolder()
        let closes: [() throws -> Void] = [
          { file.close() }, { socket.close() }, { listener.close() }, { one.close() },
          { try File.replace(folder.path + "/file", with: []) },
          { _ = try File.contents(of: folder.path + "/file") },
          {
            let entries = Folder.entries(of: folder.path)
            while try entries.next() != nil {}
          },
          {
            // Until its last use ends it is not closed.
            try other.withFileDescriptor { _ in
              other.close()
              if case .received = DescriptorShortage.closed.tryReceive() { exit(3) }
            }
          },
        ]
        for (number, close) in closes.enumerated() {
          // That of no one is not told.
          if case .received = DescriptorShortage.closed.tryReceive() { exit(2) }
          var waiter = DescriptorShortage.Waiter()
          try waiter.wait(WaitLimit(nil))
          try close()
          // A thread of the pool of files may have the last reference.
          do { try DescriptorShortage.closed.receive(timeout: .seconds(60)) } catch { exit(Int32(10 + number)) }
        }
      }
      exit(0)
    }
  }

  @Test func oneWhoseDescriptorWasClosedTakesItsNameAway() throws {
    let folder = try TemporaryFolder()
    let path = folder.path + "/socket"
    try runUntilComplete {
      let listener = try UnixListener(path: path)
      listener.descriptor.close()
      listener.close()
    }
    #expect(access(path, F_OK) != 0)
  }

  /// The channel's lock is taken at the moment of the fork, as it may be by another thread: a child that used the channel would
  /// trap.
  @Test(.disabled(if: StackSupply.sanitizersActive, "a sanitizer's locks are not free in a child"))
  func aCloseInAChildTellsNoListenerOfItsParent() throws {
    let file = try File(opening: "/proc/self/exe")
    var waiter = DescriptorShortage.Waiter()
    try waiter.wait(WaitLimit(nil))
    let channel = DescriptorShortage.closed.storage
    channel.lock.lock()
    let end = Child.end {
      file.close()
      return 0
    }
    channel.lock.unlock()
    #expect(end == .exited(0))
  }
}
