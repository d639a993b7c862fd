// SPDX-License-Identifier: Apache-2.0

public import CCoroutine
public import Context

/// How an element gets from one side to the other.
///
/// The path of one element is `next` -> switch -> the body -> `yield` -> switch -> `next`: no allocation, no lock, no
/// count of a reference. What is not the plain case (the first element, the end, a cancel, something open in the body or
/// around it, a sanitizer) has a bit in the block's `mode`, or no block at all, or shows in the thread's words, and
/// leaves that path.
///
/// An element that fits into the word of a switch travels in it, in a register. Any other lies in a slot below the
/// block, at its address the word; the consumer moves it out before anything else happens.
@usableFromInline
class GeneratorStorage<Element>: GeneratorCore {
  /// Until it begins, or is cancelled before that.
  @exclusivity(unchecked) @usableFromInline final var body: ((Generator<Element>.Yield) throws -> Void)?

  /// - Parameter throwsErrorsOn: whether the face throws what the body has thrown.
  @inlinable
  init(stackSize: Int?, throwsErrorsOn: Bool, body: @escaping (Generator<Element>.Yield) throws -> Void) {
    self.body = body
    super.init(
      stackSize: stackSize, slot: Self.fitsWord ? 0 : MemoryLayout<Element>.size, throwsErrorsOn: throwsErrorsOn)
    require(MemoryLayout<Element>.alignment <= 64, "an element of a Generator is aligned to 64 bytes at most")
  }

  @inlinable
  override class func runBody(on block: UnsafeMutablePointer<ControlBlock>) throws {
    // Not specialised: nothing here may need to know more of the types than their layouts, which are fixed.
    guard let body = takeBody(unsafeDowncast(generatorOwner(block).takeUnretainedValue(), to: GeneratorStorage.self))
    else { return }
    try body(Generator<Element>.Yield(block))
  }

  @inlinable @inline(__always)
  static func takeBody(_ storage: GeneratorStorage) -> ((Generator<Element>.Yield) throws -> Void)? {
    let body = storage.body
    storage.body = nil
    return body
  }

  @inlinable
  override func dropBody() { body = nil }

  deinit {
    if body != nil { UnbegunBodies.release(body.take()) }
  }

  /// Whether an element travels in the word itself: a trivial value, or one reference. A constant in specialised code, and the
  /// same in code that is not: one side may be specialised, and the other not.
  @inlinable @inline(__always)
  static var fitsWord: Bool {
    MemoryLayout<Element>.size <= MemoryLayout<UInt>.size && (isReference || _isPOD(Element.self))
  }

  /// Whether it is a reference to an object, if it is one word. Asks no metadata where the compiler knows: a call for them would
  /// be left on the way of each element.
  @inlinable @inline(__always)
  static var isReference: Bool {
    switch _canBeClass(Element.self) {
    case 0: false
    case 1: true
    default: isReferenceType(Element.self)
    }
  }

  /// Where an element lies that does not fit: below the block, at the lowest multiple of 64 that leaves room for it.
  @inlinable @inline(__always)
  static func slot(_ block: UnsafeMutablePointer<ControlBlock>) -> UnsafeMutablePointer<Element> {
    let start = UInt(bitPattern: block) - UInt(MemoryLayout<Element>.size)
    return UnsafeMutablePointer(bitPattern: start & ~63)!
  }

  // MARK: The consumer's side

  /// Where the next element comes from, if it comes in the plain way.
  ///
  /// After the atomic operations of reference counting the processor begins its loads anew. For elements that are counted, the
  /// block's address is therefore predicted (`coroutine_speculate`). For others a loop has it in a register, see `next()`.
  @inlinable
  final var nextBlock: UnsafeMutablePointer<ControlBlock> {
    @inline(__always) get {
      guard Self.isReference || !_isPOD(Element.self) else { return plainBlock }
      return coroutine_speculate(plainBlock).unsafelyUnwrapped.assumingMemoryBound(to: ControlBlock.self)
    }
  }

