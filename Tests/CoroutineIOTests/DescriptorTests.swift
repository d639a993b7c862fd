import Context
import CoroutineTestSupport
import Dispatch
import Glibc
import Testing

@testable import Coroutine
@testable import CoroutineIO

/// The two ends of a stream, as descriptors.
func makePair() throws -> (Descriptor, Descriptor) {
  var ends: [Int32] = [0, 0]
  try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
  return (try Descriptor(adopting: ends[0], name: "left"), try Descriptor(adopting: ends[1], name: "right"))
}

extension Descriptor {
  /// What there is to read, at most `count` bytes.
  func take(_ count: Int) throws -> [UInt8] {
    try withFileDescriptor { number in
      var bytes = [UInt8](repeating: 0, count: count)
      let got = recv(number, &bytes, count, Int32(MSG_DONTWAIT))
      return Array(bytes.prefix(max(got, 0)))
    }
  }

  func put(_ bytes: [UInt8]) throws {
    try withFileDescriptor { number in
      _ = bytes.withUnsafeBytes { send(number, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
    }
  }

  /// One transfer, as the streams do it.
  func readSome(_ count: Int, timeout: Duration? = nil) throws -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    let got = try bytes.withUnsafeMutableBytes { buffer in
      let address = buffer.baseAddress
      return try perform(.read, WaitLimit(timeout), asked: count) { recv($0, address, count, 0) }
    }
    return Array(bytes.prefix(got))
  }

  /// The same the other way. Returns how many the kernel has taken.
  func writeSome(_ count: Int) throws -> Int {
    let bytes = [UInt8](repeating: 7, count: count)
    return try bytes.withUnsafeBytes { bytes in
      let address = bytes.baseAddress
      return try perform(.write, WaitLimit(nil), asked: count) { send($0, address, count, Int32(MSG_NOSIGNAL)) }
    }
  }
}

/// The reason why a coroutine is suspended, once it is.
func waitReason<Success, Failure>(of job: Coroutine<Success, Failure>) -> String {
  while true {
    if let suspension = job.suspension { return suspension.waitsFor }
    sched_yield()
  }
}

@Suite(.ownThreads) struct DescriptorTests {
  @Test(arguments: ["pool", "serial", "queue"]) func aWaitEndsOnAnyScheduler(_ kind: String) throws {
    let (left, right) = try makePair()
    let body = { @Sendable () throws -> [UInt8] in
      try left.waitUntilReadable()
      return try left.take(9)
    }
    let serial = ThreadPool(threads: 1)
    let reader =
      switch kind {
      case "pool": Coroutine(on: .pool, body)
      case "serial": Coroutine(on: serial, body)
      default: Coroutine(on: DispatchQueue(label: "q"), body)
      }
    #expect(waitReason(of: reader) == "read on left")
    try right.put([1, 2, 3])
    #expect(try reader.getBlocking() == [1, 2, 3])
    withExtendedLifetime(serial) {}
  }

  @Test func aWaitEndsOnTheCallingThread() throws {
    let (left, right) = try makePair()
    let bytes = try runUntilComplete {
      // Goes on after the calling thread has begun to sleep, or before: both must work.
      let writer = Coroutine(on: .pool) { try right.put([4]) }
      try left.waitUntilReadable()
      try writer.get()
      return try left.take(9)
    }
    #expect(bytes == [4])
  }

  /// What it tells of was read meanwhile.
  @Test func aLateReportWakesNoWaiterForReadiness() throws {
    let (left, right) = try makePair()
    try runUntilComplete {
      let log = Log()
      let waiting = Coroutine {
        try left.waitUntilReadable()
        log.add("waited")
      }
      let selecting = Coroutine {
        try select { left.onReadable { log.add("selected") } }
      }
      Coroutine.yield()
      left.owner.storage.becomeReady(.readable)
      for _ in 0..<3 { Coroutine.yield() }
      #expect(log.all == [])
      try right.put([1])
      try waiting.get()
      try selecting.get()
      #expect(log.all.sorted() == ["selected", "waited"])
    }
  }

