import CCoroutine
public import Context
import Glibc

/// What a generator does whatever its elements are: begin, end, cancel, and mind open accesses. Everything here is off
/// the path of an ordinary element.
///
/// One flow of control at a time uses it: the consumer, or the body on the consumer's behalf.
@usableFromInline
class GeneratorCore {
  /// On its stack; `nil` before the first element and after the end.
  @exclusivity(unchecked) @usableFromInline final var block: UnsafeMutablePointer<ControlBlock>?
  /// What ended the body.
  @exclusivity(unchecked) final var failure: (any Error)?
  /// Who resumed it last, while an access is open in its frames. See `prepareToYield`.
  @exclusivity(unchecked) private final var accessOwner: FlowIdentity?
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

  /// The block to resume: made at the first element. `nil` after the end, or without memory.
  @usableFromInline
  final func prepareToResume() -> UnsafeMutablePointer<ControlBlock>? {
    guard let block else { return begin() }
    precondition(
      !isRunning(block), "a Generator's next() was called from inside its own body, or by two threads at once")
    checkOpenAccess(block)
    return block
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

  /// After a resume: whether that was the last. Then the stack goes back.
  @usableFromInline
  final func hasFinished(_ block: UnsafeMutablePointer<ControlBlock>) -> Bool {
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
    guard !isRunning(block) else { return }
    checkOpenAccess(block)
    _ = ControlBlock.resume(block, passing: 0)
    precondition(hasFinished(block), "a cancelled generator's body suspended again")
  }

  // MARK: - The body's side

  /// Before a `yield` that is not the plain case.
  @usableFromInline
  static func prepareToYield(_ block: UnsafeMutablePointer<ControlBlock>) throws {
    try checkCancelled(block)
    guard !coroutine_access_set_is_empty() else { return }
    // Some access is open on this thread. If it is the body's own, its record lies on this stack and in the consumer's
    // list: ending it from another thread or coroutine would look for it in another list, and crash there or miss it.
    let stack = block.pointee.stack
    if coroutine_access_set_touches(stack.limit, stack.top) {
      block.pointee.mode.insert(.accessOpen)
      owner(of: block) { $0.accessOwner = FlowIdentity.current }
    }
  }

  @usableFromInline
  static func checkCancelled(_ block: UnsafeMutablePointer<ControlBlock>) throws {
    if block.pointee.mode.contains(.cancelled) { throw GeneratorCancelled() }
  }

  /// Before a resume of a body that has an access open: only the flow of control that it was opened in may go on.
  private final func checkOpenAccess(_ block: UnsafeMutablePointer<ControlBlock>) {
    guard block.pointee.mode.contains(.accessOpen) else { return }
    guard accessOwner == FlowIdentity.current else {
      fatalError(
        "A Generator was resumed or dropped on another thread or coroutine than before, while its body has an access to "
          + "a variable open (it yields inside a mutating call such as sort, or inside withUnsafeMutable…). Consume such "
          + "a generator where it began, or collect the elements first.")
    }
    block.pointee.mode.remove(.accessOpen)
  }
}

/// The first function on a generator's stack.
private func generatorEntry(_ word: UInt) {
  let block = ControlBlock.entered(word)
  GeneratorCore.run(block)
  ControlBlock.leave(block)
}

/// A flow of control that accesses belong to: a scheduled coroutine, wherever it runs, or else a thread.
private enum FlowIdentity: Equatable {
  case coroutine(UInt64)
  case thread(UInt)

  static var current: FlowIdentity {
    if let core = CoroutineCore.current { return .coroutine(core.id) }
    return .thread(UInt(pthread_self()))
  }
}
