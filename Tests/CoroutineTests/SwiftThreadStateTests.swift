// The words that the Swift runtime keeps for each thread, exchanged by hand. This is what a coroutine's resume and
// suspension do, without a coroutine. `words.entered { … }` is one stretch in which a coroutine runs.
import CCoroutine
import CoroutineTestSupport
import Glibc
import Testing

@Suite(.ownThreads) struct `Offsets of the thread's words` {
  @Test func `all of them are found`() {
    let all =
      COROUTINE_THREAD_STATE_ACCESS.rawValue | COROUTINE_THREAD_STATE_ACCESS_LIST.rawValue
      | COROUTINE_THREAD_STATE_TASK.rawValue
      | COROUTINE_THREAD_STATE_LOCALS.rawValue | COROUTINE_THREAD_STATE_BINDINGS.rawValue
      | COROUTINE_THREAD_STATE_EXCEPTIONS.rawValue
    #expect(coroutine_thread_state_found() == all)
  }

  @Test func `one place tells those of the bindings`() {
    let here = Offsets.probed()
    // If `bindings` were 0, every element of a generator would take the slow way.
    #expect(here.bindings == here.task)
    #expect(here.locals == here.task + Int(COROUTINE_LOCALS_AFTER_TASK))
  }

  @Test func `every thread finds the same, in a task and amid accesses`() async {
    let here = Offsets.probed()
    let threads = (0..<4).map { _ in PlainThread { Offsets.probed() } }
    for thread in threads { #expect(Offsets(thread.join()) == Offsets(here)) }

    let inTask = await Local.$number.withValue(1) { await Task { Offsets.probed() }.value }
    #expect(Offsets(inTask) == Offsets(here))

    let box = Box()
    box.modify { _ in #expect(Offsets(Offsets.probed()) == Offsets(here)) }
  }
}

@Suite(.ownThreads) struct `Exclusive accesses of a coroutine` {
  @Test func `an access begun on one thread ends on another`() {
    let words = Words()
    let access = Access()
    PlainThread {
      words.entered { access.begin() }
      #expect(coroutine_access_set_is_empty())
    }.join()
    PlainThread {
      words.entered {
        #expect(!coroutine_access_set_is_empty())
        access.end()
        #expect(coroutine_access_set_is_empty())
      }
      #expect(coroutine_access_set_is_empty())
    }.join()
  }

  @Test func `two coroutines' accesses end in the order of their begin`() {
    let (first, second) = (Words(), Words())
    let (one, other) = (Access(), Access())
    first.entered { one.begin() }
    second.entered { other.begin() }
    first.entered { one.end() }
    second.entered { other.end() }
    #expect(first.isClear && second.isClear)
  }

  @Test func `an access outlives the coroutine that was resumed inside it`() {
    let box = Box()
    let words = Words()
    box.modify { value in
      value = 1
      words.entered {
        // What the coroutine does is done inside the outer access.
        #expect(!coroutine_access_set_is_empty())
        Box().modify { $0 = 2 }
      }
      #expect(words.isClear)
      #expect(!coroutine_access_set_is_empty())
    }
    #expect(box.value == 1)
    #expect(coroutine_access_set_is_empty())
  }

  @Test(arguments: [true, false])
  func `a lent list comes after the coroutine's own, and is cut off`(_ isFound: Bool) {
    let words = Words()
    let (outer, inner, later, other) = (Access(), Access(), Access(), Access())
    var at = isFound ? Offsets.probed() : Words.noneButTheList
    words.entered { inner.begin() }
    outer.begin()
    words.enter(by: &at)
    #expect(coroutine_access_set_touches(outer.low, outer.high))
    #expect(coroutine_access_set_touches(inner.low, inner.high))
    later.begin()
    inner.end()
    words.leave(by: &at)
    // The tail of the set has changed meanwhile.
    #expect(!coroutine_access_set_touches(later.low, later.high))
    #expect(coroutine_access_set_touches(outer.low, outer.high))
    outer.end()
    #expect(coroutine_access_set_is_empty())
    other.begin()
    words.enter(by: &at)
    #expect(!coroutine_access_set_touches(outer.low, outer.high))
    #expect(coroutine_access_set_touches(later.low, later.high))
    later.end()
    words.leave(by: &at)
    #expect(words.isClear)
    other.end()
    #expect(coroutine_access_set_is_empty())
  }

  @Test(arguments: [true, false])
  func `a list that was lent can be lent again`(_ isFound: Bool) {
    let (first, second) = (Words(), Words())
    let (outer, one, two) = (Access(), Access(), Access())
    var at = isFound ? Offsets.probed() : Words.noneButTheList
    outer.begin()
    first.enter(by: &at)
    second.enter(by: &at)
    two.begin()
    second.leave(by: &at)
    one.begin()
    second.enter(by: &at)
    for access in [outer, one, two] { #expect(coroutine_access_set_touches(access.low, access.high)) }
    second.leave(by: &at)
    first.leave(by: &at)
    #expect(!coroutine_access_set_touches(one.low, one.high))
    outer.end()
    second.entered { two.end() }
    first.entered { one.end() }
    #expect(first.isClear && second.isClear)
    #expect(coroutine_access_set_is_empty())
  }

  @Test func `an access is known by the memory that its node lies in`() {
    let (outer, inner, other) = (Access(), Access(), Access())
    #expect(!coroutine_access_set_touches(outer.low, outer.high))
    outer.begin()
    inner.begin()
    #expect(coroutine_access_set_touches(outer.low, outer.high))
    #expect(coroutine_access_set_touches(inner.low, inner.high))
    #expect(!coroutine_access_set_touches(other.low, other.high))
    #expect(!coroutine_access_set_touches(outer.high, outer.high + 1))
    #expect(!coroutine_access_set_touches(outer.low, outer.low))
    outer.end()
    #expect(!coroutine_access_set_touches(outer.low, outer.high))
    #expect(coroutine_access_set_touches(inner.low, inner.high))
    inner.end()
  }
}

@Suite(.ownThreads) struct `The task that resumes a coroutine` {
  @Test func `is hidden from the coroutine`() async {
    let task = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      let words = Words()
      words.entered {
        #expect(withUnsafeCurrentTask { $0 == nil })
        #expect(!Task.isCancelled)
      }
      #expect(withUnsafeCurrentTask { $0 != nil })
      #expect(Task.isCancelled)
    }
    await task.value
  }

  @Test func `does not receive the coroutine's bindings`() async {
    let words = Words()
    await Local.$number.withValue(1) {
      await Task { Self.bindAroundASuspension(words, outside: 1) }.value
    }
    #expect(words.isClear)
  }

  @Test @MainActor func `is not the executor, which stays what it was`() {
    Words().entered { MainActor.assertIsolated() }
  }

  @Test func `neither does a thread without a task`() {
    let words = Words()
    PlainThread {
      Local.$number.withValue(1) { Self.bindAroundASuspension(words, outside: 1) }
      Self.bindAroundASuspension(words, outside: 0)
    }.join()
    #expect(words.isClear)
  }

  /// What a coroutine does that suspends inside a binding: the code outside goes on before the binding ends.
  fileprivate static func bindAroundASuspension(_ words: Words, outside: Int) {
    words.entered {
      Local.$number.withValue(2) {
        words.left { #expect(Local.number == outside) }
        #expect(Local.number == 2)
      }
      #expect(Local.number == 0)
    }
    #expect(Local.number == outside)
  }
}

@Suite(.ownThreads) struct `Bindings that a coroutine inherits` {
  @Test func `none where there are none`() async {
    #expect(PlainThread { Words.captured().isClear }.join())
    #expect(await Task.detached { Words.captured().isClear }.value)
  }

  @Test func `from outside every task`() {
    PlainThread {
      let words = Local.$number.withValue(1) { Local.$text.withValue("one") { Words.captured() } }
      #expect(Local.number == 0)
      words.expectBindings(number: 1, text: "one")
      words.release()
    }.join()
  }

  @Test func `from a task, on another thread after the binding has ended`() async {
    let words = await Task {
      Local.$number.withValue(1) { Local.$text.withValue("one") { Words.captured() } }
    }.value
    PlainThread {
      words.expectBindings(number: 1, text: "one")
      words.release()
    }.join()
  }

  @Test func `only the newest of a key`() {
    let (old, new) = (Counter(), Counter())
    let words = Local.$object.withValue(CountingAtDeinit(old)) {
      Local.$number.withValue(1) {
        Local.$object.withValue(CountingAtDeinit(new)) { Local.$number.withValue(2) { Words.captured() } }
      }
    }
    #expect(old.value == 1)
    #expect(new.value == 0)
    words.expectBindings(number: 2)
    words.release()
    #expect(new.value == 1)
  }

  @Test func `an unstructured task's copies`() async {
    await Local.$number.withValue(1) {
      await Task { Words.captured() }.value.expectBindingsAndRelease(number: 1)
    }
  }

  @Test func `a child task's parents'`() async {
    await Local.$number.withValue(1) {
      async let child = {
        async let grandchild = Local.$text.withValue("own") { Words.captured() }
        return await grandchild
      }()
      await child.expectBindingsAndRelease(number: 1, text: "own")
    }
  }

  @Test func `a task group's child's`() async {
    await Local.$number.withValue(1) {
      await withTaskGroup(of: Words.self) { group in
        group.addTask { Words.captured() }
        group.addTask { Local.$text.withValue("") { Words.captured() } }
        for await words in group { words.expectBindingsAndRelease(number: 1) }
      }
    }
  }

  @Test func `bindings made in the body of a task group`() async {
    await Local.$number.withValue(1) {
      await withTaskGroup(of: Words.self) { group in
        Local.$number.withValue(2) {
          Words.captured().expectBindingsAndRelease(number: 2)
          group.addTask { Words.captured() }
          group.addTask { Local.$text.withValue("own") { Words.captured() } }
        }
        for await words in group {
          words.entered { #expect(Local.number == 2) }
          words.release()
        }
        Words.captured().expectBindingsAndRelease(number: 1)
      }
    }
  }

  /// For the code that releases the last reference, the runtime hides the bindings by a stop in the list.
  @Test @MainActor func `nothing from behind an isolated deinit`() {
    let words = Words()
    Local.$number.withValue(1) { _ = CapturingAtDeinit(into: words) }
    #expect(words.isClear)
  }

  @Test func `of another coroutine`() {
    PlainThread {
      let outer = Local.$number.withValue(1) { Words.captured() }
      let inner = outer.entered { Local.$text.withValue("inner") { Words.captured() } }
      outer.expectBindings(number: 1)
      outer.release()
      inner.expectBindings(number: 1, text: "inner")
      inner.release()
      #expect(outer.isClear && inner.isClear)
    }.join()
  }

  @Test func `and a task started inside inherits in turn`() async {
    let words = Local.$number.withValue(1) { Local.$text.withValue("one") { Words.captured() } }
    let task = words.entered { Task { (Local.number, Local.text) } }
    words.release()
    #expect(await task.value == (1, "one"))
  }

  @Test func `values of every shape`() {
    let words = Local.$wide.withValue(Wide(first: "first", last: [1, 2])) {
      Local.$vector.withValue(SIMD16(repeating: 3)) {
        Local.$nothing.withValue(()) {
          Local.$any.withValue(["existential"]) {
            Local.$object.withValue(nil) { Words.captured() }
          }
        }
      }
    }
    words.entered {
      #expect(Local.wide?.first == "first" && Local.wide?.last == [1, 2])
      #expect(Local.vector == SIMD16(repeating: 3))
      #expect(Local.nothing != nil)
      #expect(Local.any as? [String] == ["existential"])
      #expect(Local.object == nil)
    }
    words.release()
  }

  @Test func `while many tasks look for their own`() async {
    let offsets = SharedOffsets()
    await withTaskGroup(of: Words.self) { group in
      for number in 1...64 {
        group.addTask { Local.$number.withValue(number) { Words.captured(by: offsets, expecting: number) } }
      }
      for await words in group { words.release() }
    }
    #expect(offsets.pointer.pointee.task_head > 0)
  }
}

@Suite(.ownThreads) struct `The end of a coroutine's bindings` {
  @Test func `destroys each value once, on whichever thread`() async {
    let counter = Counter()
    let words = await Task {
      Local.$object.withValue(CountingAtDeinit(counter)) { (0..<10).map { _ in Words.captured() } }
    }.value
    #expect(counter.value == 0)
    for words in words.dropLast() { words.release() }
    #expect(counter.value == 0)
    PlainThread { words.last?.release() }.join()
    #expect(counter.value == 1)
  }

  @Test func `leaves the bindings of the code that ends it alone`() async {
    let words = Local.$number.withValue(1) { Words.captured() }
    await Task {
      Local.$number.withValue(2) {
        words.release()
        #expect(Local.number == 2)
      }
    }.value
    PlainThread {
      Local.$number.withValue(3) {
        Words.captured().release()
        #expect(Local.number == 3)
      }
    }.join()
  }

  /// If the last of the storage's bindings had such a value, the runtime would free the storage while it removes that
  /// binding.
  @Test func `survives a deinit that binds something itself`() {
    let counter = Counter()
    PlainThread {
      let words = Local.$binder.withValue(BindingAtDeinit(counter)) { Words.captured() }
      words.release()
      #expect(words.isClear)
    }.join()
    #expect(counter.value == 1)
  }

  @Test func `needs no start`() {
    let counter = Counter()
    let words = Local.$object.withValue(CountingAtDeinit(counter)) { Words.captured() }
    words.release()
    words.release()
    #expect(counter.value == 1)
  }
}

@Suite(.ownThreads) struct `Words that were not found` {
  /// Without any words but those that the runtime exports.
  static var none: swift_thread_state_offsets { swift_thread_state_offsets() }

  @Test func `accesses are exchanged by the runtime's own functions`() {
    let words = Words()
    let inner = [Access(), Access(), Access()]
    let outer = [Access(), Access()]
    var none = Self.none
    for access in outer { access.begin() }
    #expect(!coroutine_access_set_is_empty_at(&none))

    words.enter(by: &none)
    #expect(coroutine_access_set_is_empty())
    #expect(coroutine_access_set_is_empty_at(&none))
    for access in inner { access.begin() }
    words.leave(by: &none)

    #expect(coroutine_access_set_touches(outer[0].low, outer[0].high))
    #expect(!coroutine_access_set_touches(inner[0].low, inner[0].high))
    for access in outer { access.end() }
    #expect(coroutine_access_set_is_empty())

    words.enter(by: &none)
    #expect(!coroutine_access_set_is_empty_at(&none))
    for access in inner { access.end() }
    words.leave(by: &none)
    #expect(words.isClear)
  }

  @Test func `of an unknown layout only the latest access is looked at`() {
    var none = Self.none
    let (outer, inner) = (Access(), Access())
    outer.begin()
    inner.begin()
    #expect(coroutine_access_set_touches_at(&none, inner.low, inner.high))
    #expect(!coroutine_access_set_touches_at(&none, outer.low, outer.high))
    none.found = COROUTINE_THREAD_STATE_ACCESS_LIST.rawValue
    #expect(coroutine_access_set_touches_at(&none, outer.low, outer.high))
    inner.end()
    outer.end()
    #expect(!coroutine_access_set_touches_at(&none, inner.low, inner.high))
  }

  @Test func `the others stay as they are`() async {
    await Local.$number.withValue(1) {
      await Task {
        var none = Self.none
        let words = Words()
        words.enter(by: &none)
        #expect(withUnsafeCurrentTask { $0 != nil })
        #expect(Local.number == 1)
        words.leave(by: &none)
        #expect(words.isClear)
      }.value
    }
  }

  @Test func `a coroutine inherits nothing`() async {
    await Local.$number.withValue(1) {
      await Task {
        var none = Self.none
        let words = Words()
        coroutine_thread_state_capture_at(&none, words.pointer)
        #expect(words.isClear)

        var noHead = Offsets.probed()
        noHead.task_head = -1
        coroutine_thread_state_capture_at(&noHead, words.pointer)
        #expect(words.isClear)
      }.value
    }
  }
}

// MARK: - Helpers

private enum Local {
  @TaskLocal static var number = 0
  @TaskLocal static var text = ""
  @TaskLocal static var object: CountingAtDeinit?
  @TaskLocal static var binder: BindingAtDeinit?
  @TaskLocal static var wide: Wide?
  @TaskLocal static var vector = SIMD16<Int64>()
  @TaskLocal static var nothing: Void?
  @TaskLocal static var any: any Sendable = 0
}

private struct Wide: Sendable {
  var first = ""
  var padding: (Int, Int, Int, Int, Int, Int, Int, Int) = (1, 2, 3, 4, 5, 6, 7, 8)
  var last: [Int] = []
}

private final class CountingAtDeinit: Sendable {
  private let counter: Counter
  init(_ counter: Counter) { self.counter = counter }
  deinit { counter.add() }
}

/// Its `deinit` binds and unbinds a value. It counts that if the storage that holds the object itself is still there.
private final class BindingAtDeinit: Sendable {
  private let counter: Counter
  init(_ counter: Counter) { self.counter = counter }
  deinit {
    Local.$number.withValue(7) {}
    let words = Words()
    // Inside, `words` holds what belonged to the thread.
    words.entered { if words.pointer.pointee.locals != 0 { counter.add() } }
  }
}

@MainActor private final class CapturingAtDeinit {
  private let words: Words
  init(into words: Words) { self.words = words }
  isolated deinit { words.capture() }
}

/// One coroutine's words, at a fixed address.
// Unchecked: like the words of a coroutine, they are used by one thread at a time.
private final class Words: @unchecked Sendable {
  let pointer: UnsafeMutablePointer<swift_thread_state>

  init() {
    pointer = .allocate(capacity: 1)
    pointer.initialize(to: swift_thread_state())
  }

  deinit { pointer.deallocate() }

  static func captured() -> Words {
    let words = Words()
    words.capture()
    return words
  }

  static func captured(by offsets: SharedOffsets, expecting number: Int) -> Words {
    let words = Words()
    coroutine_thread_state_capture_at(offsets.pointer, words.pointer)
    words.expectBindings(number: number)
    return words
  }

  var isClear: Bool { pointer.pointee.access == 0 && pointer.pointee.task == 0 && pointer.pointee.locals == 0 }

  func entered<Result>(_ body: () -> Result) -> Result {
    coroutine_thread_state_enter(pointer)
    defer { coroutine_thread_state_leave(pointer) }
    return body()
  }

  /// A suspension inside `entered`.
  func left(_ body: () -> Void) {
    coroutine_thread_state_leave(pointer)
    defer { coroutine_thread_state_enter(pointer) }
    body()
  }

  /// Only the layout of the access list is known: the runtime's functions have to take it off the thread and put it
  /// on.
  static var noneButTheList: swift_thread_state_offsets {
    var offsets = swift_thread_state_offsets()
    offsets.found = COROUTINE_THREAD_STATE_ACCESS_LIST.rawValue
    return offsets
  }

  func enter(by offsets: inout swift_thread_state_offsets) {
    coroutine_thread_state_exchange_at(&offsets, pointer, true)
  }
  func leave(by offsets: inout swift_thread_state_offsets) {
    coroutine_thread_state_exchange_at(&offsets, pointer, false)
  }

  func capture() { pointer.pointee = coroutine_thread_state_with_locals(coroutine_thread_state_capture()) }

  func release() { coroutine_thread_state_release(pointer) }

  func expectBindings(number: Int, text: String = "", _ location: SourceLocation = #_sourceLocation) {
    entered {
      #expect(Local.number == number, sourceLocation: location)
      #expect(Local.text == text, sourceLocation: location)
    }
  }

  func expectBindingsAndRelease(number: Int, text: String = "", _ location: SourceLocation = #_sourceLocation) {
    expectBindings(number: number, text: text, location)
    release()
    #expect(isClear, sourceLocation: location)
  }
}

/// What the probe finds, for comparison.
private struct Offsets: Equatable {
  var values: [Int]

  init(_ offsets: swift_thread_state_offsets) {
    values = [offsets.access, offsets.task, offsets.locals, Int(offsets.found)]
  }

  static func probed() -> swift_thread_state_offsets {
    var result = swift_thread_state_offsets()
    coroutine_thread_state_probe(&result)
    return result
  }
}

// Unchecked: only `task_head` changes, atomically.
private final class SharedOffsets: @unchecked Sendable {
  let pointer: UnsafeMutablePointer<swift_thread_state_offsets>

  init() {
    pointer = .allocate(capacity: 1)
    pointer.initialize(to: Offsets.probed())
  }

  deinit { pointer.deallocate() }
}

/// A tracked modification that begins and ends when it is told to. Its node is in memory of its own, like that of an
/// access that is open on a suspended coroutine's stack.
// Unchecked: used by one thread at a time.
private final class Access: @unchecked Sendable {
  private typealias Begin =
    @convention(c) (UnsafeRawPointer, UnsafeMutableRawPointer, UInt, UnsafeRawPointer?) -> Void
  private typealias End = @convention(c) (UnsafeMutableRawPointer) -> Void

  // The types of the runtime's functions. They are ABI, as compiled code calls them.
  private static let begin = unsafeBitCast(dlsym(nil, "swift_beginAccess"), to: Begin.self)
  private static let end = unsafeBitCast(dlsym(nil, "swift_endAccess"), to: End.self)
  private static let size = 3 * MemoryLayout<UInt>.size

  private let node = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16)
  private let target = UnsafeMutableRawPointer.allocate(byteCount: 8, alignment: 8)

  var low: UnsafeRawPointer { UnsafeRawPointer(node) }
  var high: UnsafeRawPointer { UnsafeRawPointer(node) + Self.size }

  func begin() { Self.begin(target, node, 0x21, nil) }
  func end() { Self.end(node) }

  deinit {
    node.deallocate()
    target.deallocate()
  }
}

/// Only an access that the compiler tracks can modify its `value`.
private final class Box {
  var value = 0

  @inline(never) func modify(_ body: (inout Int) -> Void) { Self.modify(&value, body) }
  @inline(never) private static func modify(_ value: inout Int, _ body: (inout Int) -> Void) { body(&value) }
}
