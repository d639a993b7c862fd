// SPDX-License-Identifier: Apache-2.0

#if NIO
  import NIOCore

  /// What coroutines of a loop have written in its present turn, in that order, until the pipelines get it: at most one
  /// message of each connection.
  ///
  /// A pipeline's handlers need some kilobytes of stack. That of the loop's thread is in the processor's caches; those of
  /// a thousand coroutines are not. So the pipelines get the messages at the end of the turn, from the loop.
  ///
  /// (Raw memory and not an array: each copy of a message would be a dozen calls.)
  struct TurnWrites: ~Copyable {
    struct Write {
      let handler: ConnectionHandler
      let message: NIOAny
    }

    private var slots = UnsafeMutablePointer<Write>.allocate(capacity: 4)
    private var capacity = 4
    /// The first that is there, and the first free slot.
    private var (head, end) = (0, 0)

    deinit {
      (slots + head).deinitialize(count: end - head)
      slots.deallocate()
    }

    var isEmpty: Bool { head == end }

    mutating func append(_ write: consuming Write) {
      if end == capacity { grow() }
      (slots + end).initialize(to: write)
      end += 1
    }

    /// Takes out the one that came first. There must be one.
    mutating func removeFirst() -> Write {
      defer { if head == end { (head, end) = (0, 0) } }
      head += 1
      return (slots + head - 1).move()
    }

    /// As large as the turn with the most of them.
    @inline(never)
    private mutating func grow() {
      let larger = UnsafeMutablePointer<Write>.allocate(capacity: capacity * 2)
      larger.moveInitialize(from: slots + head, count: end - head)
      slots.deallocate()
      (slots, capacity, head, end) = (larger, capacity * 2, 0, end - head)
    }
  }
#endif
