// SPDX-License-Identifier: Apache-2.0

/// A value that is made once, by the first caller that asks for it; the others wait for it, suspended.
///
/// ```swift
/// let settings = Once<Settings>(name: "settings")
/// func currentSettings() throws -> Settings {
///   try settings.get { try Settings(receivedFrom: server) }      // may suspend
/// }
/// ```
///
/// If making it fails, the longest waiter tries again with the closure that it has passed; only the caller that tried
/// gets the error. Coroutines and tasks share it. Once the value is there, `get` is a load. Copies are the same.
public struct Once<Value: Sendable>: Sendable {
  @usableFromInline let storage: OnceStorage<Value>

  /// A value that has not been asked for.
  ///
  /// - Parameter name: for backtraces and messages.
  @inlinable
  public init(name: String = "") {
    storage = OnceStorage(name: name)
  }

  /// The name it was given; empty without one.
  public var name: String { storage.name }

  /// The value, if it has been made. Never waits; from any thread.
  @inlinable
  public var value: Value? { storage.isMade ? storage.value : nil }

  /// Returns the value; the first caller makes it, others are suspended until it has.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait for another's making at most; zero or less: does not wait; `nil`: without a limit.
  ///     The time of `make` does not count.
  ///   - make: runs at most once a call, on the calling coroutine. May suspend.
  /// - Throws: what `make` throws; `CancellationError` if the caller is cancelled before it has the value, also if no other one
  ///   makes it; `TimeoutError` if the time was up while another one makes it.
  /// - Precondition: called inside a coroutine, and not inside its own `make` (it would wait for itself): traps otherwise.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function; a closure without a capture list")
  public func get(timeout: Duration? = nil, _ make: () throws -> Value) throws -> Value {
    if storage.isMade { return storage.result }
    guard try storage.begin(timeout: timeout) else { return storage.result }
    do {
      return storage.succeed(try make())
    } catch {
      storage.fail()
      throw error
    }
  }

  /// Returns the value; the first caller makes it, others are suspended until it has. In `async` code.
  ///
  /// As the synchronous form.
  @inlinable
  nonisolated(nonsending) public func get(
    timeout: Duration? = nil, _ make: nonisolated(nonsending) () async throws -> Value
  ) async throws -> Value {
    if storage.isMade { return storage.result }
    guard try await storage.begin(timeout: timeout) else { return storage.result }
    do {
      return storage.succeed(try await make())
    } catch {
      storage.fail()
      throw error
    }
  }
}