  /// The kernel has nothing more, but the stream has.
  @Test func aReportWakesOneThatWaitsForBytesThatWereReadAhead() throws {
    try runUntilComplete {
      let (client, server) = try PairKind.tcp.make()
      let waiting = Coroutine { try server.descriptor.waitUntilReadable() }
      Coroutine.yield()
      try client.write("a\nb\n")
      #expect(try server.readLine() == "a")
      try waiting.get()
      #expect(try server.readLine() == "b")
    }
  }

  /// The report comes between the read and the note of what it has left.
  @Test func bytesReadAheadWakeOneThatWaitsForReadiness() throws {
    let (left, right) = try makePair()
    try runUntilComplete {
      let waiting = Coroutine { try left.waitUntilReadable() }
      let selecting = Coroutine { try select { left.onReadable {} } }
      Coroutine.yield()
      left.owner.storage.becomeReady(.readable)
      #expect(left.waits.readClaim.take(for: 1) == nil)
      left.waits.endReading(leavesBytes: true)
      try waiting.get()
      try selecting.get()
      #expect(left.waits.readClaim.take(for: 2) == nil)
      #expect(left.waits.readClaim.take(for: 3) == 2)
      left.waits.endReading(leavesBytes: false)
      #expect(throws: TimeoutError.self) { try left.waitUntilReadable(timeout: .zero) }
      right.close()
    }
  }

  /// As its kernel reports none, it is woken for the bytes that the other one leaves.
  @Test func oneThatIsWokenForBytesReadAheadMayReadThem() throws {
    let (writer, reader) = try PairKind.unix.make()
    let poller = try EpollPoller.current()
    try reader.descriptor.withFileDescriptor { poller.remove($0) }
    let waiting = Coroutine(on: PromptScheduler()) {
      try reader.descriptor.waitUntilReadable()
      return try reader.readLine()
    }
    _ = waitReason(of: waiting)
    try runUntilComplete {
      try writer.write("a\nb\n")
      #expect(try reader.readLine() == "a")
    }
    #expect(try waiting.getBlocking() == "b")
  }

  @Test func whatIsThereAlreadyNeedsNoWait() throws {
    let (left, right) = try makePair()
    try right.put([1, 2])
    try runUntilComplete {
      try withoutSuspension {
        try left.waitUntilReadable()
        try left.waitUntilWritable()
      }
      // Half of the bytes stay there, and no further event reports them.
      #expect(try left.take(1) == [1])
      try left.waitUntilReadable(timeout: .zero)
      #expect(try left.take(1) == [2])
      #expect(throws: TimeoutError.self) { try left.waitUntilReadable(timeout: .zero) }
    }
  }

  @Test func eachReadinessWakesAllWaiters() throws {
    let (left, right) = try makePair()
    let waiters = (0..<5).map { _ in Coroutine(on: .pool) { try left.waitUntilReadable() } }
    for waiter in waiters { _ = waitReason(of: waiter) }
    try right.put([1])
    for waiter in waiters { try waiter.getBlocking() }
  }

  @Test func aWriterWaitsForRoom() throws {
    let (left, right) = try makePair()
    let total = 4 << 20
    let writer = Coroutine(on: .pool) { () throws -> Int in
      let block = [UInt8](repeating: 7, count: 64 << 10)
      var sent = 0
      while sent < total {
        sent += try block.withUnsafeBytes { bytes in
          let address = bytes.baseAddress
          return try left.perform(.write, WaitLimit(nil), asked: bytes.count) {
            send($0, address, 64 << 10, Int32(MSG_NOSIGNAL))
          }
        }
      }
      left.close()
      return sent
    }
    #expect(waitReason(of: writer) == "write on left")
    let reader = Coroutine(on: .pool) { () throws -> Int in
      var got = 0
      while true {
        let bytes = try right.readSome(100_000)
        if bytes.isEmpty { return got }
        got += bytes.count
      }
    }
    #expect(try writer.getBlocking() == reader.getBlocking())
  }

