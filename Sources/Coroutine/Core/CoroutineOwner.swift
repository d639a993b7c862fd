/// Whoever is cancelled where its coroutine's own code or another holder of its handle wants that coroutine to stop: an actor,
/// which still waits for its children after that, and so must not be cancelled as a whole.
protocol CoroutineOwner: AnyObject, Sendable {
  func cancelCoroutine()
  /// Whether it has been, before the end.
  var isCancelled: Bool { get }
}
