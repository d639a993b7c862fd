// SPDX-License-Identifier: Apache-2.0

public import CCoroutineContextBoost
public import Context

/// The backend over `jump_fcontext` of Boost.Context, which must be installed (`libboost_context`).
public enum BoostContext: ContextBackend {
  public typealias Context = context_boost

  @inlinable
  public static var name: String { "Boost" }

  @inlinable
  public static func initialize(
    _ context: UnsafeMutablePointer<context_boost>, stack: UnsafeMutableRawBufferPointer,
    resumer: UnsafeMutablePointer<context_boost>, entry: @convention(c) (UInt) -> Void
  ) {
    context_boost_initialize(context, stack.baseAddress! + stack.count, UInt(stack.count), resumer, entry)
  }

  @inlinable @inline(__always)
  public static func switchContext(
    from: UnsafeMutablePointer<context_boost>, to: UnsafeMutablePointer<context_boost>, passing word: UInt
  ) -> ContextArrival<context_boost> {
    let arrival = context_boost_switch(from, to, word)
    // Set by the side that switched here: never null.
    return ContextArrival(word: arrival.word, departed: arrival.departed.unsafelyUnwrapped)
  }

  @inlinable
  public static func registers(of context: UnsafeMutablePointer<context_boost>) -> ContextRegisters? {
    ContextRegisters { context_boost_registers(context, $0) }
  }

  public static var layout: ContextLayout? { ContextLayout(reading: context_boost_layout) }

  public static var code: ContextCode {
    ContextCode(
      module: "ContextBoost", symbolPrefixes: ["context_boost_", "jump_fcontext", "make_fcontext"],
      library: "libboost_context.so")
  }

  @inlinable @inline(__always)
  public static func destroy(_ context: UnsafeMutablePointer<context_boost>) {
    context_boost_destroy(context)
  }
}
