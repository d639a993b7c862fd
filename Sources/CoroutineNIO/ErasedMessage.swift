// SPDX-License-Identifier: Apache-2.0

#if NIO
  public import NIOCore

  /// A message of a type that only the connection knows, on its way from a pipeline to a coroutine: opaque.
  ///
  /// An object, so that queues, waiters and frames have one word of it: the frames of a coroutine that waits are in no near
  /// cache when it goes on. It has room for a small value, which `read()` moves out. Then the loop fills it again: so reading on
  /// the loop allocates nothing.
  // Unchecked: the value may be sent. One thread at a time has the message: the filler's, then the reader's.
  public final class ErasedMessage: @unchecked Sendable {
    @usableFromInline typealias Room = (UInt, UInt, UInt, UInt, UInt, UInt)

    /// The value; a box of it, if it does not fit.
    @exclusivity(unchecked) @usableFromInline var room: Room = (0, 0, 0, 0, 0, 0)
    /// That of the value; `nil` if there is none.
    @exclusivity(unchecked) @usableFromInline var type: Any.Type?
    /// In the loop's list of empty ones.
    @exclusivity(unchecked) var next: Unmanaged<ErasedMessage>?

    init() {}

    convenience init<Value: Sendable>(_ value: consuming Value) {
      self.init()
      fill(value)
    }

    deinit {
      guard let type else { return }
      func destroy<Value>(_: Value.Type) {
        if Self.hasRoom(for: Value.self) {
          address.assumingMemoryBound(to: Value.self).deinitialize(count: 1)
        } else {
          address.assumingMemoryBound(to: Box<Value>.self).deinitialize(count: 1)
        }
      }
      _openExistential(type, do: destroy)
    }

    /// Of the room: a stored property of an object, which does not move as long as that lives.
    @inlinable
    var address: UnsafeMutableRawPointer { withUnsafeMutablePointer(to: &room) { UnsafeMutableRawPointer($0) } }

    /// Puts the value into an empty one.
    @inlinable
    func fill<Value: Sendable>(_ value: consuming Value) {
      type = Value.self
      if Self.hasRoom(for: Value.self) {
        address.initializeMemory(as: Value.self, to: value)
      } else {
        address.initializeMemory(as: Box<Value>.self, to: Box(value))
      }
    }

    /// The same with what a pipeline delivers. Ends the program if it is of another type.
    @inlinable
    func fill<Value: Sendable>(with type: Value.Type, unwrapping data: NIOAny) {
      fill(Unwrapping<Value>.unwrapInboundIn(data))
    }

    /// Moves the value out. Traps if there is none of that type.
    @inlinable
    func take<Value: Sendable>(as valueType: Value.Type) -> Value {
      precondition(type == valueType)
      type = nil
      return Self.hasRoom(for: Value.self)
        ? address.assumingMemoryBound(to: Value.self).move()
        : address.assumingMemoryBound(to: Box<Value>.self).move().value
    }

    @inlinable
    static func hasRoom<Value>(for type: Value.Type) -> Bool {
      MemoryLayout<Value>.size <= MemoryLayout<Room>.size
        && MemoryLayout<Value>.alignment <= MemoryLayout<Room>.alignment
    }

    @usableFromInline
    final class Box<Value> {
      @usableFromInline let value: Value

      @inlinable
      init(_ value: consuming Value) {
        self.value = value
      }
    }

    /// By which NIO knows what is in a message: never in a pipeline.
    @usableFromInline
    final class Unwrapping<InboundIn>: ChannelInboundHandler {}
  }

  /// Empty messages of a loop, linked through themselves: the last one that was emptied is the first to be filled, since it is
  /// in the processor's caches.
  // On the loop's thread.
  struct EmptyMessages: ~Copyable {
    private var first: Unmanaged<ErasedMessage>?
    private(set) var count = 0

    deinit {
      var next = first
      while let message = next?.takeRetainedValue() { next = message.next }
    }

    /// The last one, or a new one.
    @inline(__always)
    mutating func removeFirst() -> ErasedMessage {
      guard let message = first?.takeRetainedValue() else { return ErasedMessage() }
      first = message.next
      count -= 1
      return message
    }

    /// It must have no other reference.
    @inline(__always)
    mutating func insert(_ message: consuming ErasedMessage) {
      // As many as a loop is likely to read before coroutines have taken some.
      guard count < 64 else { return }
      message.next = first
      count += 1
      first = .passRetained(consume message)
    }
  }
#endif