  @Test(.disabled(if: StackSupply.sanitizersActive, "a sanitizer's locks are not free in a child"))
  func aChildClosesItsCopyAndWakesNoWaiterOfItsParent() throws {
    let (left, right) = try makePair()
    let waiter = Coroutine(on: .pool) { try left.waitUntilReadable() }
    _ = waitReason(of: waiter)
    let end = Child.end {
      left.close()
      return left.isClosed ? 0 : 1
    }
    #expect(end == .exited(0))
    #expect(!left.isClosed)
    try right.put([1])
    try waiter.getBlocking()
  }

  @Test(arguments: ["/dev/null", "/", "/proc/self/exe"]) func oneThatIsRefusedIsLeftAsItWas(_ path: String) throws {
    let number = open(path, O_RDONLY)
    defer { close(number) }
    let error = #expect(throws: IOError.self) { try Descriptor(adopting: number) }
    #expect(error?.code == EPERM && error?.description.contains("is always ready") == true)
    #expect(fcntl(number, F_GETFL) & O_NONBLOCK == 0)
    #expect(fcntl(number, F_GETFD) & FD_CLOEXEC == 0)
  }

  @Test(arguments: [-1, Int32.min, Int32.max]) func aNumberOfNoDescriptorIsRefused(_ number: Int32) {
    let error = #expect(throws: IOError.self) { try Descriptor(adopting: number) }
    #expect(error?.code == EBADF)
  }

  @Test func aFileOfTheKernelThatHasEventsIsTaken() throws {
    let number = open("/proc/self/mounts", O_RDONLY)
    let mounts = try PipeReader(adopting: number)
    let text = try runUntilComplete { try mounts.readToEnd(limit: 1 << 20) }
    #expect(String(decoding: text, as: UTF8.self).contains("/proc"))
    #expect(fcntl(number, F_GETFL) & O_NONBLOCK != 0)
    #expect(fcntl(number, F_GETFD) & FD_CLOEXEC != 0)
  }

  @Test func aCloseEndsAllWaitsAndWhatComesLater() throws {
    let (left, right) = try makePair()
    let reader = Coroutine(on: .pool) { try left.waitUntilReadable() }
    let stream = Coroutine(on: .pool) { try left.readSome(10) }
    _ = (waitReason(of: reader), waitReason(of: stream))
    left.close()
    left.close()
    #expect(throws: DescriptorClosed("left")) { try reader.getBlocking() }
    #expect(throws: DescriptorClosed("left")) { try stream.getBlocking() }
    #expect(left.isClosed)
    try runUntilComplete {
      #expect(throws: DescriptorClosed.self) { try left.waitUntilWritable() }
      #expect(throws: DescriptorClosed.self) { try left.readSome(1) }
      #expect(throws: DescriptorClosed.self) { try left.withFileDescriptor { _ in } }
      // The other end sees it: the number was closed.
      let end = try right.readSome(1)
      #expect(end == [])
    }
  }

  @Test func theNumberStaysUntilTheLastUse() throws {
    let (left, right) = try makePair()
    try left.withFileDescriptor { number in
      left.close()
      #expect(fcntl(number, F_GETFD) != -1)
      let isOpen = try right.take(1).isEmpty
      #expect(isOpen)
    }
    #expect(try runUntilComplete { try right.readSome(1) } == [])
  }

  @Test func theLastCopyCloses() throws {
    var (left, right): (Descriptor?, Descriptor) = try makePair()
    try runUntilComplete { [copy = left] in
      _ = #expect(throws: TimeoutError.self) { try copy!.waitUntilReadable(timeout: .zero) }
    }
    left = nil
    #expect(try runUntilComplete { try right.readSome(1) } == [])
  }

