// SPDX-License-Identifier: Apache-2.0

// Written by scripts/backends.sh --write, from the list in Package.swift.

// Traits add up across a package graph: an explicit choice wins over the default, and of two the later one in the list.

#if CONTEXT_BACKEND_UCONTEXT
  public import ContextUcontext
  /// The context backend that this build of the runtime runs on.
  public typealias SelectedBackend = UcontextContext
#elseif CONTEXT_BACKEND_BOOST
  public import ContextBoost
  /// The context backend that this build of the runtime runs on.
  public typealias SelectedBackend = BoostContext
#else
  public import ContextASM
  /// The context backend that this build of the runtime runs on.
  public typealias SelectedBackend = ASMContext
#endif

/// The traits that this build has on, the winner last. Several: packages of one graph have asked for different backends.
/// By SwiftPM alone; CMake builds one.
enum BackendTraits {
  static var names: [String] {
    var names: [String] = []
    #if CONTEXT_BACKEND_ASM
      names.append("ASM")
    #endif
    #if CONTEXT_BACKEND_BOOST
      names.append("Boost")
    #endif
    #if CONTEXT_BACKEND_UCONTEXT
      names.append("Ucontext")
    #endif
    return names
  }
}
