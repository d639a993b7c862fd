import Coroutine
import CoroutineTestSupport
import Dispatch
import Foundation
import Testing

@Suite(.ownThreads) struct GeneratorTests {
  @Test func itSaysWhatItsBodyIsDoing() throws {
    let numbers = Generator<Int> { yield in try yield(1) }
    #expect("\(numbers)" == "a generator, ready")
    _ = numbers.next()
    #expect("\(numbers)" == "a generator, suspended")
    _ = numbers.next()
    #expect("\(numbers)" == "a generator, finished")
    #expect("\(ThrowingGenerator<Int> { _ in })" == "a generator, ready")
    #expect("\(TwoWayGenerator<Int, Int, Void> { _ in })" == "a generator, ready")
    #expect("\(AsyncGenerator<Int>(name: "numbers") { _ in })" == "generator \"numbers\"")
  }

  final class Tree {
    let value: Int
    let children: [Tree]
    init(_ value: Int, _ children: [Tree] = []) {
      self.value = value
      self.children = children
    }
    func walk(_ yield: Generator<Int>.Yield) throws {
      for child in children { try child.walk(yield) }
      try yield(value)
    }
    static func complete(_ depth: Int) -> Tree {
      Tree(depth, depth == 0 ? [] : [complete(depth - 1), complete(depth - 1)])
    }
  }

  struct Problem: Error, Equatable {}

  // MARK: A sequence

  @Test func nothingRunsBeforeTheFirstElementAndNothingAfterTheLast() {
    let log = Log()
    let generator = Generator<Int> { yield in
      log.add("begins")
      try yield(1)
      log.add("goes on")
      try yield(2)
      log.add("ends")
    }
    #expect(log.all == [])
    #expect(generator.next() == 1)
    #expect(log.all == ["begins"])
    #expect(generator.next() == 2)
    #expect(log.all == ["begins", "goes on"])
    #expect(generator.next() == nil)
    #expect(generator.next() == nil)
    #expect(log.all == ["begins", "goes on", "ends"])
  }

  @Test func theUsualSequenceOperationsWork() {
    func numbers() -> Generator<Int> {
      Generator { yield in
        var (a, b) = (0, 1)
        for _ in 0..<60 {
          try yield(a)
          (a, b) = (b, a &+ b)
        }
      }
    }
    #expect(Array(numbers().prefix(8)) == [0, 1, 1, 2, 3, 5, 8, 13])
    #expect(numbers().lazy.filter { $0 % 2 == 0 }.prefix(4).map { $0 } == [0, 2, 8, 34])
    #expect(zip(1...3, numbers()).map { $0 + $1 } == [1, 3, 4])
    #expect(numbers().first { $0 > 100 } == 144)
  }

  @Test func copiesShareOnePosition() {
    let generator = Generator<Int> { yield in for value in 0..<4 { try yield(value) } }
    let copy = generator
    #expect(generator.next() == 0)
    #expect(copy.next() == 1)
    #expect(Array(generator) == [2, 3])
    #expect(copy.next() == nil)
  }

  @Test func elementsOfEveryShapeArrive() {
    struct Large: Equatable { var a = 1, b = "two", c = 3.0, d: [Int] = [4], e = 5 as UInt8 }
    enum Empty: Equatable { case only }
    func same<T: Equatable>(_ values: [T]) -> Bool {
      Array(Generator<T> { yield in for value in values { try yield(value) } }) == values
    }
    #expect(same([1, 2, 3]))
    #expect(same([1, 2, 3] as [UInt8]))
    #expect(same([1.5, -0.0, .infinity]))
    #expect(same([true, false]))
    #expect(same([Empty.only, .only]))
    #expect(same([1, nil, 3] as [Int?]))
    #expect(same([1, nil] as [UInt32?]))
    #expect(same(["a", "a string that does not fit into fifteen bytes"]))
    #expect(same([Large(), Large(a: 7)]))
    #expect(same([SIMD8<Double>(repeating: 2)]))
    #expect(same([[1], [], [2, 3]]))
    #expect(Array(Generator<Void> { yield in for _ in 0..<3 { try yield(()) } }).count == 3)
  }

