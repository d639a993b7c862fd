// Written by scripts/backends.sh --write, from the list in Package.swift.

import Context
import ContextASM
import ContextUcontext

#if CONTEXT_BACKEND_BOOST
  import ContextBoost
#endif

extension ASMContext: TestedBackend {
  static var resuming: @convention(c) (UnsafeMutableRawPointer?) -> Void {
    { _ = ASMContext.resume(ContextLink<ASMContext>.at($0), passing: 0) }
  }
  static var suspending: @convention(c) (UnsafeMutableRawPointer?) -> Void {
    { _ = ASMContext.suspend(ContextLink<ASMContext>.at($0), passing: 0) }
  }
}

#if CONTEXT_BACKEND_BOOST
  extension BoostContext: TestedBackend {
    static var resuming: @convention(c) (UnsafeMutableRawPointer?) -> Void {
      { _ = BoostContext.resume(ContextLink<BoostContext>.at($0), passing: 0) }
    }
    static var suspending: @convention(c) (UnsafeMutableRawPointer?) -> Void {
      { _ = BoostContext.suspend(ContextLink<BoostContext>.at($0), passing: 0) }
    }
  }
#endif

extension UcontextContext: TestedBackend {
  static var resuming: @convention(c) (UnsafeMutableRawPointer?) -> Void {
    { _ = UcontextContext.resume(ContextLink<UcontextContext>.at($0), passing: 0) }
  }
  static var suspending: @convention(c) (UnsafeMutableRawPointer?) -> Void {
    { _ = UcontextContext.suspend(ContextLink<UcontextContext>.at($0), passing: 0) }
  }
}

extension Backends {
  /// The backends of this build. One that needs a library is there if it is chosen.
  static var all: [any TestedBackend.Type] {
    var all: [any TestedBackend.Type] = []
    all.append(ASMContext.self)
    #if CONTEXT_BACKEND_BOOST
      all.append(BoostContext.self)
    #endif
    all.append(UcontextContext.self)
    return all
  }
}