  /// The block, with its body's frame on the way. Behind a slot the frame lies somewhere else.
  @inlinable @inline(__always)
  final func fetchedEarly(_ block: UnsafeMutablePointer<ControlBlock>) -> UnsafeMutablePointer<ControlBlock> {
    guard Self.fitsWord else { return block }
    return coroutine_prefetched(block).unsafelyUnwrapped.assumingMemoryBound(to: ControlBlock.self)
  }

  // Both looks at the thread's words are on this side, one after the other from one element to the next: where a loop does
  // nothing in between that the compiler does not know, such as a sum, it needs no second one. Nor does it load the block.
  @inlinable @inline(__always)
  final func next() -> Element? {
    let block = nextBlock
    // Before the block's own word: the compiler treats a load after opaque instructions as conditional, and would not keep it
    // in a register from one element to the next.
    let bindings = coroutine_bindings_peek(bindingsOffset)
    let link = ControlBlock.link(of: fetchedEarly(block))
    guard
      coroutine_bindings_are_plain(
        bindingsOffset, bindings, SelectedBackend.runningWord(link), &block.pointee.threadState.task)
    else {
      return nextSlowly()
    }
    let (word, left, mark) = SelectedBackend.resumeReturningLink(link, passing: 0)
    let same = UnsafeMutableRawPointer(left).assumingMemoryBound(to: ControlBlock.self)
    #if DEBUG
      generatorRequireNoThreadBoundCode(same)
    #endif
    // A body that left in the plain way has no mode, and no mark.
    guard
      coroutine_flow_is_plain(bindingsOffset, mark ?? same.pointee.mode.rawValue, &same.pointee.threadState.task)
    else { return settled(word) }
    // Code that changes the plain block while the body runs (`cancel`) sets a bit in the mode of the block that runs:
    // then the body did not leave in the plain way.
    coroutine_assume(plainWord == UInt(bitPattern: same))
    return Self.element(word)
  }

  /// The first element, those with a reason in `mode`, or in the consumer's bindings, and those after the end.
  @inlinable @inline(__always)
  final func nextSlowly() -> Element? {
    defer { look() }
    return nextOutOfLine()
  }

  @inlinable @inline(never)
  final func nextOutOfLine() -> Element? {
    resumeSlowly().map(Self.element)
  }

  /// The pending `yield` throws.
  @inlinable
  final func next(throwing error: any Error) throws -> Element? {
    try resume(throwing: error).map(Self.element)
  }

  /// For a generator that runs inside the body that yields from it. If that body's `yield` has thrown, the error is meant for
  /// this generator, unless it is `GeneratorCancelled`.
  @inlinable
  final func next(afterYieldThrew error: any Error) throws -> Element? {
    guard !(error is GeneratorCancelled) else { throw error }
    return try next(throwing: error)
  }

  /// An element, or the end, or where another generator's elements begin.
  @inlinable @inline(__always)
  final func settled(_ word: UInt) -> Element? {
    defer { look() }
    return settledOutOfLine(word)
  }

  @inlinable @inline(never)
  final func settledOutOfLine(_ word: UInt) -> Element? {
    settle(word).map(Self.element)
  }

  /// What the next `next()` begins with, for the compiler: it has that in registers on whichever way it comes there.
  @inlinable @inline(__always)
  final func look() {
    coroutine_thread_state_look(
      bindingsOffset, plainWord, SelectedBackend.runningWord(ControlBlock.link(of: plainBlock)))
  }

  // MARK: The body's side

