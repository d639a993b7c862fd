// SPDX-License-Identifier: Apache-2.0

// What a scheduler does with a channel whose elements arrive on its thread: it sends without waiting, and prefetches.

extension Channel {
  /// For a scheduler on whose thread elements arrive: sends one without waiting. If a coroutine of that scheduler has waited
  /// for it, the scheduler has to run `receiver` soon, past its queue.
  ///
  /// - Returns: how many elements are in the buffer. A channel that is closed or full has refused the element.
  @inlinable @inline(__always)
  package func send(
    _ element: consuming Element, by scheduler: any Scheduler, waking receiver: inout CoroutineJob?
  ) -> Int {
    var unsent: Element? = consume element
    storage.lock.lock()
    let attempt = storage.machine.sendNow(&unsent)
    let count = storage.machine.buffer.count
    storage.lock.unlock()
    if case .handed(let waiter) = attempt { receiver = waiter.wakeOrTake(for: scheduler) }
    return count
  }
}

extension PrefetchHint {
  package init<Element>(ofReceiversFrom channel: Channel<Element>) { self.init(ofWaitersAt: channel.storage) }
}
