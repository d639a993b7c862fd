// SPDX-License-Identifier: Apache-2.0

extension Select {
  /// What a case waits for that wants to read from a descriptor, or to write to it.
  public struct DescriptorReadiness: SelectOperation {
    private let storage: Unmanaged<ReadinessStorage>
    private let operation: WaitOperation

    /// A descriptor and a direction. For CoroutineIO.
    public struct Source: Sendable {
      let storage: ReadinessStorage
      let operation: WaitOperation

      package init(_ storage: ReadinessStorage, _ operation: WaitOperation) {
        self.storage = storage
        self.operation = operation
      }
    }

    public init(_ source: Source) {
      storage = .passUnretained(source.storage)
      operation = source.operation
    }

    private var readiness: Readiness { Readiness(for: operation) }

    public var layout: Layout { Layout(of: WaitNode.self) }

    public var target: Target { Target(.waitable(.fromOpaque(storage.toOpaque()), operation)) }

    public func attempt(_ node: UnsafeMutableRawPointer, for party: Party) -> Attempt {
      Attempt(storage._withUnsafeGuaranteedRef { $0.isReadyNow(readiness) } ? .done : .wait)
    }

    public func enqueue(_ node: UnsafeMutableRawPointer, for party: Party) {
      let node = node.initializeMemory(as: WaitNode.self, to: WaitNode(party.waiter, cause: party.cause))
      storage._withUnsafeGuaranteedRef { $0.enqueue(node, readiness) }
    }

    public func dequeue(_ node: UnsafeMutableRawPointer) -> Attempt {
      storage._withUnsafeGuaranteedRef { $0.withdraw(node.assumingMemoryBound(to: WaitNode.self), from: readiness) }
      return Attempt(.done)
    }

    public func discard(_ node: UnsafeMutableRawPointer) {}

    public func take(_ node: UnsafeMutableRawPointer) {}
  }
}
