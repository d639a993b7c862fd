// SPDX-License-Identifier: Apache-2.0

public import CCoroutineContextUcontext
public import Context

/// The backend over `swapcontext` of the C library: portable, and a system call each way.
public enum UcontextContext: ContextBackend {
  public typealias Context = context_ucontext

  @inlinable
  public static var name: String { "Ucontext" }

  @inlinable
  public static func initialize(
    _ context: UnsafeMutablePointer<context_ucontext>, stack: UnsafeMutableRawBufferPointer,
    resumer: UnsafeMutablePointer<context_ucontext>, entry: @convention(c) (UInt) -> Void
  ) {
    context_ucontext_initialize(context, stack.baseAddress! + stack.count, UInt(stack.count), resumer, entry)
  }

  @inlinable @inline(__always)
  public static func switchContext(
    from: UnsafeMutablePointer<context_ucontext>, to: UnsafeMutablePointer<context_ucontext>, passing word: UInt
  ) -> ContextArrival<context_ucontext> {
    let arrival = context_ucontext_switch(from, to, word)
    // Set by the side that switched here: never null.
    return ContextArrival(word: arrival.word, departed: arrival.departed.unsafelyUnwrapped)
  }

  @inlinable
  public static func registers(of context: UnsafeMutablePointer<context_ucontext>) -> ContextRegisters? {
    ContextRegisters { context_ucontext_registers(context, $0) }
  }

  public static var layout: ContextLayout? { ContextLayout(reading: context_ucontext_layout) }

  public static var code: ContextCode { ContextCode(module: "ContextUcontext", symbolPrefixes: ["context_ucontext_"]) }

  @inlinable @inline(__always)
  public static func destroy(_ context: UnsafeMutablePointer<context_ucontext>) {
    context_ucontext_destroy(context)
  }
}
