// SPDX-License-Identifier: Apache-2.0

/// How a generator yields what another one does, its *delegate*: the innermost body runs directly under the consumer.
///
///     consumer ──asks──▶ A ─ yields from ─▶ B ─ yields from ─▶ C      A.innermost = C
///        ▲                                                     │
///        └────────────────── each element ─────────────────────┘
///
/// While A's body waits for B to end, A's consumer resumes C's stack, and C's `yield` switches to the consumer: an element
/// costs what it costs without A and B. When C ends, the consumer resumes B, in whose body `yield(from:)` returns.
///
/// Only the outermost one is asked for elements, so only its `innermost` is kept right.
extension GeneratorCore {
  /// On the side of the body whose generator `block` belongs to: lets its consumer run `other` until that ends.
  ///
  /// - Parameter onTop: takes the other one's elements and yields them one by one: for a body that has something open, an
  ///   access or a binding. Then the other one has to run inside of that.
  /// - Returns: false if the consumer wants no elements any more.
  /// - Throws: what the body of `other` threw, or `onTop`.
  fileprivate static func delegate(
    _ body: GeneratorBody, to other: GeneratorCore, onTop: () throws -> Void
  ) throws -> Bool {
    let block = body.block
    requireRunning(body)
    other.throwsErrorsOn = true
    if !block.pointee.mode.contains(.cancelled), owner(of: block, { $0.scopes.wouldBeOpen(block) }) {
      // It ends with its delegator in this case, too.
      do { try onTop() } catch {
        other.cancel()
        throw error
      }
    } else {
      guard willYield(body) else { return false }
      require(other.delegator == nil, "two Generators yield from the same one: each of its elements has one consumer")
      require(!other.isConsumed, "a Generator yields from itself, or from one that consumes it: neither has an element")
      owner(of: block) { generator in
        other.plainBlock = ControlBlock.alwaysRunning
        other.delegator = .passUnretained(generator)
        generator.delegate = other
      }
      block.pointee.mode.insert(.delegating)
      _ = ControlBlock.suspend(block, passing: 0)
      guard didArrive(block) else { return false }
      // For the other one, which was cancelled before it could get it.
      if let error = owner(of: block, { $0.takeThrownIn() }) { throw error }
    }
    if let failure = other.takeFailure() { throw failure }
    return true
  }

  /// Whether its body has begun, and not ended.
  @usableFromInline final var hasBegun: Bool { block != nil }

  /// On the consumer's side: the delegate, if the body has left for that.
  final func beginDelegation() -> GeneratorCore? {
    guard isDelegating, let block else { return nil }
    block.pointee.mode.remove(.delegating)
    return delegate
  }

  /// Whether the body has left for a delegate, whose body has not been resumed for it yet.
  final var isDelegating: Bool { block?.pointee.mode.contains(.delegating) == true }

  /// The generator that yields from this one, which has ended.
  final func returnToDelegator() -> GeneratorCore {
    guard let outer = delegator?._withUnsafeGuaranteedRef({ $0 }) else { fatalError("a delegate without a delegator") }
    delegator = nil
    // Its own delegates have ended before it.
    innermost = .passUnretained(self)
    withExtendedLifetime(outer.delegate) { outer.delegate = nil }
    return outer
  }

  /// Cancelled by another caller than the generator that yields from it: that one goes on behind its `yield(from:)`.
  final func leaveDelegator() {
    guard delegator != nil else { return }
    let outermost = outermost
    let outer = returnToDelegator()
    outermost.plainBlock = ControlBlock.alwaysRunning
    outermost.innermost = .passUnretained(outer)
  }

  /// The generator that the consumer asks for the elements: the one that yields from this one, directly or not, or
  /// itself.
  final var outermost: GeneratorCore {
    var outermost = self
    while let next = outermost.delegator { outermost = next._withUnsafeGuaranteedRef { $0 } }
    return outermost
  }
}

/// `GeneratorCore.delegate`, for the storages. A free function as `generatorWillYield`.
@usableFromInline
func generatorDelegate(_ body: GeneratorBody, to other: GeneratorCore, onTop: () throws -> Void) throws -> Bool {
  try GeneratorCore.delegate(body, to: other, onTop: onTop)
}
