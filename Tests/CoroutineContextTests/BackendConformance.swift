import CCoroutineContextTests
import CCoroutineUnwind
import Context
import Foundation
import Glibc
import Testing

/// The contract of `ContextBackend`, as checks of one backend `B`. A check records each fault that it finds as an
/// issue.
///
/// `BackendConformanceTests` runs the checks on each backend, `WrongBackendTests` on backends that are wrong on
/// purpose.
struct BackendConformance<B: TestedBackend> {
  /// All checks, by name.
  static var checks: KeyValuePairs<String, (Self) -> () throws -> Void> {
    [
      "words travel both ways": wordsTravelBothWays,
      "registers lie on the suspended sides stack": registersLieOnTheSuspendedSidesStack,
      "the layout leads to the registers": theLayoutLeadsToTheRegisters,
      "its code is named": itsCodeIsNamed,
      "the stack is aligned at the entry": theStackIsAlignedAtTheEntry,
      "preserved registers survive": preservedRegistersSurvive,
      "errors propagate across frames of a context": errorsPropagateAcrossFramesOfAContext,
      "recursion goes as deep as the stack allows": recursionGoesAsDeepAsTheStackAllows,
      "floating point values survive": floatingPointValuesSurvive,
      "the rounding mode is the threads": theRoundingModeIsTheThreads,
      "a backtrace of the running side ends": aBacktraceOfTheRunningSideEnds,
      "a backtrace of the suspended side ends": aBacktraceOfTheSuspendedSideEnds,
      "generics and existentials work on both sides": genericsAndExistentialsWorkOnBothSides,
      "a hundred contexts in random order keep apart": aHundredContextsInRandomOrderKeepApart,
      "a context goes on on another thread": aContextGoesOnOnAnotherThread,
      "symmetric switching visits a whole ring": symmetricSwitchingVisitsAWholeRing,
      "a context that never runs costs only its stack": aContextThatNeverRunsCostsOnlyItsStack,
      "a destroyed contexts stack is reusable": aDestroyedContextsStackIsReusable,
    ]
  }

  static var names: [String] { checks.map(\.key) }

  func check(_ name: String) throws {
    try Self.checks.first { $0.key == name }!.value(self)()
  }

  // MARK: Words and registers

