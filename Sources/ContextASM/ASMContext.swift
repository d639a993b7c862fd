// SPDX-License-Identifier: Apache-2.0

public import CCoroutineContextASM
public import Context

/// The backend in hand-written assembly: three stores, two loads and a jump, inlined into the caller (x86-64, aarch64).
public enum ASMContext: ContextBackend, PairedContextBackend {
  public typealias Context = context_asm

  @inlinable
  public static var name: String { "ASM" }

  @inlinable
  public static func initialize(
    _ context: UnsafeMutablePointer<context_asm>, stack: UnsafeMutableRawBufferPointer,
    resumer: UnsafeMutablePointer<context_asm>, entry: @convention(c) (UInt) -> Void
  ) {
    context_asm_initialize(context, stack.baseAddress! + stack.count, resumer, entry)
  }

  @inlinable @inline(__always)
  public static func switchContext(
    from: UnsafeMutablePointer<context_asm>, to: UnsafeMutablePointer<context_asm>, passing word: UInt
  ) -> ContextArrival<context_asm> {
    let arrival = context_asm_switch(from, to, word)
    // Set by the side that switched here: never null.
    return ContextArrival(word: arrival.word, departed: arrival.departed.unsafelyUnwrapped)
  }

  @inlinable
  public static func registers(of context: UnsafeMutablePointer<context_asm>) -> ContextRegisters? {
    ContextRegisters { context_asm_registers(context, $0) }
  }

  public static var layout: ContextLayout? { ContextLayout(reading: context_asm_layout) }

  public static var code: ContextCode { ContextCode(module: "ContextASM", symbolPrefixes: ["context_asm_"]) }

  @inlinable @inline(__always)
  public static func destroy(_ context: UnsafeMutablePointer<context_asm>) {
    context_asm_destroy(context)
  }
}