  @Test func elementsAreReleased() {
    final class Witness {
      nonisolated(unsafe) static var live = 0  // used by this test's one thread
      init() { Witness.live += 1 }
      deinit { Witness.live -= 1 }
    }
    func run() {
      let generator = Generator<Witness> { yield in
        let kept = Witness()
        try yield(kept)
        for _ in 0..<10 { try yield(Witness()) }
      }
      var count = 0
      for _ in generator { count += 1 }
      #expect(count == 11)
    }
    run()
    #expect(Witness.live == 0)
  }

  /// A cancelled body that yields on. Its elements travel in the word, or in the slot.
  @Test func elementsThatAreNotReceivedAreReleased() {
    final class Witness {
      nonisolated(unsafe) static var live = 0  // used by this test's one thread
      init() { Witness.live += 1 }
      deinit { Witness.live -= 1 }
    }
    struct Holder {
      let witness: Witness
      let others: (Int, Int) = (1, 2)
    }
    func run<Element>(_ make: @escaping () -> Element) {
      var refused = 0
      let generator = Generator<Element> { yield in
        for _ in 0..<5 { do { try yield(make()) } catch { refused += 1 } }
      }
      #expect(generator.next() != nil)
      generator.cancel()
      #expect(refused == 5)
      #expect(Witness.live == 0)
    }
    /// Takes elements, and does not use them.
    @inline(__always)
    func drop<Element>(_ make: @escaping () -> Element) {
      let generator = Generator<Element> { yield in while true { try yield(make()) } }
      for _ in 0..<3 { _ = generator.next() }
      _ = generator.next()
      _ = generator.next()
    }
    drop { Witness() }
    #expect(Witness.live == 0)
    drop { Witness() as AnyObject }
    #expect(Witness.live == 0)
    drop { [Witness()] }
    #expect(Witness.live == 0)
    drop { Optional(Witness()) }
    #expect(Witness.live == 0)
    drop { Holder(witness: Witness()) }
    #expect(Witness.live == 0)
    dropUnspecialised { Witness() }
    dropUnspecialised { [Witness()] }
    dropUnspecialised { Witness() as AnyObject }
    #expect(Witness.live == 0)
    run { Witness() }
    run { Witness() as AnyObject }
    run { [Witness()] }
    run { Optional(Witness()) }
    run { Holder(witness: Witness()) }
    run { { [witness = Witness()] in withExtendedLifetime(witness) {} } }
  }

  /// A loop may use the last element's block for the next one, if nothing has changed it meanwhile.
  @Test func whatALoopDoesBetweenTwoElementsCounts() {
    let cancelled = Generator<Int> { yield in for index in 0... { try yield(index) } }
    var elements: [Int] = []
    for element in cancelled {
      elements.append(element)
      if element == 3 { cancelled.cancel() }
    }
    #expect(elements == [0, 1, 2, 3])

    // The body itself cancels its generator, and goes on to yield.
    var itself: Generator<Int>?
    itself = Generator { yield in
      for index in 0..<10 {
        if index == 3 { itself?.cancel() }
        try yield(index)
      }
    }
    var sum = 0
    for element in itself! { sum += element }
    #expect(sum == 3)
    itself = nil

    // The elements of another generator come in between, from another block.
    let inner = Generator<Int> { yield in for index in 100..<103 { try yield(index) } }
    let outer = Generator<Int> { yield in
      try yield(1)
      try yield(from: inner)
      try yield(2)
    }
    sum = 0
    for element in outer { sum += element }
    #expect(sum == 306)

    // Two loops over the same generator.
    let shared = Generator<Int> { yield in for index in 0..<10 { try yield(index) } }
    sum = 0
    for element in shared {
      sum += element
      for next in shared {
        sum += next
        if next == 5 { break }
      }
    }
    #expect(sum == 45)
  }

  // MARK: Yielding from anywhere

  @Test func recursion() {
    let tree = Tree.complete(10)
    var plain: [Int] = []
    func walk(_ tree: Tree) {
      for child in tree.children { walk(child) }
      plain.append(tree.value)
    }
    walk(tree)
    #expect(Array(Generator { yield in try tree.walk(yield) }) == plain)
  }

