import Glibc

/// The progress of the work on the standard error: one line that is overwritten on a terminal, a few lines elsewhere.
struct Progress {
  private let total: Int
  private let isTerminal = isatty(STDERR_FILENO) == 1
  private var shown = 0

  init(of total: Int) {
    self.total = total
  }

  /// Prints that `done` files are done, if that is 1 % more on a terminal, or 25 % more elsewhere.
  mutating func update(done: Int) {
    let percent = done * 100 / max(total, done)  // more files than were counted, if some are new
    let step = isTerminal ? 1 : 25
    guard percent / step > shown / step else { return }
    shown = percent
    let isOverwritten = isTerminal && percent < 100
    StandardError().write("\(isTerminal ? "\r" : "")\(percent) % of \(total.grouped) files\(isOverwritten ? "" : "\n")")
  }
}
