@testable import Coroutine

/// Calls `check` with each sequence of `length` events out of `count`.
func everySequence(of count: Int, length: Int, _ check: ([Int]) throws -> Void) rethrows {
  var sequence = [Int](repeating: 0, count: length)
  while true {
    try check(sequence)
    var index = 0
    while index < length {
      sequence[index] += 1
      if sequence[index] < count { break }
      sequence[index] = 0
      index += 1
    }
    if index == length { return }
  }
}

/// A waiter in a state machine, without a thread or a switch.
final class ModelWaiter {
  private let thread = BlockedThread(at: BlockingCall("a test", #fileID, #line))

  init() { thread.parking.markParked() }

  var waiter: Waiter { .thread(.passUnretained(thread)) }

  /// Ends the wait for another reason. Returns whether it still lasted.
  func giveUp() -> Bool { thread.parking.claim(.cancelled) }

  /// Why the wait ended; `nil` while it lasts.
  var cause: WakeCause? {
    let cause = thread.parking.cause
    return cause.rawValue < 100 ? cause : nil
  }
}

extension ClaimedWaiters {
  /// The nodes, in their order.
  var nodes: [UnsafeMutablePointer<WaitNode>] {
    var nodes: [UnsafeMutablePointer<WaitNode>] = []
    var node = first
    while let current = node {
      nodes.append(current)
      node = current.pointee.next
    }
    return nodes
  }
}
