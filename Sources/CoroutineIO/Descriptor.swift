// SPDX-License-Identifier: Apache-2.0

public import Coroutine

/// A file descriptor that a coroutine can wait for: a socket, a pipe, a terminal, an eventfd, another epoll set.
///
/// It lets coroutines use a C library's client: the library does its reading and writing by itself, without blocking,
/// and says which descriptor it waits for and in which direction.
///
/// ```swift
/// let socket = try Descriptor(adopting: dup(PQsocket(connection)), name: "PostgreSQL")  // the library closes its own
/// while PQisBusy(connection) == 1 {
///   try socket.waitUntilReadable(timeout: .seconds(5))
///   PQconsumeInput(connection)
/// }
/// ```
///
/// A wait suspends the coroutine and allocates nothing. Any number of coroutines may wait for one descriptor: if it is
/// ready when the kernel reports that, all of them are woken. Copies are the same descriptor; the last copy's end closes it, as
/// `close` does.
public struct Descriptor: Sendable {
  let owner: DescriptorOwner

  /// Takes a descriptor over: it is not blocking from here on, closed on exec unless it is a standard stream (0 to 2), and
  /// belongs to the result. If this fails the caller keeps it, as it was.
  ///
  /// - Parameters:
  ///   - fileDescriptor: open. Not a regular file, a directory, or `/dev/null` and its like: those are always ready. (Some files
  ///     of `/proc` and `/sys` have events, and are taken.)
  ///   - name: for dumps and errors: names the other end.
  /// - Throws: `IOError`.
  public init(adopting fileDescriptor: Int32, name: String = "") throws {
    let name = name.isEmpty ? "descriptor \(fileDescriptor)" : name
    owner = DescriptorOwner(try DescriptorStorage.adopt(fileDescriptor, name: name))
  }

  /// Takes over what may also be a file, or `/dev/null`.
  init(adoptingAny fileDescriptor: Int32, name: String) throws {
    owner = DescriptorOwner(try DescriptorStorage.adoptAny(fileDescriptor, name: name))
  }

  /// What it was called; `descriptor 7` without a name.
  public var name: String { owner.storage.name }

  /// Whether it was closed.
  public var isClosed: Bool { owner.storage.isClosed }

  /// Suspends the calling coroutine until there is something to read, or the end, or an error. At once if there is.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `CancellationError`, `TimeoutError`, `DescriptorClosed`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func waitUntilReadable(timeout: Duration? = nil) throws {
    try owner.storage.waitUntilReady(.read, WaitLimit(timeout), for: "Descriptor.waitUntilReadable(timeout:)")
  }

  /// Suspends the calling task until there is something to read, or the end, or an error. At once if there is.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `CancellationError`, `TimeoutError`, `DescriptorClosed`.
  nonisolated(nonsending) public func waitUntilReadable(timeout: Duration? = nil) async throws {
    try await owner.storage.waitUntilReady(.read, timeout: timeout)
  }

  /// Suspends the calling coroutine until there is room to write, or an error. At once if there is.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `CancellationError`, `TimeoutError`, `DescriptorClosed`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func waitUntilWritable(timeout: Duration? = nil) throws {
    try owner.storage.waitUntilReady(.write, WaitLimit(timeout), for: "Descriptor.waitUntilWritable(timeout:)")
  }

  /// Suspends the calling task until there is room to write, or an error. At once if there is.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `CancellationError`, `TimeoutError`, `DescriptorClosed`.
  nonisolated(nonsending) public func waitUntilWritable(timeout: Duration? = nil) async throws {
    try await owner.storage.waitUntilReady(.write, timeout: timeout)
  }

  /// Runs `body` with the descriptor's number, which stays this descriptor's until `body` returns, even if it is closed meanwhile.
  ///
  /// - Throws: `DescriptorClosed`, without calling `body`, if it was closed before; what `body` throws.
  public func withFileDescriptor<Result>(_ body: (Int32) throws -> Result) throws -> Result {
    let number = try owner.storage.beginUse()
    defer { owner.storage.endUse() }
    return try body(number)
  }

  /// Ends all waits by `DescriptorClosed`, and gives the number up, as soon as the last system call under way has
  /// returned. Further calls have no effect. Callable from any thread.
  public func close() { owner.storage.close() }

  /// Makes a system call until it is done.
  ///
  /// `EINTR` repeats it; `EAGAIN` suspends the calling coroutine until the descriptor is ready in the operation's direction.
  ///
  /// - Parameters:
  ///   - operation: `.read`, `.accept`: waits until it is readable; `.write`, `.connect`: writable.
  ///   - limit: for all waits together.
  ///   - asked: for a stream of TCP, how many bytes `call` requests. If fewer come, the kernel has no more: the next call of this
  ///     direction waits before it is made. `nil` for all else, also for other streams.
  ///   - call: gets the number; returns what the system call does, -1 with `errno` set.
  /// - Throws: `CancellationError`, `TimeoutError`, `DescriptorClosed`, `IOError`.
  package func perform(
    _ operation: WaitOperation, _ limit: WaitLimit, asked: Int? = nil, for function: StaticString = #function,
    _ call: (Int32) -> Int
  ) throws -> Int {
    try owner.storage.perform(operation, limit, asked: asked, for: function, call)
  }

  /// Where its stream's readers have their claim.
  var waits: ReadinessStorage { owner.storage.waits }
}

extension Descriptor {
  /// A case of a `select`: chosen when there is something to read, or the end, or an error; of a stream, also when it has
  /// bytes that were read ahead. It reads nothing.
  ///
  /// Bytes that a `readLine` or `readExactly` has left when its time was up are such bytes, too: until they are read, the case is
  /// chosen at once. To receive lines beside other things, let a coroutine of its own read them, and send them to a channel.
  ///
  /// If the descriptor is closed the case is chosen, and what `handler` does there throws `DescriptorClosed`.
  ///
  /// - Parameter handler: runs after the choice, on the calling coroutine; may suspend and throw.
  public func onReadable<Output>(
    _ handler: @escaping () throws -> Output
  ) -> Select.Case<Select.DescriptorReadiness, Output> {
    onReady(.read, handler)
  }

  /// A case of a `select`: chosen when there is room to write, or an error. It writes nothing.
  ///
  /// If the descriptor is closed the case is chosen, and what `handler` does there throws `DescriptorClosed`.
  ///
  /// - Parameter handler: runs after the choice, on the calling coroutine; may suspend and throw.
  public func onWritable<Output>(
    _ handler: @escaping () throws -> Output
  ) -> Select.Case<Select.DescriptorReadiness, Output> {
    onReady(.write, handler)
  }

  private func onReady<Output>(
    _ operation: WaitOperation, _ handler: @escaping () throws -> Output
  ) -> Select.Case<Select.DescriptorReadiness, Output> {
    // The owner, too: with the last copy of it the descriptor is closed.
    Select.Case(Select.DescriptorReadiness.Source(owner.storage.waits, operation)) { [owner] _ in
      try withExtendedLifetime(owner) { try handler() }
    }
  }
}

/// Closes its descriptor with the last copy of the `Descriptor`. The poller holds the storage, which therefore can't.
final class DescriptorOwner: Sendable {
  let storage: DescriptorStorage

  init(_ storage: DescriptorStorage) { self.storage = storage }

  deinit { storage.close() }
}
