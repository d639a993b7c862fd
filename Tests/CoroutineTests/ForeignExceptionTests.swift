import CCoroutine
import CoroutineTestSupport
import Dispatch
import Glibc
import Synchronization
import Testing

@testable import Coroutine

/// A coroutine that waits while it handles a C++ exception. The C++ library tracks the handled exceptions by thread.
@Suite(.ownThreads) struct ForeignExceptionTests {
  /// Like a function with a `catch` that calls back. The callback waits.
  private static func catching(_ kind: Exception.Kind, _ body: () throws -> Void) rethrows {
    let exception = Exception(kind)
    exception.beginCatch()
    #expect(Exception.current == kind)
    try body()
    #expect(Exception.current == kind)
    exception.endCatch()
  }

  @Test func twoThatWaitInACatchKeepTheirOwn() throws {
    try Coroutine(on: ThreadPool(threads: 1)) {
      let (first, second) = (Channel<Void>(), Channel<Void>())
      let one = Coroutine {
        try Self.catching(.int) {
          try first.receive()
          Self.catching(.double) { Coroutine.yield() }
        }
        #expect(Exception.current == nil)
      }
      let other = Coroutine {
        #expect(Exception.current == nil)
        try Self.catching(.double) { try second.receive() }
        #expect(Exception.current == nil)
      }
      Coroutine.yield()
      // The older one first, which is not the order in which calls would return.
      try first.send(())
      try second.send(())
      try one.get()
      try other.get()
      #expect(Exception.current == nil)
    }.getBlocking()
  }

  @Test func aYieldInACatchDoesNotLendItToTheNext() throws {
    try Coroutine(on: ThreadPool(threads: 1)) {
      let others = (0..<3).map { _ in
        Coroutine {
          for _ in 0..<100 {
            #expect(Exception.current == nil)
            Coroutine.yield()
          }
        }
      }
      Self.catching(.int) { for _ in 0..<100 { Coroutine.yield() } }
      for other in others { try other.get() }
    }.getBlocking()
  }

  @Test func itGoesWithTheCoroutineToAnotherThread() throws {
    let held = HeldScheduler()
    let channel = Channel<Int>()
    let coroutine = Coroutine(on: held) {
      try Self.catching(.int) {
        let number = try channel.receive()
        #expect(number == 1)
        #expect(Exception.uncaughtCount == 0)
      }
    }
    let runsNext: @Sendable () -> Void = {
      held.run(limit: 1)
      #expect(Exception.current == nil)
      #expect(Exception.uncaughtCount == 0)
    }
    PlainThread(runsNext).join()
    #expect(channel.trySend(1).isSent)
    PlainThread(runsNext).join()
    try coroutine.getBlocking()
  }

  @Test func anExceptionOnItsWayIsCountedWithTheCoroutine() throws {
    try Coroutine(on: ThreadPool(threads: 1)) {
      let other = Coroutine { #expect(Exception.uncaughtCount == 0) }
      // As in a destructor that runs while the stack is unwound.
      Exception.uncaughtCount += 1
      Coroutine.yield()
      #expect(Exception.uncaughtCount == 1)
      Exception.uncaughtCount -= 1
      try other.get()
    }.getBlocking()
  }

  // MARK: One that leaves a body
  // Nothing of the resumer's may catch it, and nothing unwinds the frames in between.

  private func expectTermination(_ result: ExitTest.Result?, _ location: SourceLocation = #_sourceLocation) {
    #expect(standardError(of: result).contains(ForeignException.lastWords), sourceLocation: location)
  }

  @Test func oneThatLeavesACoroutineTerminates() async {
    expectTermination(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        try await Coroutine(on: ThreadPool(threads: 1)) { ForeignException.raise() }.get()
      })
  }

