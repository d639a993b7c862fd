import Context
import ContextUcontext

/// A backend as the runtime uses it: by its fast ways into a coroutine and out of it, where it has them.
protocol TestedBackend: ContextBackend {
  static func isRunning(_ link: UnsafeMutablePointer<ContextLink<Self>>) -> Bool
  static func resume(_ link: UnsafeMutablePointer<ContextLink<Self>>, passing word: UInt) -> UInt
  static func suspend(_ link: UnsafeMutablePointer<ContextLink<Self>>, passing word: UInt, mark: UInt) -> UInt

  /// For C: resumes the link that it is given; `suspending` suspends it. They do nothing else, or they would preserve
  /// registers that the switch loses.
  static var resuming: @convention(c) (UnsafeMutableRawPointer?) -> Void { get }
  static var suspending: @convention(c) (UnsafeMutableRawPointer?) -> Void { get }

  /// Whether its layout may be `nil`, since no offsets lead to the registers. An exception that needs a reason.
  static var mayLackLayout: Bool { get }
}

extension TestedBackend {
  static var mayLackLayout: Bool { false }
}

extension ContextLink {
  /// The link that C passes as a plain pointer.
  static func at(_ place: UnsafeMutableRawPointer?) -> UnsafeMutablePointer<Self> {
    place.unsafelyUnwrapped.assumingMemoryBound(to: Self.self)
  }
}

#if arch(arm64)
  extension UcontextContext {
    // Newer glibc stops inside `swapcontext`: where the program counter lies depends on its value.
    static var mayLackLayout: Bool { true }
  }
#endif

/// The rest is in TestedBackends.swift, which is written by a script.
enum Backends {
  static var names: [String] { all.map { $0.name } }

  static func named(_ name: String) -> any TestedBackend.Type {
    all.first { $0.name == name }!
  }
}

/// The smallest coroutine over a backend: a stack, a link at its top, a body. Not for use by two threads at once.
final class TestFiber<Backend: TestedBackend> {
  let link: UnsafeMutablePointer<ContextLink<Backend>>
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
    // The first word carries the fiber. The next switch brings the body's first word.
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

  /// Passes the fiber itself. The fiber then waits at the very start of the body.
  func start() {
    _ = Backend.resume(link, passing: UInt(bitPattern: Unmanaged.passUnretained(self as AnyObject).toOpaque()))
  }

  func resume(_ word: UInt = 0) -> UInt {
    precondition(!isFinished)
    return Backend.resume(link, passing: word)
  }

  /// To be called on the fiber's side.
  func suspend(_ word: UInt = 0) -> UInt { Backend.suspend(link, passing: word, mark: 0) }

  var registers: ContextRegisters? { Backend.registers(of: ContextLink.own(link)) }
  var resumerRegisters: ContextRegisters? { Backend.registers(of: ContextLink.resumer(link)) }
  var isRunning: Bool { Backend.isRunning(link) }
  var memory: Stack { stack }
  /// The end of the stack that the body runs on.
  var upperBound: UInt { UInt(bitPattern: link) }
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