  @Test func closuresOfTheStandardLibrary() {
    // swift-format-ignore: ReplaceForEachWithForLoop
    let each = Generator<Int> { yield in try [1, 2].forEach { try yield($0) } }
    #expect(Array(each) == [1, 2])
    let mapped = Generator<Int> { yield in
      let doubled = try [1, 2].map { value -> Int in
        try yield(value)
        return value * 2
      }
      for value in doubled { try yield(value) }
    }
    #expect(Array(mapped) == [1, 2, 2, 4])
    let comparisons = Generator<Int> { yield in
      let sorted = try [3, 1, 2].sorted {
        try yield(-1)
        return $0 < $1
      }
      for value in sorted { try yield(value) }
    }
    let all = Array(comparisons)
    #expect(all.suffix(3) == [1, 2, 3])
    #expect(all.dropLast(3).allSatisfy { $0 == -1 } && all.count > 4)
  }

  /// The `yield` that `qsort`'s callback calls: the callback has no context parameter.
  nonisolated(unsafe) private static var comparing: Generator<Int>.Yield?  // this suite's one test at a time

  /// Sorts by C's `qsort`, and yields both numbers of each comparison from its callback.
  private static func sort(_ numbers: inout [Int32], _ yield: Generator<Int>.Yield) {
    comparing = yield
    qsort(&numbers, numbers.count, MemoryLayout<Int32>.size) { left, right in
      let (a, b) = (left!.load(as: Int32.self), right!.load(as: Int32.self))
      // A C function can't throw: after a cancel it runs to its end, without suspending.
      try? GeneratorTests.comparing!(Int(a) * 100 + Int(b))
      return a < b ? -1 : 1
    }
  }

  @Test func callbacksOfCFunctions() {
    func sorting() -> Generator<Int> {
      Generator { yield in
        var numbers: [Int32] = [5, 3, 9, 1]
        GeneratorTests.sort(&numbers, yield)
        for number in numbers { try yield(Int(number)) }
      }
    }
    let all = Array(sorting())
    #expect(all.suffix(4) == [1, 3, 5, 9])
    #expect(all.dropLast(4).allSatisfy { $0 > 100 } && all.count > 4)
    let half = sorting()
    #expect(half.next() == all.first)
    half.cancel()
    #expect(half.next() == nil)
  }

  /// With a context parameter no global variable is needed.
  @Test func theCallbackOfQsortR() {
    func sorting(_ numbers: [Int32]) -> Generator<Int> {
      Generator { yield in
        var (numbers, yield) = (numbers, yield)
        CLibrary.qsortR(
          &numbers, numbers.count, MemoryLayout<Int32>.size,
          { left, right, context in
            let (a, b) = (left!.load(as: Int32.self), right!.load(as: Int32.self))
            try? context!.load(as: Generator<Int>.Yield.self)(Int(a) * 100 + Int(b))
            return a < b ? -1 : 1
          }, &yield)
        for number in numbers { try yield(Int(number)) }
      }
    }
    let all = Array(sorting([5, 3, 9, 1]))
    #expect(all.suffix(4) == [1, 3, 5, 9])
    #expect(all.dropLast(4).allSatisfy { $0 > 100 } && all.count > 4)
    let half = sorting([2, 1, 3])
    #expect(half.next() != nil)
    half.cancel()
    #expect(half.next() == nil)
  }

  /// The `yield` that `nftw`'s callback calls: the callback has no context parameter either.
  nonisolated(unsafe) private static var visiting: Generator<String>.Yield?  // this suite's one test at a time