  // The slow ways throw by themselves. Any other call would need the register of the error, and the function around it, such
  // as a recursion, keep it elsewhere from its first step to its last.
  @inlinable @inline(__always)
  static func yield(_ element: consuming Element, _ handle: Generator<Element>.Yield) throws {
    let body = handle.body
    let block = body.block
    // The serial number and the mode, both at once: any bit that differs is a reason to look. A body that is not
    // running has no resumer to go back to. Nor has a body that runs elsewhere, while it waits for something.
    guard _fastPath(block.pointee.tag == body.tag), _fastPath(SelectedBackend.isRunning(ControlBlock.link(of: block))),
      _fastPath(ControlBlock.standsNear(block))
    else {
      if fitsWord { return try yieldSlowly(Self.word(element), body) }
      try generatorWillYield(body)
      return try generatorSuspend(body, put(element, block))
    }
    let word = fitsWord ? Self.word(element) : put(element, block)
    // What a resume in the plain case hands over is 0.
    let answer = SelectedBackend.suspend(ControlBlock.link(of: block), passing: word)
    if _slowPath(answer != 0) { try generatorDidArrive(body) }
  }

  /// A `yield` that is not the plain case.
  @inlinable @inline(never)
  static func yieldSlowly(_ word: UInt, _ body: GeneratorBody) throws {
    do { try generatorWillYield(body) } catch {
      _ = element(word)
      throw error
    }
    try generatorSuspend(body, word)
  }

  /// Puts an element into the slot. Returns its address.
  @inlinable @inline(__always)
  static func put(_ element: consuming Element, _ block: UnsafeMutablePointer<ControlBlock>) -> UInt {
    let slot = slot(block)
    slot.initialize(to: element)
    return UInt(bitPattern: slot)
  }

  /// Lets the consumer run `other` until that ends.
  @inlinable
  static func yield(from other: GeneratorStorage<Element>, _ handle: Generator<Element>.Yield) throws {
    let isWanted = try generatorDelegate(handle.body, to: other) {
      var element = other.next()
      while let yielded = element {
        do { try yield(yielded, handle) } catch {
          element = try other.next(afterYieldThrew: error)
          continue
        }
        element = other.next()
      }
    }
    guard isWanted else { throw GeneratorCancelled() }
  }

  // A reference is passed on as a reference, and not as bits in memory: with bits, the optimiser has left out the release of an
  // element that no code looked at.
  @inlinable @inline(__always)
  static func word(_ element: __owned Element) -> UInt {
    if isReference {
      return UInt(bitPattern: Unmanaged.passRetained(unsafeBitCast(element, to: AnyObject.self)).toOpaque())
    }
    // Without the stack canary that the protected form brings into every function that yields. The pointer stays here. Nor is
    // the memory bound: to the optimiser that may change whatever lies in memory, as what a loop has in registers.
    var bits: UInt = 0
    return _withUnprotectedUnsafeMutablePointer(to: &bits) {
      let memory = UnsafeMutableRawPointer($0)
      memory.assumingMemoryBound(to: Element.self).initialize(to: element)
      return memory.load(as: UInt.self)
    }
  }

  @inlinable @inline(__always)
  static func element(_ word: UInt) -> Element {
    guard fitsWord else { return UnsafeMutablePointer<Element>(bitPattern: word).unsafelyUnwrapped.move() }
    if isReference {
      let object = UnsafeRawPointer(bitPattern: word).unsafelyUnwrapped
      // One reference, as `isReference` says: it comes out as `word` has put it in.
      return unsafeBitCast(Unmanaged<AnyObject>.fromOpaque(object).takeRetainedValue(), to: Element.self)
    }
    var bits = word
    return _withUnprotectedUnsafeMutablePointer(to: &bits) {
      UnsafeMutableRawPointer($0).load(as: Element.self)
    }
  }
}

/// Whether values of the type, if they are one word, are references to objects: a class, or an existential of objects.
@usableFromInline
func isReferenceType(_ type: Any.Type) -> Bool {
  if type is AnyObject.Type { return true }
  // Metadata begin with the kind, those of an existential go on with flags: the highest bit of 32 says "not only objects".
  // A metatype is a pointer to them.
  let metadata = unsafeBitCast(type, to: UnsafePointer<(kind: UInt, flags: UInt)>.self)
  return metadata.pointee.kind == 0x303 && metadata.pointee.flags & 0x8000_0000 == 0
}
