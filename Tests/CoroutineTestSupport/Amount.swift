import Glibc

/// Whether this process runs under AddressSanitizer or ThreadSanitizer.
public let isSanitized: Bool = {
  let program = dlopen(nil, RTLD_NOW)
  return dlsym(program, "__asan_init") != nil || dlsym(program, "__tsan_init") != nil
}()

/// How often tests repeat what is the same again and again. Under a sanitizer, which is ten times slower, less is
/// enough to show a defect. A build without optimisation may also do less, so that the suite does not wait for one
/// test.
public func amount(_ full: Int, debug: Int? = nil, sanitized: Int) -> Int {
  if isSanitized { return sanitized }
  #if DEBUG
    return debug ?? full
  #else
    return full
  #endif
}