  @Test func theCallbackOfNftw() throws {
    let root = FileManager.default.temporaryDirectory.appendingPathComponent("generator-\(getpid())")
    try FileManager.default.createDirectory(at: root.appendingPathComponent("a/b"), withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: root) }
    for name in ["1", "a/2", "a/b/3"] { try Data().write(to: root.appendingPathComponent(name)) }
    func walk() -> Generator<String> {
      Generator(stackSize: 1 << 20) { yield in
        GeneratorTests.visiting = yield
        // The walk ends early when the callback asks for it, which is how C code passes an error on.
        _ = CLibrary.nftw(
          root.path,
          { path, _, kind, _ in
            guard kind == CLibrary.fileKind else { return 0 }
            do { try GeneratorTests.visiting!(String(cString: path!)) } catch { return 1 }
            return 0
          }, 8, CLibrary.withoutLinks)
      }
    }
    #expect(Set(walk().map { $0.dropFirst(root.path.count + 1) }) == ["1", "a/2", "a/b/3"])
    let half = walk()
    #expect(half.next() != nil)
    half.cancel()
    #expect(half.next() == nil)
  }

  @Test func mutatingSortsOfTheStandardLibrary() {
    let generator = Generator<Int> { yield in
      var numbers = [3, 1, 2]
      try numbers.sort {
        try yield($0 * 10 + $1)
        return $0 < $1
      }
      for number in numbers { try yield(number) }
    }
    #expect(Array(generator).suffix(3) == [1, 2, 3])
  }

  @Test func whatIsYieldedIsComputedOnlyWhenAskedFor() {
    let log = Log()
    func computed(_ value: Int) -> Int {
      log.add("computed \(value)")
      return value
    }
    let generator = Generator<Int> { yield in
      try yield(computed(1))
      try yield(computed(2))
    }
    #expect(log.all == [])
    #expect(generator.next() == 1)
    #expect(log.all == ["computed 1"])
    generator.cancel()
    #expect(log.all == ["computed 1"])
  }

  @Test func takeLeavesTheRest() {
    let generator = Generator<Int> { yield in for value in 0..<5 { try yield(value) } }
    #expect(generator.take(0) == [])
    #expect(generator.take(2) == [0, 1])
    #expect(generator.take(9) == [2, 3, 4])
    #expect(generator.take(1) == [])
  }

  @Test func aLoopThatIsLeftCanBeGoneOnWith() {
    let generator = Generator<Int> { yield in for value in 0... { try yield(value) } }
    for value in generator where value == 2 { break }
    for value in generator.prefix(2) { #expect(value == 3 || value == 4) }
    #expect(generator.next() == 5)
  }

  @Test func generatorsConsumeGenerators() {
    let generator = Generator<Int> { yield in
      for outer in 1...3 {
        for inner in Generator<Int>({ yield in for value in 0..<outer { try yield(value) } }) {
          try yield(outer * 10 + inner)
        }
      }
    }
    #expect(Array(generator) == [10, 20, 21, 30, 31, 32])
  }

  @Test func anInnerBodyYieldsForTheOuterOne() {
    let generator = Generator<Int> { outer in
      let inner = Generator<String> { inner in
        try outer(1)
        try inner("a")
        try outer(2)
      }
      #expect(inner.next() == "a")
      try outer(10)
      #expect(inner.next() == nil)
    }
    #expect(Array(generator) == [1, 10, 2])
  }

  // MARK: Where it runs

  @Test func itMovesToAnotherThreadBetweenTwoElements() {
    let generator = Generator<Int> { yield in
      var count = 0
      while true {
        count += 1
        try yield(count)
      }
    }
    #expect(generator.next() == 1)
    // Passed on by the queue: one thread at a time.
    nonisolated(unsafe) let moved = generator
    let queue = DispatchQueue(label: "another thread")
    #expect(queue.sync { moved.next() } == 2)
    #expect(DispatchQueue.global().sync { moved.next() } == 3)
    #expect(generator.next() == 4)
  }

  @Test func waitingInsideABodySuspendsTheConsumer() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    let main = Coroutine(on: queue) {
      let channel = Channel<Int>()
      let consumer = Coroutine {
        let generator = Generator<Int> { yield in
          while true {
            let inner = Generator<Int> { yield in
              for value in channel.received { try yield(value) }
            }
            for value in inner { try yield(value * 10) }
            return
          }
        }
        for value in generator { log.add("consumed \(value)") }
      }
      Coroutine.yield()
      for value in 1...3 {
        log.add("send \(value)")
        try channel.send(value)
      }
      channel.close()
      try consumer.get()
    }
    try await main.get()
    #expect(log.all.filter { $0.hasPrefix("consumed") } == ["consumed 10", "consumed 20", "consumed 30"])
    #expect(log.all.first == "send 1")
  }

  @Test func generatorsInsideManyCoroutinesMigrate() async throws {
    let coroutines = (0..<50).map { index in
      Coroutine { () -> Int in
        let generator = Generator<Int> { yield in
          for value in 0..<100 {
            Coroutine.yield()
            try yield(value &+ index)
          }
        }
        return generator.reduce(0, +)
      }
    }
    for (index, coroutine) in coroutines.enumerated() {
      #expect(try await coroutine.get() == 4950 + index * 100)
    }
  }

  @Test func anElementMayBeLargerThanAPage() {
    typealias Large = InlineArray<2000, UInt64>
    let neighbours = (0..<4).map { _ in Generator<Large> { yield in try yield(Large(repeating: 7)) } }
    for generator in neighbours { #expect(generator.next().map { $0[1999] } == 7) }
    for generator in neighbours { for _ in generator { Issue.record("one element too many") } }
  }

  @Test func anElementMayBeLargerThanADefaultStack() {
    typealias Huge = InlineArray<40_000, UInt64>
    func first(_ generator: Generator<Huge>) -> UInt64? {
      for element in generator { return element[39_999] }
      return nil
    }
    // Frames that copy such an element need room themselves.
    #expect(first(Generator<Huge>(stackSize: 8 << 20) { yield in try yield(Huge(repeating: 9)) }) == 9)
  }

  /// One side is generic code that the compiler has not specialised. Both must agree on how an element travels.
  @Test func unspecialisedCodeGetsTheSameElements() {
    let object = Object()
    let objects = collect(Generator<Object> { yield in for _ in 0..<3 { try yield(object) } })
    #expect(objects.count == 3 && ObjectIdentifier(objects[2]) == ObjectIdentifier(object))
    let reference: AnyObject = object
    let references = collect(Generator<AnyObject> { yield in try yield(reference) })
    #expect(references.count == 1 && ObjectIdentifier(references[0]) == ObjectIdentifier(object))
    let optionals = collect(Generator<Object?> { yield in try yield(object) })
    #expect(optionals.count == 1 && optionals[0].map(ObjectIdentifier.init) == ObjectIdentifier(object))
    let holders = collect(Generator<ObjectHolder> { yield in try yield(ObjectHolder(object: object)) })
    #expect(holders.count == 1 && ObjectIdentifier(holders[0].object) == ObjectIdentifier(object))
    #expect(collect(Generator<Int> { try $0(7) }) == [7])
    #expect(collect(Generator<String> { try $0("a text that lies in the heap") }) == ["a text that lies in the heap"])
    #expect(collect(Generator<[Int]> { try $0([1, 2]) }) == [[1, 2]])
    for element in repeated(object) { #expect(ObjectIdentifier(element) == ObjectIdentifier(object)) }
    for element in repeated(reference) { #expect(ObjectIdentifier(element) == ObjectIdentifier(object)) }
    for element in repeated(Optional(object)) {
      #expect(element.map(ObjectIdentifier.init) == ObjectIdentifier(object))
    }
    for element in repeated(ObjectHolder(object: object)) {
      #expect(ObjectIdentifier(element.object) == ObjectIdentifier(object))
    }
    for element in repeated(7) { #expect(element == 7) }
    // One word, whose bits must not be moved, as the runtime knows the address of each weak reference.
    let observers = collect(Generator<Observer> { yield in for _ in 0..<3 { try yield(Observer(object: object)) } })
    #expect(observers.allSatisfy { $0.object.map(ObjectIdentifier.init) == ObjectIdentifier(object) })
    for element in repeated(Observer(object: object)) {
      #expect(element.object.map(ObjectIdentifier.init) == ObjectIdentifier(object))
    }
    // Existentials: an object is one word; an error is one word that is no Swift object.
    let bounded = collect(Generator<any Base & Sendable> { yield in for _ in 0..<3 { try yield(Derived()) } })
    #expect(bounded.count == 3 && bounded.allSatisfy { $0 is Derived })
    for element in repeated(Derived() as any Base & Sendable) { #expect(element is Derived) }
    let errors = collect(Generator<any Error> { yield in for _ in 0..<3 { try yield(GeneratorTestsError()) } })
    #expect(errors.count == 3 && errors.allSatisfy { $0 is GeneratorTestsError })
    for element in repeated(GeneratorTestsError() as any Error) { #expect(element is GeneratorTestsError) }
    // This code knows that an element is an object, though the type `AnyObject` has no class.
    let known = collectObjects(Generator<AnyObject> { yield in try yield(reference) })
    for element in known + collectObjects(repeated(reference)) {
      #expect(ObjectIdentifier(element) == ObjectIdentifier(object))
    }
    for element in repeatedObject(reference) { #expect(ObjectIdentifier(element) == ObjectIdentifier(object)) }
    for element in collect(repeatedObject(reference)) { #expect(ObjectIdentifier(element) == ObjectIdentifier(object)) }
    for element in collectObjects(repeatedObject(object)) { #expect(element === object) }
  }

  @Test func aYieldThatEscapedTrapsByName() async {
    let suspended = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      nonisolated(unsafe) var saved: Generator<Int>.Yield?
      let generator = Generator<Int> { yield in
        saved = yield
        try yield(1)
      }
      _ = generator.next()
      try saved!(2)
    }
    #expect(
      suspended.map { String(decoding: $0.standardErrorContent, as: UTF8.self) }?.contains("outside of its body")
        == true)
    let reused = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      nonisolated(unsafe) var saved: Generator<Int>.Yield?
      func run() { for _ in Generator<Int>({ yield in saved = yield }) {} }
      run()
      let other = Generator<String> { yield in
        try saved!(2)
        try yield("unreachable")
      }
      _ = other.next()
    }
    #expect(
      reused.map { String(decoding: $0.standardErrorContent, as: UTF8.self) }?.contains("outside of its body") == true)
  }

  @Test func nextFromInsideItsOwnBodyTraps() async {
    let exit1 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      nonisolated(unsafe) var handle: Generator<Int>?
      let generator = Generator<Int> { yield in try yield(handle?.next() ?? 0) }
      handle = generator
      _ = generator.next()
    }
    #expect(standardError(of: exit1).contains("called from inside its own body"))
  }

  @Test func suspendingInABodyThatNoCoroutineConsumesTraps() async {
    let exit2 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let generator = Generator<Int> { yield in Coroutine.yield() }
      _ = generator.next()
    }
    #expect(standardError(of: exit2).contains("no coroutine runs here"))
  }
}

/// Functions of the C library that its Swift module does not have.
private enum CLibrary {
  typealias Compare = @convention(c) (UnsafeRawPointer?, UnsafeRawPointer?, UnsafeMutableRawPointer?) -> Int32
  typealias QsortR =
    @convention(c) (
      UnsafeMutableRawPointer?, Int, Int, Compare, UnsafeMutableRawPointer?
    ) -> Void
  typealias Visit = @convention(c) (UnsafePointer<CChar>?, UnsafeRawPointer?, Int32, UnsafeMutableRawPointer?) -> Int32
  typealias Nftw = @convention(c) (UnsafePointer<CChar>, Visit, Int32, Int32) -> Int32

  static let fileKind: Int32 = 0
  static let withoutLinks: Int32 = 1

  static func qsortR(
    _ base: UnsafeMutableRawPointer?, _ count: Int, _ size: Int, _ compare: Compare,
    _ context: UnsafeMutableRawPointer?
  ) {
    // The type that <stdlib.h> declares.
    unsafeBitCast(dlsym(nil, "qsort_r"), to: QsortR.self)(base, count, size, compare, context)
  }

  static func nftw(_ path: String, _ visit: Visit, _ descriptors: Int32, _ flags: Int32) -> Int32 {
    // The type that <ftw.h> declares.
    unsafeBitCast(dlsym(nil, "nftw"), to: Nftw.self)(path, visit, descriptors, flags)
  }
}

private final class Object: Sendable {}

private class Base {}

// A class without properties.
private final class Derived: Base, @unchecked Sendable {}

private struct GeneratorTestsError: Error {}

private struct Observer {
  weak var object: Object?
}

private struct ObjectHolder {
  let object: Object
}

@_semantics("optimize.sil.specialize.generic.never") @inline(never)
private func collect<Element>(_ generator: Generator<Element>) -> [Element] {
  var elements: [Element] = []
  while let element = generator.next() { elements.append(element) }
  return elements
}

@_semantics("optimize.sil.specialize.generic.never") @inline(never)
private func dropUnspecialised<Element>(_ make: @escaping () -> Element) {
  let generator = Generator<Element> { yield in while true { try yield(make()) } }
  for _ in 0..<3 { _ = generator.next() }
  _ = generator.next()
}

@_semantics("optimize.sil.specialize.generic.never") @inline(never)
private func repeated<Element>(_ element: Element) -> Generator<Element> {
  Generator { yield in for _ in 0..<3 { try yield(element) } }
}

@_semantics("optimize.sil.specialize.generic.never") @inline(never)
private func collectObjects<Element: AnyObject>(_ generator: Generator<Element>) -> [Element] {
  var elements: [Element] = []
  while let element = generator.next() { elements.append(element) }
  return elements
}

@_semantics("optimize.sil.specialize.generic.never") @inline(never)
private func repeatedObject<Element: AnyObject>(_ element: Element) -> Generator<Element> {
  Generator { yield in for _ in 0..<3 { try yield(element) } }
}
