import CCoroutine
public import Context

/// What a generator does whatever its elements are: begin, end, cancel. Everything here is off the path of an ordinary
/// element.
///
/// One flow of control at a time uses it: the consumer, or the body on the consumer's behalf.
@usableFromInline
class GeneratorCore {
  /// On its stack; `nil` before the first element and after the end.
  @exclusivity(unchecked) private final var block: UnsafeMutablePointer<ControlBlock>?
  /// The same where the next element may be got in the plain way; else one that looks as if its body ran. So one test
  /// tells all: not begun, ended, cancelled, something open, a sanitizer, called from inside the body.
  @exclusivity(unchecked) @usableFromInline final var plainBlock = ControlBlock.alwaysRunning
  /// What ended the body.
  @exclusivity(unchecked) final var failure: (any Error)?
  /// What the body has open while it is suspended.
  @exclusivity(unchecked) private final var scopes = OpenScopes()
  /// Until it begins, or is cancelled before that.
  @exclusivity(unchecked) private final var body: Body?
  private let stackSize: Int?
  private let slot: Int

  @usableFromInline typealias Body = (UnsafeMutablePointer<ControlBlock>) throws -> Void

  /// - Parameters:
  ///   - slot: the bytes of an element that does not travel in the word.
  ///   - body: given the block, to yield with.
  @usableFromInline
  init(stackSize: Int?, slot: Int, body: @escaping Body) {
    self.stackSize = stackSize
    self.slot = slot
    self.body = body
  }

  deinit {
    // A body that has begun must not be left behind with its frames: it unwinds now, on this thread.
    cancel()
  }

  // MARK: - The consumer's side

  /// Whether the body runs at this moment: somebody's registers are saved as its resumer's.
  @inlinable @inline(__always)
  final func isRunning(_ block: UnsafeMutablePointer<ControlBlock>) -> Bool {
    SelectedBackend.isRunning(ControlBlock.link(of: block))
  }

  /// Runs the body to its next `yield` or its end, where the plain way is not open. Returns the word; `nil` after the
  /// end, or without memory.
  @usableFromInline
  final func resumeSlowly() -> UInt? {
    guard let block = block ?? begin() else { return nil }
    require(!isRunning(block), "a Generator's next() was called from inside its own body, or by two threads at once")
    return resume(block)
  }

  private final func resume(_ block: UnsafeMutablePointer<ControlBlock>) -> UInt {
    block.pointee.mode.remove(.scopeOpen)
    scopes.willResume()
    // Not 0: the body looks what is the matter, and the entry function needs the address.
    return ControlBlock.resume(block, passing: UInt(bitPattern: block))
  }

  private final func begin() -> UnsafeMutablePointer<ControlBlock>? {
    guard body != nil else { return nil }
    do throws(StackError) {
      let block = try ControlBlock.create(stackSize: stackSize, owner: self, slot: slot, entry: generatorEntry)
      block.pointee.state.store(.generator, ordering: .releasing)
      self.block = block
      return block
    } catch {
      body = nil
      fail(error)
      return nil
    }
  }

  /// The body's whole life. No reference to the generator may be alive in these frames while the body is suspended: they
  /// would keep it, and it them, for ever.
  fileprivate static func run(_ block: UnsafeMutablePointer<ControlBlock>) {
    let body = owner(of: block) { generator in
      defer { generator.body = nil }
      generator.scopes.didArrive()
      return generator.body
    }
    do {
      try body?(block)
    } catch is GeneratorCancelled {
    } catch {
      owner(of: block) { $0.fail(error) }
    }
  }

  /// Lends the generator whose stack it is: whoever resumed it keeps it alive meanwhile.
  private static func owner<Result>(
    of block: UnsafeMutablePointer<ControlBlock>, _ use: (GeneratorCore) -> Result
  ) -> Result {
    block.pointee.owner._withUnsafeGuaranteedRef { use(unsafeDowncast($0, to: GeneratorCore.self)) }
  }

  private final func fail(_ error: any Error) {
    failure = error
    CoroutineErrors.report(error, of: "a generator")
  }

  /// After a resume that was not the plain case, or did not end so: whether it was the last. Then the stack goes back.
  @usableFromInline
  final func hasFinished() -> Bool {
    guard let block else { fatalError("a generator without a stack was resumed") }
    plainBlock = block.pointee.mode.isEmpty ? block : ControlBlock.alwaysRunning
    guard block.pointee.mode.contains(.finished) else { return false }
    self.block = nil
    ControlBlock.destroy(block)
    return true
  }

  /// Unwinds a body that has begun. Elements that it yields in spite of that are not possible: each `yield` throws.
  final func cancel() {
    guard let block else {
      body = nil
      return
    }
    block.pointee.mode.insert(.cancelled)
    plainBlock = ControlBlock.alwaysRunning
    guard !isRunning(block) else { return }
    _ = resume(block)
    require(hasFinished(), "a cancelled generator's body suspended again")
  }

  // MARK: - The body's side

  /// Before a `yield` that is not the plain case. Whether anybody wants the element.
  fileprivate static func willYield(_ block: UnsafeMutablePointer<ControlBlock>, _ identity: UInt64) -> Bool {
    // The block may be another generator's by now: nothing of it is touched before this.
    require(
      block.pointee.identity & ~UInt64(UInt32.max) == identity
        && SelectedBackend.isRunning(ControlBlock.link(of: block)),
      "a Generator's yield was called outside of its body, or after the body's end")
    guard !block.pointee.mode.contains(.cancelled) else { return false }
    owner(of: block) { generator in
      generator.scopes.willYield(block)
      if generator.scopes.areOpen { block.pointee.mode.insert(.scopeOpen) }
    }
    return true
  }

  /// After a `yield`, where that is not the plain case: the consumer has bindings, resumed it
  /// slowly, or wants no more elements. Whether it does.
  fileprivate static func didArrive(_ block: UnsafeMutablePointer<ControlBlock>) -> Bool {
    owner(of: block) { $0.scopes.didArrive() }
    return !block.pointee.mode.contains(.cancelled)
  }
}

/// `GeneratorCore.willYield`, for the storages.
@usableFromInline
func generatorWillYield(_ block: UnsafeMutablePointer<ControlBlock>, _ identity: UInt64) -> Bool {
  GeneratorCore.willYield(block, identity)
}

/// `GeneratorCore.didArrive`, for the storages.
@usableFromInline
func generatorDidArrive(_ block: UnsafeMutablePointer<ControlBlock>) -> Bool {
  GeneratorCore.didArrive(block)
}

/// A suspension that is not the plain case.
@usableFromInline
func generatorSuspend(_ block: UnsafeMutablePointer<ControlBlock>, _ word: UInt) -> UInt {
  ControlBlock.suspend(block, passing: word)
}

/// The first function on a generator's stack.
private func generatorEntry(_ word: UInt) {
  let block = ControlBlock.entered(word)
  GeneratorCore.run(block)
  ControlBlock.leave(block)
}
