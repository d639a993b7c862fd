// SPDX-License-Identifier: Apache-2.0

/// How an input gets to the body: it lies in the generator while the switch is made.
@usableFromInline
class TwoWayStorage<Input, Element>: GeneratorStorage<Element> {
  /// Written before a resume by the consumer, taken after it by the pending `yield`, or by the body.
  @exclusivity(unchecked) @usableFromInline final var input: Input?
  /// Whether the body is given the first input, for which no `yield` is pending.
  @exclusivity(unchecked) @usableFromInline final var takesFirstInput = false

  /// Whether there is nothing to hand over. A constant in specialised code.
  @inlinable @inline(__always)
  static var needsNoInput: Bool { Input.self == Void.self }

  // As `next()`: a function of its own would be a mispredicted return (see `CoroutineCore.run`).
  @inlinable @inline(__always)
  final func next(_ input: consuming Input) -> Element? {
    // All that it yields from have this type, but for those that take no input: see the face's `yield(from:)`. Where another one
    // yields from it, it had not begun before that, so the receiver is itself, and `next()` traps.
    if !Self.needsNoInput {
      if let receiver = suspendedInnermost {
        if receiver.takesInput {
          let receiver = unsafeDowncast(receiver, to: TwoWayStorage.self)
          if receiver.input != nil { return nextBehindLeftover(input) }
          receiver.input = input
        }
      } else if takesFirstInput, body != nil {
        self.input = input
      }
    }
    return next()
  }

  /// What the `next` brought that has just resumed the body on `block`'s stack, or begun it.
  @inlinable
  static func input(_ block: UnsafeMutablePointer<ControlBlock>) -> Input {
    // Nothing but `()` has this type.
    if needsNoInput { return unsafeBitCast((), to: Input.self) }
    return generatorOwner(block)._withUnsafeGuaranteedRef { generator in
      // Unchecked: the body of a two-way generator asks, with its own block.
      guard let input = unsafeDowncast(generator, to: TwoWayStorage.self).input.take() else {
        fatalError("a TwoWayGenerator was resumed without an input")
      }
      return input
    }
  }

  /// What a `next` has left where no `yield` takes it.
  @inlinable
  static func dropInput(_ block: UnsafeMutablePointer<ControlBlock>) {
    if needsNoInput { return }
    // Unchecked: as in `input`.
    generatorOwner(block)._withUnsafeGuaranteedRef { unsafeDowncast($0, to: TwoWayStorage.self).dropInput() }
  }

  /// What was left over goes before the receiver is chosen: its `deinit` may let the body go on, to another one.
  @inlinable @inline(never)
  final func nextBehindLeftover(_ input: consuming Input) -> Element? {
    while let receiver = suspendedInnermost, receiver.takesInput {
      guard let left = unsafeDowncast(receiver, to: TwoWayStorage.self).input.take() else { break }
      withExtendedLifetime(left) {}
    }
    return next(input)
  }

  /// What lies there goes when it is out of the field: its `deinit` may run code of the user's, which may come back here.
  @inlinable @inline(__always)
  final func dropInput() {
    while let left = input.take() { withExtendedLifetime(left) {} }
  }

  /// As for a `GeneratorStorage`, with the inputs going to `other`.
  @inlinable
  static func yield(from other: TwoWayStorage, _ handle: Generator<Element>.Yield) throws {
    require(
      needsNoInput || !other.hasBegun,
      "yield(from:) with a TwoWayGenerator that has begun: there is no input for its pending yield. Consume it yourself."
    )
    require(
      needsNoInput || !other.takesFirstInput,
      "yield(from:) with a TwoWayGenerator whose body takes the first input: there is none for it. Consume it yourself."
    )
    let isWanted = try generatorDelegate(handle.body, to: other) {
      var element = other.next()
      while let yielded = element {
        do { try yield(yielded, handle) } catch {
          element = try other.next(afterYieldThrew: error)
          continue
        }
        element = other.next(input(handle.body.block))
      }
    }
    guard isWanted else { throw GeneratorCancelled() }
  }
}

/// A two-way generator's storage, with what its body has returned.
@usableFromInline
final class ReturningStorage<Input, Element, Return>: TwoWayStorage<Input, Element> {
  @exclusivity(unchecked) @usableFromInline var result: Return?

  @inlinable
  init(stackSize: Int?, body: @escaping (TwoWayGenerator<Input, Element, Return>.Yield) throws -> Return) {
    super.init(stackSize: stackSize, throwsErrorsOn: true) { oneWay in
      let result = try body(TwoWayGenerator<Input, Element, Return>.Yield(oneWay))
      generatorOwner(oneWay.body.block)._withUnsafeGuaranteedRef {
        // Unchecked: the body gets the block of its own generator, which is the one that is made here.
        unsafeDowncast($0, to: ReturningStorage.self).result = result
      }
    }
    takesInput = !Self.needsNoInput
  }

  @inlinable
  convenience init(
    stackSize: Int?, body: @escaping (TwoWayGenerator<Input, Element, Return>.Yield, Input) throws -> Return
  ) {
    self.init(stackSize: stackSize) { yield in
      try body(yield, TwoWayStorage<Input, Element>.input(yield.oneWay.body.block))
    }
    takesFirstInput = true
  }

  /// After the end: what the body returned or threw.
  @inlinable
  func outcome() throws -> Return {
    if let result { return result }
    throw takeFailure() ?? failure ?? GeneratorCancelled()
  }
}
