import Glibc

/// A C++ exception, thrown by the functions that compiled C++ calls. The Swift runtime is linked with them.
public enum ForeignException {
  /// What C++ writes when it finds no handler.
  public static let lastWords = "terminate called after throwing an instance of 'int'"

  /// `throw 0;`
  public static func raise() {
    // Right because the C++ library's binary interface declares these types.
    let allocate = unsafeBitCast(
      dlsym(nil, "__cxa_allocate_exception"), to: (@convention(c) (Int) -> UnsafeMutableRawPointer).self)
    let raise = unsafeBitCast(
      dlsym(nil, "__cxa_throw"),
      to: (@convention(c) (UnsafeMutableRawPointer, UnsafeMutableRawPointer?, UnsafeMutableRawPointer?) -> Void).self)
    raise(allocate(4), dlsym(nil, "_ZTIi"), nil)
  }

  /// Whether this process searches for handlers by the unwinder of the compiler's libraries.
  public static var hasCompilersUnwinder: Bool {
    guard let library = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_NOLOAD) else { return false }
    return dlsym(library, "_Unwind_RaiseException") == dlsym(nil, "_Unwind_RaiseException")
  }
}
