// SPDX-License-Identifier: Apache-2.0

import Context

extension Coroutine {
  /// Runs `cleanup` once, after the coroutine's end, however that comes about: after its last line, an early return, an
  /// error, a cancel, even one before it began. Of a `.lazy` one that is never started, when its last handle is gone.
  ///
  /// ```swift
  /// Coroutine { @MainActor in
  ///   progress.show()
  ///   let user = try awaitCallback(login(account, password))
  ///   guard let image = try images.get(user) else { return }
  ///   show(user, image)
  /// }.finally {
  ///   progress.hide()
  /// }
  /// ```
  ///
  /// Inside a body that you write, `defer` does the same, sees the body's variables, and is done before `get()`
  /// returns. This is for holders of the coroutine alone.
  ///
  /// It runs where the coroutine does, or, given code of the main actor, on the main queue; as a coroutine of its own,
  /// so that it may wait. Those given before the end begin in the order in which they were given, one given after it at
  /// once. `get()` does not wait for them, and the body's error stays with `get()`; without a call of that, it is reported
  /// through `CoroutineErrors.unhandled`, as without them.
  ///
  /// - Parameter cleanup: what to do. An error that it throws is reported through `CoroutineErrors.unhandled`.
  /// - Returns: the same coroutine.
  @discardableResult
  public func finally<Problem: Error>(
    @_inheritActorContext @_implicitSelfCapture _ cleanup: @Sendable @escaping @isolated(any) () throws(Problem) -> Void
  ) -> Coroutine {
    follow(with: cleanup)
    return self
  }

  // Generic over the value too: Swift 6.3 crashes on the conversion of a body that is known to return nothing.
  private func follow<Value: Sendable, Problem: Error>(
    with body: @Sendable @escaping @isolated(any) () throws(Problem) -> Value
  ) {
    let scheduler = body.isolation.map { .inherited(isolatedTo: $0) } ?? storage.home
    let work = CoroutineStorage.create(on: scheduler, name: name, stackSize: nil, body: withoutIsolation(body))
    // It does not look at how it ended: an error that no caller asks for is still one that no caller has handled.
    if !storage.addEndListener(EndListener(starting: work)) { work.schedule() }
  }
}

/// Starts a coroutine when another one ends.
// Unchecked: as its superclass; its own field is constant.
private final class EndListener: WaitListener, @unchecked Sendable {
  // Alive: the coroutine keeps itself so until it has run.
  private let work: CoroutineCore

  init(starting work: CoroutineCore) {
    self.work = work
  }

  override func notify() { work.schedule() }
}

extension Coroutine {
  /// Calls `body` once, at the end, whatever it is: on the thread that ends it, before that goes on; on the calling one if it
  /// has ended. Not as a coroutine, other than what `finally` runs: it needs no stack, and must not wait. It may call foreign
  /// code, as a coroutine's end does for an error that no caller has handled.
  ///
  /// - Parameter body: is given the `StackError` of a coroutine that has got no stack, and so never began. That counts as
  ///   handled.
  package func atEnd(_ body: @escaping @Sendable (_ withoutStack: (any Error)?) -> Void) {
    let call = EndCall(of: storage, body)
    if !storage.addEndListener(call) { call.notify() }
  }
}

/// Calls a function when a coroutine ends.
// Unchecked: as its superclass; its own fields are constant.
private final class EndCall: WaitListener, @unchecked Sendable {
  // Alive: it is what calls this.
  private let core: Unmanaged<CoroutineCore>
  private let body: @Sendable ((any Error)?) -> Void

  init(of core: CoroutineCore, _ body: @escaping @Sendable ((any Error)?) -> Void) {
    self.core = .passUnretained(core)
    self.body = body
  }

  override func notify() {
    let error = core._withUnsafeGuaranteedRef { $0.takeStackError() }
    body(error)
  }
}

extension CoroutineCore {
  /// The error of one that has ended and never had a stack: the caller handles it.
  fileprivate final func takeStackError() -> (any Error)? {
    guard let error = failure as? StackError else { return nil }
    resultIsTaken()
    return error
  }
}
