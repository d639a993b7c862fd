import Synchronization

/// What programs send: an object that can be counted, and that knows who sent it.
// Unchecked: only its holder writes to it, and a channel hands it on.
final class Token: @unchecked Sendable {
  let number: Int
  /// Which worker sends it, and as its how manieth at that channel.
  var sender = 0
  var order = 0
  private let count: TokenCount

  init(of count: TokenCount) {
    self.count = count
    number = count.next.wrappingAdd(1, ordering: .relaxed).oldValue
    count.live.wrappingAdd(1, ordering: .relaxed)
  }

  deinit { count.live.wrappingSubtract(1, ordering: .relaxed) }
}

/// How many tokens a run has made, and how many of them are still there.
final class TokenCount: Sendable {
  fileprivate let next = Atomic<Int>(0)
  let live = Atomic<Int>(0)
}