  func wordsTravelBothWays() throws {
    let fiber = try TestFiber<B> { fiber, first in
      var word = first
      while word != 0 { word = fiber.suspend(word * 2) }
    }
    fiber.start()
    for word in [1, 2, 77, UInt.max / 2] as [UInt] { #expect(fiber.resume(word) == word * 2) }
    #expect(fiber.resume(0) == .max)
    #expect(fiber.isFinished)
  }

  func registersLieOnTheSuspendedSidesStack() throws {
    var whileRunning: ContextRegisters?
    var ran = false
    let fiber = try TestFiber<B> { fiber, _ in
      ran = fiber.isRunning
      whileRunning = fiber.resumerRegisters
      _ = fiber.suspend()
    }
    let new = try #require(fiber.registers)
    #expect(fiber.memory.contains(new.stackPointer) || new.stackPointer == UInt(bitPattern: fiber.memory.top))
    #expect(new.programCounter != 0)
    #expect(!fiber.isRunning)
    fiber.start()
    _ = fiber.resume()
    #expect(ran)
    let suspended = try #require(fiber.registers)
    #expect(fiber.memory.contains(suspended.stackPointer))
    #expect(suspended != new)
    #expect(fiber.resumerRegisters == nil)
    let resumer = try #require(whileRunning)
    #expect(!fiber.memory.contains(resumer.stackPointer))
    #expect(fiber.resume() == .max)
  }

  func theLayoutLeadsToTheRegisters() throws {
    try withContexts { here, there in
      B.initialize(there.context, stack: there.stack, resumer: here) { _ in fatalError("it is never run") }
      guard let layout = B.layout else {
        // Dumps of other processes, and of core files, would lack its backtraces.
        #expect(B.mayLackLayout, "the backend does not say where a context keeps its registers")
        return
      }
      func word(_ address: UnsafeRawPointer, _ offset: UInt) -> UInt {
        address.load(fromByteOffset: Int(offset), as: UInt.self)
      }
      #expect(word(there.context, layout.live) != 0)
      let base =
        layout.isIndirect ? UnsafeRawPointer(bitPattern: word(there.context, 0))! : UnsafeRawPointer(there.context)
      let registers = ContextRegisters(
        programCounter: word(base, layout.programCounter),
        stackPointer: layout.isIndirect
          ? UInt(bitPattern: base) + layout.stackPointer : word(base, layout.stackPointer),
        framePointer: word(base, layout.framePointer), baseRegister: layout.baseRegister.map { word(base, $0) } ?? 0)
      #expect(registers == B.registers(of: there.context))
      B.destroy(there.context)
      #expect(word(there.context, layout.live) == 0 && B.registers(of: there.context) == nil)
    }
  }

  /// Or else backtraces would show it. A context that never ran stands in that code.
  func itsCodeIsNamed() throws {
    #expect(B.code.module == String(reflecting: B.self).prefix { $0 != "." })
    #expect(!B.code.symbolPrefixes.isEmpty && !B.code.symbolPrefixes.contains(""))
    try withContexts { here, there in
      // Without some room at its upper end, as the runtime has it: what a new context has popped may be all that was there.
      let stack = UnsafeMutableRawBufferPointer(rebasing: there.stack[..<(there.stack.count - 256)])
      B.initialize(there.context, stack: stack, resumer: here) { _ in fatalError("it is never run") }
      let top = UInt(bitPattern: there.stack.baseAddress! + there.stack.count)
      let name = try innermostFunction(#require(B.registers(of: there.context)), top: top)
      #expect(B.code.symbolPrefixes.contains { name.hasPrefix($0) }, "a new context stands in \(name)")
    }
  }

  /// The function that these registers stand in, as the linker knows it. It is not inlined.
  private func innermostFunction(_ registers: ContextRegisters, top: UInt) throws -> String {
    let words = [registers.programCounter, registers.stackPointer, registers.framePointer, registers.baseRegister]
    let unwinder = try #require(coroutine_unwinder_create())
    defer { coroutine_unwinder_destroy(unwinder) }
    var address: UInt = 0
    #expect(coroutine_unwinder_walk(unwinder, words, top, &address, 1) == 1)
    let symbols = try #require(coroutine_symbols_open())
    defer { coroutine_symbols_close(symbols) }
    var image = symbol_image()
    return withUnsafeTemporaryAllocation(of: symbol.self, capacity: Int(symbols_most)) { found in
      let count = coroutine_symbols_find(symbols, address, &image, found.baseAddress!)
      return found[count - 1].function.map { String(cString: $0) } ?? "a function without a name"
    }
  }

  private typealias Contexts = UnsafeMutablePointer<B.Context>

  /// Gives `body` two contexts, of which the second has a stack, and destroys the second one afterwards.
  private func withContexts(
    _ body: (_ here: Contexts, _ there: (context: Contexts, stack: UnsafeMutableRawBufferPointer)) throws -> Void
  ) throws {
    let contexts = Contexts.allocate(capacity: 2)
    defer { contexts.deallocate() }
    let stack = try StackPool.default.allocate()
    defer { StackPool.default.release(stack) }
    defer { B.destroy(contexts + 1) }
    try body(contexts, (contexts + 1, UnsafeMutableRawBufferPointer(start: stack.limit, count: stack.size)))
  }

  /// Looks at the frame of a C function: a Swift function with over-aligned variables would align its stack itself.
  func theStackIsAlignedAtTheEntry() throws {
    var (atEntry, afterwards) = (UInt.max, UInt.max)
    let fiber = try TestFiber<B> { fiber, _ in
      atEntry = conformance_stack_misalignment()
      _ = fiber.suspend()
      afterwards = conformance_stack_misalignment()
    }
    fiber.start()
    _ = fiber.resume()
    _ = fiber.resume()
    #expect(atEntry == 0 && afterwards == 0)
  }

  // MARK: What lives across a switch

  /// A value lies in each register that a function has to preserve, on both sides, while the other side runs.
  func preservedRegistersSurvive() throws {
    let fiber = try TestFiber<B> { fiber, _ in
      let lost = conformance_registers_lost(1, B.suspending, fiber.link)
      _ = fiber.suspend(lost)
    }
    fiber.start()
    // Up to the first of the two suspensions, with other values in the registers; then to the second one.
    #expect(conformance_registers_lost(2, B.resuming, fiber.link) == 0)
    #expect(fiber.resume() == 0)
  }

  func errorsPropagateAcrossFramesOfAContext() throws {
    @inline(never) func descend(_ depth: Int, _ suspend: () -> Void) throws {
      suspend()
      if depth == 0 { throw Deep(depth: 20) }
      try descend(depth - 1, suspend)
    }
    var unwound = 0
    let fiber = try TestFiber<B> { fiber, _ in
      defer { unwound += 1 }
      do {
        try descend(20) { _ = fiber.suspend() }
      } catch let error as Deep {
        #expect(error == Deep(depth: 20))
        throw error
      }
    }
    fiber.start()
    for _ in 0..<21 { #expect(fiber.resume() == 0) }
    #expect(fiber.resume() == .max)
    #expect(fiber.error as? Deep == Deep(depth: 20))
    #expect(unwound == 1)
  }

  func recursionGoesAsDeepAsTheStackAllows() throws {
    @inline(never) func descend(_ depth: Int, _ suspend: () -> Void) -> Int {
      if depth == 0 {
        suspend()
        return 0
      }
      return 1 + withExtendedLifetime(depth) { descend(depth - 1, suspend) }
    }
    var depth = 0
    let fiber = try TestFiber<B>(stackSize: 16 << 20) { fiber, _ in
      depth = descend(10_000) { _ = fiber.suspend() }
    }
    fiber.start()
    _ = fiber.resume()
    let used = UInt(bitPattern: fiber.memory.top) - (fiber.registers?.stackPointer ?? 0)
    #expect(used > 10_000 * 16)
    _ = fiber.resume()
    #expect(depth == 10_000)
  }

  func floatingPointValuesSurvive() throws {
    var result = 0.0
    let fiber = try TestFiber<B> { fiber, _ in
      var (a, b, c, d) = (1.5, 2.5, Float(3.5), SIMD4<Double>(1, 2, 3, 4))
      for _ in 0..<1000 {
        a += 0.5
        b *= 1.0001
        c -= 0.25
        d += SIMD4(repeating: a)
        _ = fiber.suspend()
      }
      result = a + b + Double(c) + d.sum()
    }
    fiber.start()
    var (x, y) = (1.0, SIMD4<Double>(repeating: 1))
    while !fiber.isFinished {
      x *= 1.001
      y = y * 1.0001 + x
      _ = fiber.resume()
    }
    var (a, b, c, d) = (1.5, 2.5, Float(3.5), SIMD4<Double>(1, 2, 3, 4))
    for _ in 0..<1000 {
      a += 0.5
      b *= 1.0001
      c -= 0.25
      d += SIMD4(repeating: a)
    }
    #expect(result == a + b + Double(c) + d.sum())
    #expect(x.isFinite && y.sum().isFinite && y.sum() > 4)
  }

  /// The rounding mode belongs to the thread: each side finds what the other one has set. (On x86-64 `fegetround`
  /// looks at the x87 unit, which computes next to nothing.)
  func theRoundingModeIsTheThreads() throws {
    let mode = fegetround()
    defer { fesetround(mode) }
    var found: [Int32] = []
    let fiber = try TestFiber<B> { fiber, _ in
      found += [fegetround(), conformance_rounding_mode()]
      fesetround(FE_DOWNWARD)
      _ = fiber.suspend()
      found += [fegetround(), conformance_rounding_mode()]
    }
    fiber.start()
    fesetround(FE_UPWARD)
    _ = fiber.resume()
    found += [fegetround(), conformance_rounding_mode()]
    fesetround(FE_UPWARD)
    _ = fiber.resume()
    let (up, down): (Int32, Int32) = (FE_UPWARD, FE_DOWNWARD)
    #expect(found == [up, up, down, down, up, up])
  }

  // MARK: Backtraces

  /// By call frame information, as exceptions and debuggers do it.
  func aBacktraceOfTheRunningSideEnds() throws {
    var inside: [conformance_frame] = []
    let fiber = try TestFiber<B> { fiber, _ in
      descend(5) { inside = backtrace() }
    }
    fiber.start()
    var outside: [conformance_frame] = []
    descend(5) {
      outside = backtrace()
      _ = fiber.resume()
    }
    let stack = UInt(bitPattern: fiber.memory.limit)...fiber.upperBound
    let own = inside.prefix { stack.contains($0.place) }
    #expect(repetitions(own.map(\.address)) == 5)
    // Then nothing follows, or the resumer's frames. The resumer's innermost frames differ, as they belong to later
    // calls.
    let rest = inside.dropFirst(own.count).map(\.place)
    let common = zip(rest.reversed(), outside.map(\.place).reversed()).prefix { $0 == $1 }.count
    #expect(rest.isEmpty || (common > 5 && rest.count < common + 10 && outside.count < common + 10))
  }

  /// From the registers, by call frame information and by frame pointers.
  func aBacktraceOfTheSuspendedSideEnds() throws {
    let fiber = try TestFiber<B> { fiber, _ in
      descend(5) { _ = fiber.suspend() }
    }
    fiber.start()
    _ = fiber.resume()
    let registers = try #require(fiber.registers)
    let words = [registers.programCounter, registers.stackPointer, registers.framePointer, registers.baseRegister]
    let unwinder = try #require(coroutine_unwinder_create())
    defer { coroutine_unwinder_destroy(unwinder) }
    var addresses = [UInt](repeating: 0, count: 100)
    let count = coroutine_unwinder_walk(unwinder, words, fiber.upperBound, &addresses, addresses.count)
    #expect(repetitions(addresses[..<count]) == 5)
    // The closures, the functions of `TestFiber`, and two functions of the backend: about 30 in a debug build.
    #expect(count < 60)

    let stack = UInt(bitPattern: fiber.memory.limit)..<fiber.upperBound
    var (frame, callers) = (registers.framePointer, [UInt]())
    while stack.contains(frame), frame % 8 == 0, callers.count < 100 {
      let record = UnsafePointer<UInt>(bitPattern: frame)!
      callers.append(record[1])
      // The chain must lead outwards.
      frame = record[0] > frame ? record[0] : 0
    }
    #expect(repetitions(callers) == 5)
    _ = fiber.resume()
  }

  func genericsAndExistentialsWorkOnBothSides() throws {
    func largest<C: Collection>(of values: C, _ suspend: () -> Void) -> C.Element? where C.Element: Comparable {
      var best: C.Element?
      for value in values {
        suspend()
        if best.map({ value > $0 }) ?? true { best = value }
      }
      return best
    }
    var text: String?
    var shown: [String] = []
    let fiber = try TestFiber<B> { fiber, _ in
      text = largest(of: ["pear", "quince", "apple"]) { _ = fiber.suspend() }
      let things: [any CustomStringConvertible] = [1, "two", 3.0]
      for thing in things {
        _ = fiber.suspend()
        shown.append(thing.description)
      }
    }
    fiber.start()
    while !fiber.isFinished { _ = fiber.resume() }
    #expect(text == "quince")
    #expect(shown == ["1", "two", "3.0"])
  }

  // MARK: Many, and elsewhere

  func aHundredContextsInRandomOrderKeepApart() throws {
    var sums = [UInt](repeating: 0, count: 100)
    let fibers = try (0..<100).map { index in
      try TestFiber<B> { fiber, first in
        var word = first
        var numbers = [UInt(index)]
        while word != 0 {
          numbers.append(word)
          sums[index] = numbers.reduce(0, &+)
          word = fiber.suspend(numbers.last! &+ UInt(index))
        }
      }
    }
    for fiber in fibers { fiber.start() }
    var expected = (0..<100).map { UInt($0) }
    var generator = SystemRandomNumberGenerator()
    for _ in 0..<20_000 {
      let index = Int.random(in: 0..<100, using: &generator)
      let word = UInt.random(in: 1...1000, using: &generator)
      expected[index] &+= word
      #expect(fibers[index].resume(word) == word &+ UInt(index))
    }
    for fiber in fibers { #expect(fiber.resume(0) == .max) }
    let seen = sums.enumerated().map { $1 == 0 ? UInt($0) : $1 }
    #expect(seen == expected)
  }

  func aContextGoesOnOnAnotherThread() throws {
    var threads: [UInt] = []
    let fiber = try TestFiber<B> { fiber, _ in
      for _ in 0..<3 {
        threads.append(UInt(pthread_self()))
        _ = fiber.suspend()
      }
    }
    fiber.start()
    // Passed on by a join: one thread at a time.
    nonisolated(unsafe) let handedOver = fiber
    for _ in 0..<3 {
      let done = DispatchSemaphore(value: 0)
      Thread {
        _ = handedOver.resume()
        done.signal()
      }.start()
      done.wait()
    }
    #expect(threads.count == 3)
    #expect(!threads.contains(UInt(pthread_self())))
    #expect(fiber.resume() == .max)
  }

  func symmetricSwitchingVisitsAWholeRing() throws {
    try Ring<B>(size: 5).run(rounds: 100)
  }

  // MARK: Ends

  func aContextThatNeverRunsCostsOnlyItsStack() throws {
    weak var witness: Witness?
    do {
      let kept = Witness()
      witness = kept
      let fiber = try TestFiber<B> { _, _ in withExtendedLifetime(kept) {} }
      #expect(fiber.registers != nil)
    }
    #expect(witness == nil)
  }

  func aDestroyedContextsStackIsReusable() throws {
    for round in 0..<100 as Range<UInt> {
      let fiber = try TestFiber<B> { fiber, first in
        var word = first
        while true { word = fiber.suspend(word + 1) }
      }
      fiber.start()
      #expect(fiber.resume(round) == round + 1)
    }
  }
}

extension BackendConformance {
  /// The entry function returns, which must end the process. So it is no check by name, but the body of an exit test.
  static func letTheEntryReturn() {
    let contexts = UnsafeMutablePointer<B.Context>.allocate(capacity: 2)
    let stack = try! StackPool.default.allocate()
    B.initialize(
      contexts + 1, stack: UnsafeMutableRawBufferPointer(start: stack.limit, count: stack.size), resumer: contexts
    ) { _ in }
    _ = B.switchContext(from: contexts, to: contexts + 1, passing: 0)
  }
}

extension ExitTest.Condition {
  /// How a process ends that traps: by an instruction that is not defined, or by a breakpoint.
  static var trap: Self {
    #if arch(x86_64)
      .signal(SIGILL)
    #else
      .signal(SIGTRAP)
    #endif
  }
}

private struct Deep: Error, Equatable { var depth: Int }

private final class Witness {}

/// Calls `body` below a recursion of `depth` calls, in C: Swift's optimiser would turn the recursion into a loop.
private func descend(_ depth: Int32, _ body: () -> Void) {
  withoutActuallyEscaping(body) { body in
    var body = body
    withUnsafeMutablePointer(to: &body) { place in
      conformance_descend(depth, { $0!.assumingMemoryBound(to: (() -> Void).self).pointee() }, place)
    }
  }
}

/// How often the most frequent address occurs.
private func repetitions(_ addresses: some Sequence<UInt>) -> Int {
  Dictionary(addresses.map { ($0, 1) }, uniquingKeysWith: +).values.max() ?? 0
}

private func backtrace() -> [conformance_frame] {
  [conformance_frame](unsafeUninitializedCapacity: 200) { frames, count in
    count = conformance_backtrace(frames.baseAddress, frames.count)
  }
}

/// Contexts that pass a counter on to the next one, without going back to a resumer in between.
private final class Ring<Backend: ContextBackend> {
  private var contexts: UnsafeMutablePointer<Backend.Context>
  private var stacks: [Stack] = []
  private let size: Int
  private var visits: [Int]
  private var limit: UInt = 0

  init(size: Int) throws {
    self.size = size
    visits = Array(repeating: 0, count: size)
    // One more, for the main side.
    contexts = .allocate(capacity: size + 1)
    for index in 0..<size {
      let stack = try StackPool.default.allocate()
      stacks.append(stack)
      Backend.initialize(
        contexts + index, stack: UnsafeMutableRawBufferPointer(start: stack.limit, count: stack.size),
        resumer: contexts + size
      ) { word in
        let ring = Unmanaged<AnyObject>.fromOpaque(UnsafeRawPointer(bitPattern: word)!)
        ring._withUnsafeGuaranteedRef { ($0 as! any RingMember).visit() as Void }
      }
    }
  }

  deinit {
    for index in 0..<size {
      Backend.destroy(contexts + index)
      StackPool.default.release(stacks[index])
    }
    contexts.deallocate()
  }

  func run(rounds: Int) {
    limit = UInt(rounds * size)
    let this = UInt(bitPattern: Unmanaged.passUnretained(self as AnyObject).toOpaque())
    // Each context learns its index, and comes back at once.
    for index in 0..<size {
      starting = index
      let arrival = Backend.switchContext(from: contexts + size, to: contexts + index, passing: this)
      #expect(arrival.departed == contexts + index)
    }
    let last = Backend.switchContext(from: contexts + size, to: contexts, passing: 1).word
    #expect(last == limit)
    #expect(visits == Array(repeating: rounds, count: size))
  }

  fileprivate var starting = 0
}

private protocol RingMember {
  func visit()
}

extension Ring: RingMember {
  fileprivate func visit() {
    let index = starting
    var word = Backend.switchContext(from: contexts + index, to: contexts + size, passing: 0).word
    while true {
      visits[index] += 1
      let next = word == limit ? size : (index + 1) % size
      let arrival = Backend.switchContext(
        from: contexts + index, to: contexts + next, passing: word == limit ? word : word + 1)
      // From the context before this one, or from the main side, which begins the ring.
      #expect(arrival.departed == contexts + (arrival.word == 1 ? size : (index + size - 1) % size))
      word = arrival.word
    }
  }
}
