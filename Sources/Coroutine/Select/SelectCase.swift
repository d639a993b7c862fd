// SPDX-License-Identifier: Apache-2.0

/// One or more cases of a `select`, in a coroutine. Made by `Channel.onReceive(_:)` and similar functions; there is
/// nothing to conform to.
///
/// An array of `any SelectCase<Output>` holds cases of all kinds, for `select(_:)`.
public protocol SelectCase<Output>: SelectCases {
  /// Takes what the chosen case has got, and runs its handler.
  func finish(
    _ index: Int, of operations: Operations, _ memory: UnsafeMutableRawPointer
  ) throws -> Output
}

/// One or more cases of a `select` in `async` code. Made by `Channel.onReceive(_:)` and similar functions; there is
/// nothing to conform to.
public protocol AsyncSelectCase<Output>: SelectCases {
  /// Takes what the chosen case has got, and runs its handler.
  nonisolated(nonsending) func finish(
    _ index: Int, of operations: Operations, _ memory: UnsafeMutableRawPointer
  ) async throws -> Output
}

/// What cases have in common, in a coroutine and in a task. For the runtime.
public protocol SelectCases<Output> {
  /// What the handlers return.
  associatedtype Output
  /// What the cases wait for, as one type.
  associatedtype Operations: SelectOperations

  /// The operations that they wait for, without the handlers: closures that never reach the runtime need no context on
  /// the heap.
  var operations: Operations { get }
  /// Keeps alive until here what the operations use. They hold nothing themselves, so that copies of them cost nothing.
  func keepAlive()
  /// Shows that the type is one of the runtime's, and so are those of the cases in it: others could let go of what the operations
  /// use. Asked for before the operations are.
  static var seal: Select.Seal<Self> { get }
}

/// Operations, one of which is chosen, numbered from 0. For the runtime.
///
/// What they use may have gone when they are printed: so they show nothing of it.
public protocol SelectOperations: CustomReflectable {
  /// How many.
  var count: Int { get }
  /// The memory that all of them need, one behind the other.
  var layout: Select.Layout { get }
  /// Calls the visitor with the operation at `index`, and its part of `memory`.
  func visit<Visitor: SelectVisitor>(
    _ index: Int, _ memory: UnsafeMutableRawPointer, _ visitor: Visitor
  ) -> Visitor.Result
}

/// Does something with one operation, whatever its type. For the runtime.
public protocol SelectVisitor {
  /// What a visit returns.
  associatedtype Result
  /// Gets an operation, and its part of the memory.
  func visit<Operation: SelectOperation>(
    _ operation: Operation, _ node: UnsafeMutableRawPointer
  ) -> Result
}

/// An operation that can be done at once or waited for: the runtime's view of a case.
///
/// Its node, of its `layout`, has a place in a queue and the element that is handed over. `attempt` and `enqueue`
/// initialise the node if they succeed; `take` and `discard` leave it uninitialised. The lock of the target is held
/// during `isPrepared`, `attempt`, `enqueue` and `dequeue`, and during them only.
///
/// The memory is untyped, since a node can't be copied, and Swift 6.3 has no associated types that can't. Each operation binds
/// it to the one type of its nodes.
public protocol SelectOperation: SelectOperations {
  /// What it needs, kept alive. The operation itself holds nothing, so that copies of it cost nothing.
  associatedtype Source
  /// What it gives to the handler.
  associatedtype Value

  /// The operation on `source`.
  init(_ source: Source)

  /// What it waits for.
  var target: Select.Target { get }
  /// What has to be done before the first attempt, without the lock: for most nothing. (It gets memory, as all do that look at the
  /// source, which they do not keep alive: code without unsafe pointers can't call them.)
  func prepare(_ node: UnsafeMutableRawPointer)
  /// Whether what `prepare` has done still holds, so that it may wait: else it is prepared, and tried, again.
  func isPrepared(_ node: UnsafeMutableRawPointer) -> Bool
  /// Does it, if that is possible at once. Makes no use of queues.
  func attempt(_ node: UnsafeMutableRawPointer, for party: Select.Party) -> Select.Attempt
  /// Waits: it was not possible.
  func enqueue(_ node: UnsafeMutableRawPointer, for party: Select.Party)
  /// Leaves the queue, if it is still in there: another operation was chosen.
  func dequeue(_ node: UnsafeMutableRawPointer) -> Select.Attempt
  /// Destroys the node of an operation that was not chosen.
  func discard(_ node: UnsafeMutableRawPointer)
  /// Its outcome: it was chosen.
  func take(_ node: UnsafeMutableRawPointer) throws -> Value
}

/// The parts that a `select` is made of. Its users name none of them.
public enum Select {
  /// Made by the runtime only: there is nothing to conform to.
  public struct Seal<Cases> {
    @inlinable @inline(__always)
    init() {}
  }

