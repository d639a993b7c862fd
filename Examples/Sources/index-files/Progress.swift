import Glibc

/// How far the work is, on the standard error: on a terminal one line that is overwritten, elsewhere a few lines.
struct Progress {
  private let total: Int
  private let isTerminal = isatty(STDERR_FILENO) == 1
  private var shown = 0

  init(of total: Int) {
    self.total = total
  }

  /// Says that `done` files are done, if that makes a difference of 1 % on a terminal, of 25 % elsewhere.
  mutating func update(done: Int) {
    let percent = done * 100 / max(total, done)  // more than were counted: some are new
    let step = isTerminal ? 1 : 25
    guard percent / step > shown / step else { return }
    shown = percent
    let isOverwritten = isTerminal && percent < 100
    StandardError().write("\(isTerminal ? "\r" : "")\(percent) % of \(total.grouped) files\(isOverwritten ? "" : "\n")")
  }
}