  @Test func whatOthersHaveClosedIsNotClosedOnceMore() throws {
    let (left, right) = try makePair()
    let (reader, writer) = try makePipe()
    let number = try left.withFileDescriptor { $0 }
    let waiter = Coroutine(on: .pool) { try left.waitUntilReadable() }
    #expect(waitReason(of: waiter) == "read on left")
    // Closes it, and gives its number to the pipe, in one step: no other thread gets it in between.
    #expect(try reader.descriptor.withFileDescriptor { dup2($0, number) } == number)
    let new = try Descriptor(adopting: number, name: "new")
    #expect(throws: DescriptorClosed.self) { try waiter.getBlocking() }
    #expect(left.isClosed)
    left.close()
    #expect(try new.withFileDescriptor { fcntl($0, F_GETFD) } != -1)
    withExtendedLifetime((right, writer)) {}
  }

  @Test func aNumberGivenOutAgainIsAnotherDescriptor() throws {
    for _ in 0..<200 {
      let (left, right) = try makePair()
      let waiter = Coroutine(on: .pool) { try left.waitUntilReadable() }
      _ = waitReason(of: waiter)
      // The event may be on its way while the number passes to another file.
      try right.put([1])
      left.close()
      let (next, peer) = try makePair()
      let reader = Coroutine(on: .pool) { try next.readSome(8) }
      try? waiter.getBlocking()
      try peer.put([2])
      #expect(try reader.getBlocking() == [2])
    }
  }

  @Test func aDeadlineOrACancelTakesNothingAway() throws {
    let (left, right) = try makePair()
    let impatient = Coroutine(on: .pool) { try left.readSome(4, timeout: .milliseconds(1)) }
    #expect(throws: TimeoutError.self) { try impatient.getBlocking() }
    for count in 0..<100 {
      let reader = Coroutine(on: .pool) { try left.readSome(4) }
      if count.isMultiple(of: 2) { _ = waitReason(of: reader) }
      let writer = Coroutine(on: .pool) { try right.put([UInt8(count)]) }
      reader.cancel()
      try writer.getBlocking()
      // The cancelled reader has read it, or it is still there.
      let got = try (try? reader.getBlocking()) ?? runUntilComplete { try left.readSome(4) }
      #expect(got == [UInt8(count)])
    }
  }

  @Test func theEndIsReadAgainAndAgain() throws {
    let (left, right) = try makePair()
    try right.put([1, 2, 3])
    right.close()
    try runUntilComplete {
      #expect(try left.readSome(100) == [1, 2, 3])
      #expect(try left.readSome(100) == [])
      #expect(try left.readSome(100) == [])
      try left.waitUntilReadable()
    }
  }

  @Test func aStreamReadInPiecesIsComplete() throws {
    let (left, right) = try makePair()
    let count = 200_000
    let writer = Coroutine(on: .pool) {
      for index in 0..<count {
        var byte = UInt8(truncatingIfNeeded: index)
        try withUnsafeMutablePointer(to: &byte) { byte in
          let byte = UnsafeMutableRawPointer(byte)
          _ = try right.perform(.write, WaitLimit(nil), asked: 1) { send($0, byte, 1, Int32(MSG_NOSIGNAL)) }
        }
      }
      right.close()
    }
    let reader = Coroutine(on: .pool) { () throws -> Int in
      var next = 0
      while true {
        let bytes = try left.readSome(7)
        if bytes.isEmpty { return next }
        for byte in bytes {
          guard byte == UInt8(truncatingIfNeeded: next) else { return -next }
          next += 1
        }
      }
    }
    #expect(try reader.getBlocking() == count)
    try writer.getBlocking()
  }