  @Test func oneThatLeavesACoroutineBegunAtOnceTerminates() async {
    expectTermination(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        _ = Coroutine.immediate { ForeignException.raise() }
      })
  }

  @Test func oneThatLeavesAGeneratorsBodyTerminates() async {
    expectTermination(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let generator = Generator<Int> { yield in
          try yield(1)
          ForeignException.raise()
        }
        _ = (generator.next(), generator.next())
      })
  }

  // MARK: The resumer handles one

  @Test func oneThatIsBegunInACatchHasNone() throws {
    try PlainThread {
      let channel = Channel<Void>()
      var coroutine: Coroutine<Void, any Error>?
      Self.catching(.int) {
        coroutine = Coroutine.immediate {
          #expect(Exception.current == nil)
          try Self.catching(.double) { try channel.receive() }
          #expect(Exception.current == nil)
        }
        #expect(Exception.current == .int)
      }
      #expect(Exception.current == nil)
      #expect(channel.trySend(()).isSent)
      return Result { try coroutine?.getBlocking() }
    }.join().get()
  }

  @Test func whatRunsOnTheCallingThreadInACatchHasNone() throws {
    try PlainThread {
      Result {
        try Self.catching(.int) {
          try runUntilComplete {
            #expect(Exception.current == nil)
            let other = Coroutine { #expect(Exception.current == nil) }
            Self.catching(.double) { Coroutine.yield() }
            try other.get()
          }
        }
        #expect(Exception.current == nil)
      }
    }.join().get()
  }
}

/// An exception, made by the functions that compiled C++ calls. The Swift runtime is linked with them.
private struct Exception {
  enum Kind: String {
    case int = "_ZTIi"
    case double = "_ZTId"
  }

  // The thrown object. Its header lies in front of it, and ends with the unwinder's part.
  private let object: UnsafeMutableRawPointer
  private static let unwindersPart = 32
  private static let headerSize = 128

  init(_ kind: Kind) {
    object = Self.allocate(8)
    _ = Self.initialize(object, dlsym(nil, kind.rawValue), nil)
    // As `throw` does: the end of the catch then releases it. The count is the first word of the header.
    (object - Self.headerSize).storeBytes(of: 1, as: CInt.self)
  }

  func beginCatch() {
    Self.uncaughtCount += 1
    _ = Self.begin(object - Self.unwindersPart)
  }

  func endCatch() { Self.end() }

  /// The exception that is being handled on this thread: `throw;` would throw it again.
  static var current: Kind? {
    guard let type = currentType() else { return nil }
    return type == dlsym(nil, Kind.int.rawValue) ? .int : .double
  }

  static var uncaughtCount: UInt32 {
    get { globals().load(fromByteOffset: MemoryLayout<UInt>.size, as: UInt32.self) }
    set { globals().storeBytes(of: newValue, toByteOffset: MemoryLayout<UInt>.size, as: UInt32.self) }
  }

  // Right because the C++ library's binary interface declares these types.
  private static let allocate = function(
    "__cxa_allocate_exception", as: (@convention(c) (Int) -> UnsafeMutableRawPointer).self)
  private static let initialize = function(
    "__cxa_init_primary_exception",
    as: (@convention(c) (UnsafeMutableRawPointer, UnsafeMutableRawPointer?, UnsafeMutableRawPointer?)
      -> UnsafeMutableRawPointer).self)
  private static let begin = function(
    "__cxa_begin_catch", as: (@convention(c) (UnsafeMutableRawPointer) -> UnsafeMutableRawPointer).self)
  private static let end = function("__cxa_end_catch", as: (@convention(c) () -> Void).self)
  private static let currentType = function(
    "__cxa_current_exception_type", as: (@convention(c) () -> UnsafeMutableRawPointer?).self)
  private static let globals = function(
    "__cxa_get_globals", as: (@convention(c) () -> UnsafeMutableRawPointer).self)

  private static func function<Function>(_ name: String, as type: Function.Type) -> Function {
    unsafeBitCast(dlsym(nil, name), to: type)
  }
}