  /// The outcome of an attempt.
  public struct Attempt {
    /// `.wait`: nothing was possible.
    @usableFromInline let result: Coroutine::Attempt

    @inlinable
    init(_ result: Coroutine::Attempt) { self.result = result }
  }

  /// The waiter, and the number of its case.
  public struct Party {
    @usableFromInline let waiter: Waiter
    @usableFromInline let cause: WakeCause

    @inlinable
    init(_ waiter: Waiter, _ index: Int) {
      self.waiter = waiter
      cause = .selected(index)
    }
  }

  /// What an operation waits for. It may have gone when this is printed.
  public struct Target: CustomReflectable {
    public var customMirror: Mirror { Mirror(self, children: []) }

    @usableFromInline let kind: JointWait.Target

    @inlinable
    init(_ kind: JointWait.Target) { self.kind = kind }
  }

  /// Size and alignment of memory.
  public struct Layout {
    @usableFromInline let size: Int
    @usableFromInline let alignment: Int

    @inlinable
    init(size: Int, alignment: Int) {
      self.size = size
      self.alignment = alignment
    }

    @inlinable
    init<Node: ~Copyable>(of node: Node.Type) {
      size = MemoryLayout<Node>.size
      alignment = MemoryLayout<Node>.alignment
    }

    /// Where `next` begins behind this one.
    @inlinable @inline(__always)
    func offset(of next: Layout) -> Int { (size + next.alignment - 1) & ~(next.alignment - 1) }

    /// This one with `next` behind it.
    @inlinable @inline(__always)
    func followed(by next: Layout) -> Layout {
      Layout(size: offset(of: next) + next.size, alignment: max(alignment, next.alignment))
    }
  }
}

extension SelectCases {
  /// Where the type is known at run time only.
  @inlinable
  func requireSeal() { _ = Self.seal }
}

extension SelectOperations {
  public var customMirror: Mirror { Mirror(self, children: []) }
}

extension SelectOperation {
  @inlinable
  public var count: Int { 1 }

  @inlinable @inline(__always)
  public func prepare(_ node: UnsafeMutableRawPointer) {}

  @inlinable @inline(__always)
  public func isPrepared(_ node: UnsafeMutableRawPointer) -> Bool { true }

  @inlinable @inline(__always)
  public func visit<Visitor: SelectVisitor>(
    _ index: Int, _ memory: UnsafeMutableRawPointer, _ visitor: Visitor
  ) -> Visitor.Result {
    visitor.visit(self, memory)
  }
}

extension Select {
  /// A case of a coroutine's select: an operation, and what to do when it was chosen.
  public struct Case<Operation: SelectOperation, Output>: SelectCase {
    @usableFromInline let source: Operation.Source
    @usableFromInline let handler: (Operation.Value) throws -> Output

    @inlinable @inline(__always)
    package init(_ source: Operation.Source, _ handler: @escaping (Operation.Value) throws -> Output) {
      self.source = source
      self.handler = handler
    }

    @inlinable @inline(__always)
    public var operations: Operation { Operation(source) }

    @inlinable @inline(__always)
    public static var seal: Seal<Self> { Seal() }

    @inlinable @inline(__always)
    public func keepAlive() { withExtendedLifetime(source) {} }

    @inlinable @inline(__always)
    public func finish(
      _ index: Int, of operations: Operation, _ memory: UnsafeMutableRawPointer
    ) throws -> Output {
      // To take may look at the source once more, as for the error of a closed channel.
      let value = try withExtendedLifetime(source) { try operations.take(memory) }
      return try handler(value)
    }
  }

  /// A case of an `async` select: an operation, and what to do when it was chosen.
  public struct AsyncCase<Operation: SelectOperation, Output>: AsyncSelectCase {
    @usableFromInline let source: Operation.Source
    @usableFromInline let handler: nonisolated(nonsending) (Operation.Value) async throws -> Output

    @inlinable
    package init(
      _ source: Operation.Source,
      _ handler: nonisolated(nonsending) @escaping (Operation.Value) async throws -> Output
    ) {
      self.source = source
      self.handler = handler
    }

    @inlinable @inline(__always)
    public var operations: Operation { Operation(source) }

    @inlinable @inline(__always)
    public static var seal: Seal<Self> { Seal() }

    @inlinable @inline(__always)
    public func keepAlive() { withExtendedLifetime(source) {} }

    @inlinable
    nonisolated(nonsending) public func finish(
      _ index: Int, of operations: Operation, _ memory: UnsafeMutableRawPointer
    ) async throws -> Output {
      let value = try withExtendedLifetime(source) { try operations.take(memory) }
      return try await handler(value)
    }
  }
}
