// SPDX-License-Identifier: Apache-2.0

/// How a machine context is created and how the processor goes from one to another: all that differs between backends.
///
/// A *context* is a record in memory, of the backend's own layout, that holds the registers of a suspended flow of
/// control. A *switch* stores the running side in one such record and continues the side that another one holds.
/// Everything else of the runtime is written against this protocol.
///
/// ## The contract
/// - **Memory.** The caller owns the records. One must stay at its address, and must not be part of a value that Swift
///   considers accessed during the switch (a class's stored property passed `inout` traps): raw memory, best at the
///   upper end of the context's own stack.
/// - **Which thread may call what, when.** `initialize` and `destroy`: any thread, while the context does not run.
///   `switchContext`: the running side, from any thread. `to` must be suspended (initialised, or left by a switch), and
///   must be continued at most once for each time it was suspended. Continuing it on another thread is allowed; that
///   thread must have synchronised with the thread that suspended it. A switch to a destroyed context crashes, at
///   address 0 or by a trap; one to a context that runs is not detected.
/// - **Registers.** Stack pointer, frame pointer, and every value of the code around the switch survive, floating-point and
///   vector registers included. The rounding mode, and which floating-point exceptions trap, belong to the thread: a switch
///   leaves them alone, and what one side sets by `fesetround` or `feenableexcept` the other finds. (Boost does not see what a
///   side changes in mxcsr alone.) Thread-locals belong to it, too: neither `errno` nor the address of one may be expected to
///   survive. Other modes of the thread must not differ between suspension and continuation, since some backends restore them:
///   the signal mask (ucontext), flush-to-zero (ucontext, Boost).
/// - **The stack.** `initialize` uses at most 256 bytes below the upper bound of `stack`, which must be a multiple of 16, and
///   the entry function's frame begins there. The switch itself needs less than 256 bytes of stack. Nothing below the suspended
///   stack pointer survives, but for the 128 bytes of red zone that the compiler itself uses.
/// - **The word.** Each switch hands one word over: the continued side's `switchContext` returns it, together with the
///   context in which the side that left was saved, or the entry function gets it as its argument when the context runs
///   for the first time.
/// - **Unwinding.** A backtrace that begins in a context, running or suspended, ends at the function that called the entry:
///   call frame information says so, or nothing is known of that function. Or it goes on in the side that continued the
///   context. It never shows what lies above `stack`. The frame pointer of a context that never ran is 0, or leads to the
///   side that continues it. No exception is caught across contexts: its search ends with the stack, or
///   earlier, and the program with it.
/// - **Sanitizers.** The caller of a switch informs AddressSanitizer and ThreadSanitizer, by their fibre interfaces.
/// - **The end.** An entry function must never return: its last act is a switch from which it is never continued. Such a
///   context, one that never ran, and one that is suspended for good are `destroy`ed; their stacks may be reused then. Frames
///   that still lie there are *not* unwound (to unwind them, continue the context and throw in it first).
/// - **The link.** `resumer` is the record in which the side that continues this context will be saved. By it a backend can
///   let the backtrace of a running context go on into its resumer; it may ignore it. Code that resumes keeps that record up
///   to date, and destroys it while the context is suspended.
public protocol ContextBackend: Sendable {
  /// The record of a suspended side's registers, or what leads to them: plain memory, trivial to copy.
  associatedtype Context

  /// The backend's name for people, which is that of its trait: "ASM", for example.
  static var name: String { get }

  /// Makes `context` a suspended context that will call `entry` on `stack`, with the first word handed to it.
  ///
  /// - Parameters:
  ///   - context: uninitialised or destroyed memory.
  ///   - stack: where it runs: the bytes in use end at `upperBound`, which must be a multiple of 16.
  ///   - resumer: the record in which the side that continues `context` will be saved.
  ///   - entry: must not return. Traps if it does.
  static func initialize(
    _ context: UnsafeMutablePointer<Context>, stack: UnsafeMutableRawBufferPointer,
    resumer: UnsafeMutablePointer<Context>, entry: @convention(c) (UInt) -> Void)

  /// Suspends the running side in `from`, continues `to` and hands `word` over. Symmetric: any suspended context will do.
  ///
  /// - Returns: when `from` is continued, perhaps on another thread: the word, and where the side that left is saved.
  static func switchContext(
    from: UnsafeMutablePointer<Context>, to: UnsafeMutablePointer<Context>, passing word: UInt
  ) -> ContextArrival<Context>

  /// The registers of a suspended context, for unwinders: `nil` for a destroyed one. Undefined while it runs.
  static func registers(of context: UnsafeMutablePointer<Context>) -> ContextRegisters?

  /// Where a suspended context keeps its registers, for debuggers that read another process's memory. `nil` where offsets
  /// don't say: such a process is dumped without backtraces.
  static var layout: ContextLayout? { get }

  /// Which code is the backend's own, so that backtraces can leave it out.
  static var code: ContextCode { get }

  /// Says that `context` holds no registers from now on. Its memory and its stack may be reused.
  static func destroy(_ context: UnsafeMutablePointer<Context>)
}

