import Context
import CoroutineTestSupport
import Foundation
import Glibc
import Testing

/// The contract of `ContextBackend`, held by every backend.
///
/// Not under sanitizers: at this level nobody tells them of the switches. The runtime does, and its suites run there.
@Suite(.ownThreads, .disabled(if: isSanitized, "the sanitizers are not told of bare switches"))
struct BackendConformanceTests {
  // MARK: Words and registers

  @Test(arguments: Backends.names)
  func wordsTravelBothWays(_ name: String) throws {
    func check<B: ContextBackend>(_: B.Type) throws {
      let fiber = try TestFiber<B> { fiber, first in
        var word = first
        while word != 0 { word = fiber.suspend(word * 2) }
      }
      fiber.start()
      for word in [1, 2, 77, UInt.max / 2] as [UInt] { #expect(fiber.resume(word) == word * 2) }
      #expect(fiber.resume(0) == .max)
      #expect(fiber.isFinished)
    }
    try check(Backends.named(name))
  }

  @Test(arguments: Backends.names)
  func aSuspendedContextHasRegistersOnItsOwnStackAndARunningOneHasItsResumers(_ name: String) throws {
    func check<B: ContextBackend>(_: B.Type) throws {
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
    try check(Backends.named(name))
  }

  @Test(arguments: Backends.names)
  func theLayoutLeadsToTheRegisters(_ name: String) throws {
    func check<B: ContextBackend>(_: B.Type) throws {
      let context = UnsafeMutablePointer<B.Context>.allocate(capacity: 1)
      let stack = try StackPool.default.allocate()
      defer {
        context.deallocate()
        StackPool.default.release(stack)
      }
      B.initialize(
        context, stack: UnsafeMutableRawBufferPointer(start: stack.limit, count: stack.size), resumer: context
      ) { _ in fatalError("it is never run") }
      // Where offsets don't tell there is none.
      guard let layout = B.layout else { return }
      func word(_ address: UnsafeRawPointer, _ offset: UInt) -> UInt {
        address.load(fromByteOffset: Int(offset), as: UInt.self)
      }
      #expect(word(context, layout.live) != 0)
      let base = layout.isIndirect ? UnsafeRawPointer(bitPattern: word(context, 0))! : UnsafeRawPointer(context)
      let registers = ContextRegisters(
        programCounter: word(base, layout.programCounter),
        stackPointer: layout.isIndirect
          ? UInt(bitPattern: base) + layout.stackPointer : word(base, layout.stackPointer),
        framePointer: word(base, layout.framePointer), baseRegister: layout.baseRegister.map { word(base, $0) } ?? 0)
      #expect(registers == B.registers(of: context))
      B.destroy(context)
      #expect(word(context, layout.live) == 0)
    }
    try check(Backends.named(name))
  }

  @Test(arguments: Backends.names)
  func theStackIsAlignedAtTheEntry(_ name: String) throws {
    func check<B: ContextBackend>(_: B.Type) throws {
      var sum = SIMD8<Float>(repeating: 0)
      let fiber = try TestFiber<B> { fiber, _ in
        var local = SIMD8<Float>(1, 2, 3, 4, 5, 6, 7, 8)
        withUnsafeMutablePointer(to: &local) {
          #expect(UInt(bitPattern: $0) % 16 == 0)
          $0.pointee += 1
        }
        _ = fiber.suspend()
        sum = local
      }
      fiber.start()
      _ = fiber.resume()
      _ = fiber.resume()
      #expect(sum.sum() == 44)
    }
    try check(Backends.named(name))
  }

  // MARK: What lives across a switch

  @Test(arguments: Backends.names)
  func errorsPropagateAcrossFramesOfAContext(_ name: String) throws {
    struct Deep: Error, Equatable { var depth: Int }
    @inline(never) func descend(_ depth: Int, _ suspend: () -> Void) throws {
      suspend()
      if depth == 0 { throw Deep(depth: 20) }
      try descend(depth - 1, suspend)
    }
    func check<B: ContextBackend>(_: B.Type) throws {
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
    try check(Backends.named(name))
  }

  @Test(arguments: Backends.names)
  func recursionGoesAsDeepAsTheStackAllows(_ name: String) throws {
    @inline(never) func descend(_ depth: Int, _ suspend: () -> Void) -> Int {
      if depth == 0 {
        suspend()
        return 0
      }
      return 1 + withExtendedLifetime(depth) { descend(depth - 1, suspend) }
    }
    func check<B: ContextBackend>(_: B.Type) throws {
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
    try check(Backends.named(name))
  }

  @Test(arguments: Backends.names)
  func floatingPointValuesSurviveWhileBothSidesCompute(_ name: String) throws {
    func check<B: ContextBackend>(_: B.Type) throws {
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
    try check(Backends.named(name))
  }

  /// One rule for all: it is the thread's, so what one side sets the other finds.
  @Test(arguments: Backends.names)
  func theRoundingModeIsTheThreads(_ name: String) throws {
    func check<B: ContextBackend>(_: B.Type) throws {
      let mode = fegetround()
      defer { fesetround(mode) }
      var found: [Int32] = []
      let fiber = try TestFiber<B> { fiber, _ in
        found.append(fegetround())
        fesetround(FE_DOWNWARD)
        _ = fiber.suspend()
        found.append(fegetround())
      }
      fiber.start()
      fesetround(FE_UPWARD)
      _ = fiber.resume()
      found.append(fegetround())
      fesetround(FE_TOWARDZERO)
      _ = fiber.resume()
      #expect(found == [FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO])
    }
    try check(Backends.named(name))
  }

  @Test(arguments: Backends.names)
  func genericsWitnessesAndExistentialsWorkOnBothSides(_ name: String) throws {
    func check<B: ContextBackend>(_: B.Type) throws {
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
    try check(Backends.named(name))
  }

  // MARK: Many, and elsewhere

  @Test(arguments: Backends.names)
  func aHundredContextsResumedInRandomOrderKeepApart(_ name: String) throws {
    func check<B: ContextBackend>(_: B.Type) throws {
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
    try check(Backends.named(name))
  }

  @Test(arguments: Backends.names)
  func aContextGoesOnOnAnotherThread(_ name: String) throws {
    func check<B: ContextBackend>(_: B.Type) throws {
      var threads: [UInt] = []
      let fiber = try TestFiber<B> { fiber, _ in
        for _ in 0..<3 {
          threads.append(UInt(pthread_self()))
          _ = fiber.suspend()
        }
      }
      fiber.start()
      // Handed over by a join: one thread at a time.
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
    try check(Backends.named(name))
  }

  @Test(arguments: Backends.names)
  func switchingInsideAnAsyncActorMethod(_ name: String) async throws {
    actor Counter {
      private var total: UInt = 0
      func add<B: ContextBackend>(_: B.Type) async throws -> UInt {
        let fiber = try TestFiber<B> { fiber, first in
          var word = first
          while word < 10 { word = fiber.suspend(word + 1) }
        }
        fiber.start()
        var word: UInt = 0
        while word != .max {
          total &+= word
          word = fiber.resume(word)
        }
        await Task.yield()
        return total
      }
    }
    func check<B: ContextBackend>(_ backend: B.Type) async throws {
      let counter = Counter()
      #expect(try await counter.add(backend) == 55)
      #expect(try await counter.add(backend) == 110)
    }
    try await check(Backends.named(name))
  }

  @Test(arguments: Backends.names)
  func symmetricSwitchingVisitsAWholeRing(_ name: String) throws {
    func check<B: ContextBackend>(_: B.Type) throws {
      try Ring<B>(size: 5).run(rounds: 100)
    }
    try check(Backends.named(name))
  }

  // MARK: Ends

  @Test(arguments: Backends.names)
  func aContextThatNeverRunsCostsOnlyItsStack(_ name: String) throws {
    final class Witness {}
    func check<B: ContextBackend>(_: B.Type) throws {
      weak var witness: Witness?
      do {
        let kept = Witness()
        witness = kept
        let fiber = try TestFiber<B> { _, _ in withExtendedLifetime(kept) {} }
        #expect(fiber.registers != nil)
      }
      #expect(witness == nil)
    }
    try check(Backends.named(name))
  }

  @Test(arguments: Backends.names)
  func aContextDestroyedWhileSuspendedLeavesItsStackReusable(_ name: String) throws {
    func check<B: ContextBackend>(_: B.Type) throws {
      for round in 0..<100 as Range<UInt> {
        let fiber = try TestFiber<B> { fiber, first in
          var word = first
          while true { word = fiber.suspend(word + 1) }
        }
        fiber.start()
        #expect(fiber.resume(round) == round + 1)
      }
    }
    try check(Backends.named(name))
  }
}

/// Contexts that hand a counter on to the next one, without going back to a resumer in between.
private final class Ring<Backend: ContextBackend> {
  private var contexts: UnsafeMutablePointer<Backend.Context>
  private var stacks: [Stack] = []
  private let size: Int
  private var visits: [Int]
  private var limit: UInt = 0

  init(size: Int) throws {
    self.size = size
    visits = Array(repeating: 0, count: size)
    // One more: the main side.
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
    // Each learns who it belongs to, and comes back at once.
    for index in 0..<size {
      starting = index
      _ = Backend.switchContext(from: contexts + size, to: contexts + index, passing: this)
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
      word =
        Backend.switchContext(
          from: contexts + index, to: contexts + next, passing: word == limit ? word : word + 1
        ).word
    }
  }
}
