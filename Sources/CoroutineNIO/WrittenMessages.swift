// SPDX-License-Identifier: Apache-2.0

#if NIO
  import NIOCore

  /// Messages that coroutines of a loop have written in its present run, until the pipelines get them: those of each connection
  /// are a chain.
  ///
  /// A pipeline's handlers need some kilobytes of stack. That of the loop's thread is in the processor's caches; those of
  /// a thousand coroutines are not. So the pipelines get the messages at the end of the run, from the loop.
  ///
  /// The connections of a loop share the memory: the link that was freed last, which is in those caches too, is the next one
  /// to be used.
  // On the loop's thread.
  struct WrittenMessages: ~Copyable {
    struct Message {
      let data: NIOAny
      let promise: EventLoopPromise<Void>?
    }

    /// The messages of a connection, in the order in which they were written.
    struct Chain {
      fileprivate var first: Link?
      fileprivate var last: Link?
      fileprivate(set) var count: UInt32 = 0

      @inline(__always)
      var isEmpty: Bool { count == 0 }
    }

    /// Memory of a message and its promise, and of what follows it in a chain or among the free ones.
    ///
    /// (Raw memory: each copy of a message would be a dozen calls.)
    fileprivate struct Link {
      let address: UnsafeMutableRawPointer

      static func allocate() -> Link {
        Link(address: .allocate(byteCount: 16 + MemoryLayout<NIOAny>.size, alignment: 16))
      }

      @inline(__always)
      var next: Link? {
        get { address.load(as: UnsafeMutableRawPointer?.self).map(Link.init) }
        nonmutating set { address.storeBytes(of: newValue?.address, as: UnsafeMutableRawPointer?.self) }
      }

      // These are initialized as long as it is in a chain.

      @inline(__always)
      var promise: UnsafeMutablePointer<EventLoopPromise<Void>?> {
        (address + 8).assumingMemoryBound(to: EventLoopPromise<Void>?.self)
      }

      @inline(__always)
      var data: UnsafeMutablePointer<NIOAny> { (address + 16).assumingMemoryBound(to: NIOAny.self) }
    }

    private var free: Link?

    // A handler with messages keeps the scheduler, which has this. So all links are free.
    deinit {
      var next = free
      while let link = next {
        next = link.next
        link.address.deallocate()
      }
    }

    /// A place behind the others, where the caller writes its message at once.
    @inline(__always)
    mutating func append(promise: EventLoopPromise<Void>?, to chain: inout Chain) -> UnsafeMutablePointer<NIOAny> {
      let link = free ?? .allocate()
      if let free { self.free = free.next }
      link.next = nil
      link.promise.initialize(to: promise)
      if let last = chain.last { last.next = link } else { chain.first = link }
      chain.last = link
      chain.count += 1
      return link.data
    }

    /// Takes out the one that came first. There must be one.
    @inline(__always)
    mutating func removeFirst(of chain: inout Chain) -> Message {
      guard let link = chain.first else { preconditionFailure() }
      chain.first = link.next
      if chain.first == nil { chain.last = nil }
      chain.count -= 1
      link.next = free
      free = link
      return Message(data: link.data.move(), promise: link.promise.move())
    }
  }
#endif