/// What a switch brings to the side that is continued.
@frozen
public struct ContextArrival<Context> {
  /// The word that was handed over.
  public let word: UInt
  /// The context in which the side that left is saved: the `from` of its switch.
  public let departed: UnsafeMutablePointer<Context>

  /// Made by a backend, at the end of its switch.
  @inlinable @inline(__always)
  public init(word: UInt, departed: UnsafeMutablePointer<Context>) {
    self.word = word
    self.departed = departed
  }
}

/// What an unwinder needs to start from a suspended context. Addresses, as integers. Of a switch that is a function, those that
/// its caller has after the return.
public struct ContextRegisters: Sendable, Hashable {
  /// Where it goes on.
  public var programCounter: UInt
  /// Its stack pointer there.
  public var stackPointer: UInt
  /// Its frame pointer there (rbp, x29).
  public var framePointer: UInt
  /// Its base register there (rbx, x19), 0 where the switch does not preserve it.
  public var baseRegister: UInt

  /// Made by a backend: `registers(of:)`.
  @inlinable
  public init(programCounter: UInt, stackPointer: UInt, framePointer: UInt, baseRegister: UInt) {
    self.programCounter = programCounter
    self.stackPointer = stackPointer
    self.framePointer = framePointer
    self.baseRegister = baseRegister
  }

  /// Takes over what a backend's C function wrote: pc, sp, fp, base; `nil` if that function said there was nothing.
  @inlinable
  package init?(reading: (UnsafeMutablePointer<UInt>) -> Int32) {
    var words: (UInt, UInt, UInt, UInt) = (0, 0, 0, 0)
    let found = withUnsafeMutableBytes(of: &words) { reading($0.assumingMemoryBound(to: UInt.self).baseAddress!) }
    guard found != 0 else { return nil }
    self.init(
      programCounter: words.0, stackPointer: words.1, framePointer: words.2, baseRegister: words.3)
  }
}

/// Where in a suspended context its registers lie: offsets in bytes.
public struct ContextLayout: Sendable, Hashable {
  /// The word that is 0 in a destroyed context, and only there.
  public var live: UInt
  /// Whether the registers lie not in the context but on its stack, where a switch has pushed them; the context's first word
  /// points there. The stack pointer is then no saved word: it is that address plus the offset `stackPointer`.
  public var isIndirect: Bool
  /// Where its program counter lies.
  public var programCounter: UInt
  /// Where its stack pointer lies; see `isIndirect`.
  public var stackPointer: UInt
  /// Where its frame pointer lies.
  public var framePointer: UInt
  /// Where its base register lies; `nil` where the switch does not preserve it.
  public var baseRegister: UInt?

  /// Said by a backend, so that dumps of other processes and debuggers find the registers.
  public init(
    live: UInt, isIndirect: Bool, programCounter: UInt, stackPointer: UInt, framePointer: UInt, baseRegister: UInt?
  ) {
    self.live = live
    self.isIndirect = isIndirect
    self.programCounter = programCounter
    self.stackPointer = stackPointer
    self.framePointer = framePointer
    self.baseRegister = baseRegister
  }

  /// Takes over what a backend's C function wrote; `nil` if that function said that it is not known.
  package init?(
    reading: (UnsafeMutablePointer<UInt>, UnsafeMutablePointer<UInt>, UnsafeMutablePointer<CInt>) -> CInt
  ) {
    var registers: (UInt, UInt, UInt, UInt) = (0, 0, 0, 0)
    var live: UInt = 0
    var isIndirect: CInt = 0
    let isKnown = withUnsafeMutableBytes(of: &registers) {
      reading($0.assumingMemoryBound(to: UInt.self).baseAddress!, &live, &isIndirect)
    }
    guard isKnown != 0 else { return nil }
    self.init(
      live: live, isIndirect: isIndirect != 0, programCounter: registers.0, stackPointer: registers.1,
      framePointer: registers.2, baseRegister: registers.3 == .max ? nil : registers.3)
  }
}

/// Which code of a program is a backend's: a backtrace leaves it out, since it means nothing to the program's author.
public struct ContextCode: Sendable, Hashable {
  /// The Swift module, such as "ContextBoost".
  public var module: String
  /// How the names of its functions in C and assembly begin, those of a library that it calls included.
  public var symbolPrefixes: [String]
  /// How the file name of that library begins. Functions in there that have no name belong to the code that calls them.
  public var library: String?

  /// Said by a backend, so that backtraces can leave its frames out.
  public init(module: String, symbolPrefixes: [String], library: String? = nil) {
    self.module = module
    self.symbolPrefixes = symbolPrefixes
    self.library = library
  }

  /// One line, for debuggers in other processes: `init(line:)` reads it there.
  package var line: String { ([module, library ?? "-"] + symbolPrefixes).joined(separator: " ") }

  package init?(line: String) {
    let words = line.split(separator: " ").map(String.init)
    guard words.count >= 2 else { return nil }
    self.init(module: words[0], symbolPrefixes: Array(words[2...]), library: words[1] == "-" ? nil : words[1])
  }
}
