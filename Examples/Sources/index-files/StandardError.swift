import Glibc

/// The standard error, to print to. Nothing is kept back: what is printed is there at once.
struct StandardError: TextOutputStream {
  func write(_ text: String) {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
      guard count > 0 else { return }  // nobody is there to be told
      rest = rest.dropFirst(count)
    }
  }
}
