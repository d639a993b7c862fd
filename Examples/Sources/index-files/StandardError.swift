import Glibc

/// The standard error as an output stream. It has no buffer: what is printed is written at once.
struct StandardError: TextOutputStream {
  func write(_ text: String) {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
      guard count > 0 else { return }  // without a standard error there is nowhere to report it
      rest = rest.dropFirst(count)
    }
  }
}
