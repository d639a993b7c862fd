// The one place that names a concrete backend. A fourth one is a folder beside the others, a trait, and a line here.
// Traits add up across a package graph: an explicit choice wins over the default, which is ASM.

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
