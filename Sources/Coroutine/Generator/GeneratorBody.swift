// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context

/// Which body a `yield` is for.
@usableFromInline
struct GeneratorBody {
  /// It may be another generator's by now: nothing but its tag is looked at before that was compared.
  @usableFromInline let block: UnsafeMutablePointer<ControlBlock>
  /// The block's, without a mode. As long as the block has this one, it is this body's.
  @usableFromInline let tag: UInt

  init(_ block: UnsafeMutablePointer<ControlBlock>) {
    self.block = block
    tag = block.pointee.tag & ~ControlBlock.Mode.all
  }
}

/// A generator's body: its life on its own stack, and what its `yield` does where that is not the plain case.
///
/// No reference to the generator may be alive in these frames while the body is suspended: they would keep it, and it
/// them, for ever.
extension GeneratorCore {
  /// The body's whole life.
  @inline(__always)
  fileprivate static func run(_ block: UnsafeMutablePointer<ControlBlock>) {
    let kind = owner(of: block) { generator in
      generator.scopes.didArrive(block)
      return type(of: generator)
    }
    do {
      try kind.runBody(on: block)
    } catch {
      // Its own cancel ends it as it should. That of another generator is an error as any other: elements may be missing.
      if error is GeneratorCancelled, block.pointee.mode.contains(.cancelled) { return }
      owner(of: block) { $0.fail(error) }
    }
  }

  /// The generator whose stack it is, not retained: its resumer keeps it alive meanwhile.
  ///
  /// Unchecked: only generators' bodies call this, with the block that their generator has made.
  static func owner<Result>(of block: UnsafeMutablePointer<ControlBlock>, _ use: (GeneratorCore) -> Result) -> Result {
    block.pointee.owner._withUnsafeGuaranteedRef { use(unsafeDowncast($0, to: GeneratorCore.self)) }
  }

  /// Before a `yield` that is not the plain case. Whether the consumer wants the element.
  static func willYield(_ body: GeneratorBody) -> Bool {
    let block = body.block
    requireRunning(body)
    guard !block.pointee.mode.contains(.cancelled) else {
      giveUpIfEndless(block)
      return false
    }
    if block.pointee.mode.contains(.annotated) {
      owner(of: block) { $0.scopes.noteAccesses(block) }
    }
    return true
  }

  /// The block may be another generator's by now: nothing else of it is touched before this.
  static func requireRunning(_ body: GeneratorBody) {
    let block = body.block
    require(
      block.pointee.tag & ~ControlBlock.Mode.all == body.tag && SelectedBackend.isRunning(ControlBlock.link(of: block)),
      "a Generator's yield was called outside of its body, or after the body's end")
    require(
      RunningBodies(on: block).contains(block),
      "a Generator's yield was called outside of its body: by another coroutine or thread, while the body waits")
  }

  /// After a `yield`, where that is not the plain case: the consumer has bindings, resumed it slowly, or wants no more
  /// elements. Whether it does.
  static func didArrive(_ block: UnsafeMutablePointer<ControlBlock>) -> Bool {
    owner(of: block) { generator in
      generator.scopes.didArrive(block)
      guard let regions = generator.scopes.regions, regions.innermost != nil else { return }
      RunningBodies.noteRegions(on: block)
      if let core = CoroutineCore.current { regions.putBack(on: core) }
    }
    return !block.pointee.mode.contains(.cancelled)
  }

  /// A body that goes on and on although its `yield` throws would hang the caller that cancels or drops it. It is left
  /// where it is: its stack is lost, and what its frames own.
  ///
  /// Not inside an access: that would never end, and the variable may be half changed. Swift would report to the next one that
  /// uses it, but only in the same coroutine or thread.
  private static func giveUpIfEndless(_ block: UnsafeMutablePointer<ControlBlock>) {
    let isEndless = owner(of: block) { generator in
      generator.throwsSinceCancel += 1
      return generator.throwsSinceCancel == GeneratorEndless.mostThrows
    }
    guard isEndless else { return }
    require(
      !OpenScopes.hasAccess(onTopOf: block),
      "a cancelled generator is given up inside an access to a variable (a mutating call such as sort, or an inout argument): "
        + "its body has swallowed the error of its yield \(GeneratorEndless.mostThrows) times and does not end, so that no code "
        + "may use the variable again. Let the error pass")
    CoroutineErrors.report(GeneratorEndless(attempts: GeneratorEndless.mostThrows), of: "a generator")
    block.pointee.state.store(.none, ordering: .releasing)
    _ = ControlBlock.suspend(block, passing: 0)
    fatalError("a generator that was given up was resumed")
  }
}

// What the storages, which are inlined elsewhere, call of `GeneratorCore`. Not static members: a call would have to ask for the
// class's metadata first, as at `reportNoCoroutine`.

/// `GeneratorCore.willYield`, for the storages: throws where the consumer does not want the element.
@usableFromInline
func generatorWillYield(_ body: GeneratorBody) throws {
  guard GeneratorCore.willYield(body) else { throw GeneratorCancelled() }
}

/// `GeneratorCore.didArrive`, for the storages: throws where the consumer wants no other element, or wants it to throw.
@usableFromInline
func generatorDidArrive(_ body: GeneratorBody) throws {
  guard GeneratorCore.didArrive(body.block) else { throw GeneratorCancelled() }
  if let error = GeneratorCore.owner(of: body.block, { $0.takeThrownIn() }) { throw error }
}

/// The generator whose stack it is, alive while its body runs.
@usableFromInline
func generatorOwner(_ block: UnsafeMutablePointer<ControlBlock>) -> Unmanaged<GeneratorCore> {
  GeneratorCore.owner(of: block) { .passUnretained($0) }
}

/// A suspension of a body that has looked whether it may. Without a mode it has left in the plain way nevertheless: it stood
/// far from its block, or in the body of a generator that it runs.
@usableFromInline
func generatorSuspend(_ body: GeneratorBody, _ word: UInt) throws {
  let block = body.block
  let isPlain = block.pointee.mode.isEmpty
  let answer =
    isPlain
    ? SelectedBackend.suspend(ControlBlock.link(of: block), passing: word) : ControlBlock.suspend(block, passing: word)
  if answer != 0 { try generatorDidArrive(body) }
}

/// The first function on a generator's stack.
func generatorEntry(_ word: UInt) {
  let block = ControlBlock.entered(word)
  GeneratorCore.run(block)
  ControlBlock.leave(block)
}

#if DEBUG
  /// A body has come to a `yield`. On the consumer's side.
  @usableFromInline
  func generatorRequireNoThreadBoundCode(_ block: UnsafeMutablePointer<ControlBlock>) {
    guard let code = ThreadBoundCode.around(block) else { return }
    // The same note is there in a task that the body has begun on its stack: `requireTask` names that.
    if code == .isolatedDeinit, coroutine_task_word() != block.pointee.threadState.task { return }
    fatalError(
      "a Generator's body yields inside \(code.text). \(code.consequence) Yield outside of it. (Debug builds check.)")
  }
#endif