  @Test func aSelectTakesTheOneThatIsReady() throws {
    let (left, right) = try makePair()
    let (other, peer) = try makePair()
    let chosen = Coroutine(on: .pool) { () throws -> String in
      try select {
        left.onReadable { "left" }
        other.onReadable { "other" }
      }
    }
    #expect(waitReason(of: chosen) == "select: read on left, read on left")
    try peer.put([1])
    #expect(try chosen.getBlocking() == "other")
    try runUntilComplete {
      let now = try select {
        left.onReadable { "left" }
        other.onReadable { "other" }
        otherwise { "none" }
      }
      #expect(now == "other")
      #expect(
        try select {
          left.onReadable { "left" }
          onTimeout(.zero) { "late" }
        } == "late")
      #expect(
        try select {
          left.onWritable { "room" }
          otherwise { "full" }
        } == "room")
    }
    _ = right
  }

  @Test func aSelectHoldsItsDescriptor() throws {
    try runUntilComplete {
      for isToRead in [true, false] {
        var ends: [Int32] = [0, 0]
        #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
        let (number, right) = (ends[0], try Descriptor(adopting: ends[1], name: "right"))
        try right.put([1])
        // The peer finds nothing to read, unless the other end was closed.
        let look = { limit in outcome { _ = try right.readSome(1, timeout: limit) } }
        let found: String
        if isToRead {
          found = try select { try Descriptor(adopting: number).onReadable { look(.zero) } }
        } else {
          found = try select { try Descriptor(adopting: number).onWritable { look(.zero) } }
        }
        #expect(found == "timed out")
        // Not at once: a process that another test starts may have a copy of the end for a moment.
        let afterwards = look(.seconds(60))
        #expect(afterwards != "timed out")
      }
    }
  }

  @Test func asyncCodeWaitsToo() async throws {
    let (left, right) = try makePair()
    let task = Task { try await left.waitUntilReadable() }
    try right.put([1])
    try await task.value
    try await left.waitUntilWritable()
    let cancelled = Task { try await right.waitUntilReadable() }
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { try await cancelled.value }
  }

  @Test func whatIsAlwaysReadyIsRefused() throws {
    let file = open("/proc/self/exe", O_RDONLY)
    let error = #expect(throws: IOError.self) { try Descriptor(adopting: file, name: "a file") }
    #expect(error?.code == EPERM)
    #expect("\(try #require(error))".hasPrefix("adopt on a file: a regular file"))
    // The file still belongs to the caller.
    #expect(close(file) == 0)
    let null = open("/dev/null", O_RDONLY)
    let refusal = #expect(throws: IOError.self) { try Descriptor(adopting: null) }
    #expect("\(try #require(refusal))".contains("a device such as /dev/null is always ready"))
    #expect(close(null) == 0)
    let bad = #expect(throws: IOError.self) { try Descriptor(adopting: -1) }
    #expect(bad?.description == "adopt on descriptor -1: Bad file descriptor (EBADF)")
  }

  @Test func aFailureSaysWhatAndWhere() throws {
    let (left, right) = try makePair()
    right.close()
    try runUntilComplete {
      let error = #expect(throws: IOError.self) {
        _ = try left.perform(.write, WaitLimit(nil)) { send($0, "x", 1, Int32(MSG_NOSIGNAL)) }
      }
      #expect(error?.description == "write on left: Broken pipe (EPIPE)")
    }
  }

  @Test func eventsComeWhileAllWorkersCompute() throws {
    // The only worker is inside one long turn. The coroutine that waits belongs to a queue.
    let (left, right) = try makePair()
    let isDone = Flag()
    let pool = ThreadPool(threads: 1)
    let busy = Coroutine(on: pool) {
      while !isDone.isSet { sched_yield() }
    }
    let reader = Coroutine(on: DispatchQueue(label: "q")) { () throws -> [UInt8] in
      defer { isDone.set() }
      return try left.readSome(3)
    }
    _ = waitReason(of: reader)
    try right.put([9])
    #expect(try reader.getBlocking() == [9])
    try busy.getBlocking()
  }

  @Test func aStreamThatIsAlwaysReadyLetsOthersRun() throws {
    let pool = ThreadPool(threads: 1)
    let (left, right) = try makePair()
    let job = Coroutine(on: pool) { () throws -> Int in
      let isOver = Flag()
      Coroutine { isOver.set() }
      var turns = 0
      // It never has to wait, since it writes to itself.
      while !isOver.isSet {
        try right.put([1])
        _ = try left.readSome(1)
        turns += 1
      }
      return turns
    }
    #expect(try job.getBlocking() <= 64)
  }

  /// An interrupt may arrive when the worker has left. If it stayed, the poller's thread would find it again and
  /// again.
  @Test func thePollersThreadTakesAnInterruptThatCameTooLate() async {
    await #expect(processExitsWith: .success) {
      _ = try makePair()
      let poller = try EpollPoller.current()
      poller.interrupt(.worker)
      // No worker is there to take it. It belongs to the poller's thread as soon as that one polls.
      while try !String(contentsOfFile: "/proc/self/fdinfo/\(poller.workerWake)", encoding: .utf8)
        .contains(/eventfd-count:\s+0\n/)
      { sched_yield() }
    }
  }

  /// The other way: the thread has gone to sleep elsewhere when its interrupt arrives. It would wake the worker that sleeps in
  /// the poller again and again.
  @Test func anInterruptOfTheThreadThatCameTooLateIsTaken() async {
    await #expect(processExitsWith: .success) {
      let (left, right) = try makePair()
      let reader = Coroutine(on: ThreadPool(threads: 1)) { try left.readSome(1) }
      while !EventPoller.isThreadDormant { sched_yield() }
      let poller = try EpollPoller.current()
      poller.interrupt(.thread)
      while try !String(contentsOfFile: "/proc/self/fdinfo/\(poller.threadWake)", encoding: .utf8)
        .contains(/eventfd-count:\s+0\n/)
      { sched_yield() }
      try right.put([1])
      guard try await reader.get() == [1] else { exit(2) }
      exit(0)
    }
  }

  @Test func aNumberThatIsAdoptedASecondTimeIsRefused() throws {
    let (left, right) = try makePair()
    let error = #expect(throws: IOError.self) { try left.withFileDescriptor { try Descriptor(adopting: $0) } }
    #expect(error?.code == EEXIST)
    #expect(error?.description.contains("this number was adopted before") == true)
    // The first one still gets its events.
    let reader = Coroutine { try left.readSome(1) }
    _ = waitReason(of: reader)
    try right.put([7])
    #expect(try reader.getBlocking() == [7])
  }

  // MARK: In a child by fork

  @Test(.disabled(if: StackSupply.sanitizersActive, "a sanitizer's locks are not free in a child"))
  func aChildUsesTheParentsDescriptorsWithoutWaiting() async {
    await #expect(processExitsWith: .success) {
      let (left, right) = try makePair()
      let (ended, peer) = try makePair()
      // The child can read what is there. A wait for more is an error, and a close gives up the child's copy alone.
      let end = Child.end {
        runInChild {
          try right.put([1, 2, 3])
          guard try left.readSome(64).suffix(3) == [1, 2, 3] else { return 3 }
          // It got less than it asked for, and no event tells the child of what comes after that.
          try right.put([4])
          guard try left.readSome(64) == [4] else { return 9 }
          // (An earlier child that hung may have come this far.)
          try peer.put([5])
          guard try [[5], []].contains(ended.readSome(64)) else { return 10 }
          try peer.withFileDescriptor { _ = shutdown($0, CInt(SHUT_WR)) }
          guard try ended.readSome(64) == [] else { return 11 }
          // A write of more than there is room for, and one more when there is room again.
          while try !peer.take(1 << 20).isEmpty {}
          let sent = try ended.writeSome(4 << 20)
          guard 0 < sent, sent < 4 << 20 else { return 12 }
          while try !peer.take(1 << 20).isEmpty {}
          guard try ended.writeSome(8) == 8 else { return 13 }
          do {
            _ = try left.readSome(8)
            return 4
          } catch let error as IOError {
            guard error.code == EBADF, error.description.contains("left, the parent's, in a child of fork") else {
              return 5
            }
          }
          // A look at the descriptor is enough for that.
          try left.waitUntilWritable()
          do {
            try left.waitUntilReadable()
            return 6
          } catch is IOError {}
          left.close()
          do {
            _ = try Descriptor(adopting: dup(STDERR_FILENO), name: "copy")
            return 7
          } catch let error as IOError {
            return error.description.contains("a child of fork, which has no poller of its own") ? 0 : 8
          }
        }
      }
      #expect(end == .exited(0))
      // A byte that the child has left would end the wait below at once.
      _ = try left.take(1000)
      // The parent's descriptor is unchanged, and its events arrive at the parent.
      let reader = Coroutine { try left.readSome(8) }
      _ = waitReason(of: reader)
      let bystander = Child.end {
        runInChild {
          // An event for the parent, while the child's only worker has nothing to run.
          try right.put([4])
          let channel = Channel<CInt>()
          let sender = Coroutine(on: ThreadPool(threads: 1)) { try channel.send(0) }
          defer { withExtendedLifetime(sender) {} }
          return try channel.receive()
        }
      }
      #expect(bystander == .exited(0))
      let got = try await reader.get()
      #expect(got.first == 4)
    }
  }

  @Test(.disabled(if: StackSupply.sanitizersActive, "a sanitizer's locks are not free in a child"))
  func bytesThatAChildReadsAheadWakeNoWaiterOfItsParent() async {
    await #expect(processExitsWith: .success) {
      let (writer, reader) = try PairKind.unix.make()
      let waiting = Coroutine { try reader.descriptor.waitUntilReadable() }
      _ = waitReason(of: waiting)
      let end = Child.end {
        runInChild {
          try writer.write("a\nb\n")
          return try reader.readLine() == "a" ? 0 : 3
        }
      }
      #expect(end == .exited(0))
      try await Coroutine { try writer.write("c") }.get()
      try await waiting.get()
    }
  }

  @Test(.disabled(if: StackSupply.sanitizersActive, "a sanitizer's locks are not free in a child"))
  func aSelectInAChildThatWaitsForTheParentsDescriptorTraps() async {
    let exit = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      let (left, right) = try makePair()
      let end = Child.end {
        runInChild {
          let channel = Channel<CInt>()
          return try select {
            left.onReadable { 3 }
            channel.onReceive { _ in 4 }
          }
        }
      }
      #expect(end == .trapped)
      right.close()
    }
    let text = exit.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
    #expect(text.contains("a select waits for left in a child of fork"), "\(text)")
  }

  @Test func outsideOfCoroutinesAWaitTraps() async {
    let exit = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let (left, _) = try makePair()
      let wait: () throws -> Void = { try left.waitUntilReadable() }
      try wait()
    }
    let text = exit.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
    #expect(text.contains("Descriptor.waitUntilReadable(timeout:)"))
  }
}

/// Runs what is ready on another thread, before `enqueue` returns.
private final class PromptScheduler: Scheduler {
  private let ready = CoroutineJobQueue()
  var isCurrent: Bool { false }
  var isSerial: Bool { true }

  func enqueue(_ job: consuming CoroutineJob) {
    guard ready.append(job) else { return }
    let hasRun = DispatchSemaphore(value: 0)
    DispatchQueue(label: "prompt").async {
      _ = self.ready.run()
      hasRun.signal()
    }
    hasRun.wait()
  }
}

/// Runs `body` in a child, whose only thread is the coroutine's.
func runInChild(_ body: sending @escaping () throws -> CInt) -> CInt {
  do {
    return try runUntilComplete(body)
  } catch { return 99 }
}
