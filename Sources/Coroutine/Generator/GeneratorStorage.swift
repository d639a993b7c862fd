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
  /// - Parameter throwsErrorsOn: whether the face throws what the body has thrown.
  @inlinable
  init(stackSize: Int?, throwsErrorsOn: Bool, body: @escaping (Generator<Element>.Yield) throws -> Void) {
    super.init(
      stackSize: stackSize, slot: Self.fitsWord ? 0 : MemoryLayout<Element>.size, throwsErrorsOn: throwsErrorsOn
    ) { block in
      try body(Generator<Element>.Yield(block))
    }
    require(MemoryLayout<Element>.alignment <= 64, "an element of a Generator is aligned to 64 bytes at most")
  }

  /// Whether an element travels in the word itself: a trivial value, or one reference. A constant in specialised code, and the
  /// same in code that is not: one side may be specialised, and the other not.
  @inlinable @inline(__always)
  static var fitsWord: Bool {
    MemoryLayout<Element>.size <= MemoryLayout<UInt>.size && (_isPOD(Element.self) || isReference)
  }

  /// Whether it is an instance of a class. `_canBeClass` alone knows that in specialised code only, and takes `AnyObject` for
  /// one there; it spares the others the question. So does the cast where the element is known to be an `AnyObject`, and says
  /// at run time that `AnyObject` itself is none: hence it is named.
  @inlinable @inline(__always)
  static var isReference: Bool {
    _canBeClass(Element.self) != 0 && (Element.self is AnyObject.Type || Element.self == AnyObject.self)
  }

  /// Where an element lies that does not fit: below the block, at the lowest multiple of 64 that leaves room for it.
  @inlinable @inline(__always)
  static func slot(_ block: UnsafeMutablePointer<ControlBlock>) -> UnsafeMutablePointer<Element> {
    let start = UInt(bitPattern: block) - UInt(MemoryLayout<Element>.size)
    return UnsafeMutablePointer(bitPattern: start & ~63)!
  }

  // MARK: The consumer's side

  // Both looks at the thread's words are on this side, one after the other from one element to the next: where a loop does
  // nothing in between that the compiler does not know, such as a sum, it needs no second one.
  @inlinable @inline(__always)
  final func next() -> Element? {
    guard coroutine_bindings_are_plain(bindingsPlace, 0) else { return nextSlowly() }
    let block = coroutine_foreseen(plainBlock).unsafelyUnwrapped.assumingMemoryBound(to: ControlBlock.self)
    guard !isRunning(block) else { return nextSlowly() }
    let (word, link, mark) = SelectedBackend.resumeReturningLink(ControlBlock.link(of: block), passing: 0)
    let same = UnsafeMutableRawPointer(link).assumingMemoryBound(to: ControlBlock.self)
    // A body that left in the plain way has no mode, and no mark.
    guard coroutine_flow_is_plain(bindingsPlace, mark ?? same.pointee.mode.rawValue) else { return settled(word) }
    return Self.element(word)
  }

  /// The first element, those with a reason in `mode`, or in the consumer's bindings, and those after the end.
  @inlinable @inline(__always)
  final func nextSlowly() -> Element? {
    defer { coroutine_bindings_look(bindingsPlace) }
    return nextOutOfLine()
  }

  @inlinable @inline(never)
  final func nextOutOfLine() -> Element? {
    resumeSlowly().map(Self.element)
  }

  /// An element, or the end, or where another generator's elements begin.
  @inlinable @inline(__always)
  final func settled(_ word: UInt) -> Element? {
    defer { coroutine_bindings_look(bindingsPlace) }
    return settledOutOfLine(word)
  }

  @inlinable @inline(never)
  final func settledOutOfLine(_ word: UInt) -> Element? {
    settle(word).map(Self.element)
  }

  // MARK: The body's side

  // The slow ways are functions of no generic type, and tell by a `Bool` what is then thrown at one place: else each
  // function that yields would look up a type on its entry, and keep an error's register across every switch.
  @inlinable @inline(__always)
  static func yield(_ element: consuming Element, _ handle: Generator<Element>.Yield) throws {
    let tag = coroutine_afresh(handle.tag)
    let block = ControlBlock.tagged(tag)
    // The serial number and the mode, both at once: any bit that differs is a reason to look. And who is not running has
    // nobody to go back to.
    let isPlain = block.pointee.tag == tag && SelectedBackend.isRunning(ControlBlock.link(of: block))
    if !isPlain, !generatorWillYield(tag) { throw GeneratorCancelled() }
    let word: UInt
    if fitsWord {
      word = Self.word(element)
    } else {
      let slot = slot(block)
      slot.initialize(to: element)
      word = UInt(bitPattern: slot)
    }
    // What a resume in the plain case hands over is 0.
    let answer =
      isPlain
      ? SelectedBackend.suspend(ControlBlock.link(of: block), passing: word) : generatorSuspend(tag, word)
    if answer != 0, !generatorDidArrive(handle.tag) { throw GeneratorCancelled() }
  }

  /// Lets the consumer run `other` until that ends.
  @inlinable
  static func yield(from other: GeneratorStorage<Element>, _ handle: Generator<Element>.Yield) throws {
    let isWanted = try generatorDelegate(handle.tag, to: other) {
      while let element = other.next() { try yield(element, handle) }
    }
    guard isWanted else { throw GeneratorCancelled() }
  }

  // Both without the stack canary that the protected forms bring into every function that yields. The pointer stays here.
  @inlinable @inline(__always)
  static func word(_ element: __owned Element) -> UInt {
    var bits: UInt = 0
    _withUnprotectedUnsafeMutablePointer(to: &bits) {
      UnsafeMutableRawPointer($0).assumingMemoryBound(to: Element.self).initialize(to: element)
    }
    return bits
  }

  @inlinable @inline(__always)
  static func element(_ word: UInt) -> Element {
    guard fitsWord else { return UnsafeMutablePointer<Element>(bitPattern: word).unsafelyUnwrapped.move() }
    var bits = word
    return _withUnprotectedUnsafeMutablePointer(to: &bits) {
      UnsafeMutableRawPointer($0).assumingMemoryBound(to: Element.self).move()
    }
  }
}
