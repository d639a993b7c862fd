import Context
import ContextASM
import ContextUcontext

#if CONTEXT_BACKEND_BOOST
  import ContextBoost
#endif

/// The backends that this build can test: all of them when the Boost trait is on.
enum Backends {
  static var all: [any ContextBackend.Type] {
    #if CONTEXT_BACKEND_BOOST
      [ASMContext.self, UcontextContext.self, BoostContext.self]
    #else
      [ASMContext.self, UcontextContext.self]
    #endif
  }

  static var names: [String] { all.map { $0.name } }

  static func named(_ name: String) -> any ContextBackend.Type {
    all.first { $0.name == name }!
  }
}

/// The smallest coroutine over a backend: a stack, a link at its top, a body. Not for two threads at once.
final class TestFiber<Backend: ContextBackend> {
  private let link: UnsafeMutablePointer<ContextLink<Backend>>
  private let stack: Stack
  private let body: (TestFiber, UInt) throws -> Void
  private(set) var error: (any Error)?
  private(set) var isFinished = false

  init(stackSize: Int = StackPool.defaultStackSize, _ body: @escaping (TestFiber, UInt) throws -> Void) throws {
    self.body = body
    stack = try StackPool.shared(stackSize: stackSize).allocate()
    let size = MemoryLayout<ContextLink<Backend>>.size
    let address = (UInt(bitPattern: stack.top) - UInt(size)) & ~63
    link = UnsafeMutablePointer(bitPattern: address)!
    // The first word carries the fiber; the body's first word follows with the next switch.
    Backend.initialize(
      link, stack: UnsafeMutableRawBufferPointer(start: stack.limit, count: UnsafeMutableRawPointer(link) - stack.limit)
    ) { word in
      let fiber = Unmanaged<AnyObject>.fromOpaque(UnsafeRawPointer(bitPattern: word)!)
      fiber._withUnsafeGuaranteedRef { ($0 as! any Runnable).run() }
    }
  }

  deinit {
    Backend.destroy(ContextLink.own(link))
    try! StackPool.shared(stackSize: stack.size).release(stack)
  }

  /// Passes the fiber itself, then waits at the very start of the body.
  func start() {
    _ = Backend.resume(link, passing: UInt(bitPattern: Unmanaged.passUnretained(self as AnyObject).toOpaque()))
  }

  func resume(_ word: UInt = 0) -> UInt {
    precondition(!isFinished)
    return Backend.resume(link, passing: word)
  }

  /// On the fiber's side.
  func suspend(_ word: UInt = 0) -> UInt { Backend.suspend(link, passing: word) }

  var registers: ContextRegisters? { Backend.registers(of: ContextLink.own(link)) }
  var resumerRegisters: ContextRegisters? { Backend.registers(of: ContextLink.resumer(link)) }
  var isRunning: Bool { Backend.isRunning(link) }
  var memory: Stack { stack }
}

private protocol Runnable {
  func run()
}

extension TestFiber: Runnable {
  fileprivate func run() {
    let first = suspend()
    do {
      try body(self, first)
    } catch {
      self.error = error
    }
    isFinished = true
    _ = suspend(.max)
    fatalError("a finished fiber was resumed")
  }
}
