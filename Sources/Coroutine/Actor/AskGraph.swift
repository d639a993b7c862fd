import Context

/// Which actor waits for an answer of which: so that a circle of asks is found before it waits for ever.
///
/// Only an actor that waits while it runs is in the graph, in `ask` or for the promise of a `send`; each waits for one at a
/// time, so that whom it waits for in the end is found by going from one to the next. All of the graph is guarded by one lock, taken twice by each ask of an actor, and
/// never by those of others.
///
/// Why every circle is found: an edge is made before the wait and taken out after it, under the lock, and a circle that
/// lasts consists of edges that stay. Whoever makes the last of them sees all others.
///
/// Why nothing else is found: an edge counts only while its answer is open and the message has not been put off, that is,
/// it lies in the mailbox of the asked actor or is being handled by it. If all edges of a circle count, each of the actors
/// is inside of an ask, and none can answer the one before it, except by an answer that comes from elsewhere for a message
/// that is still being handled: an actor that hands a reply on and asks back in the same breath has to say so by
/// `Reply.handedOn()`, or is taken for a circle. (Who has a copy of a reply can't be seen: the actor's own variables count
/// the same references.)
@usableFromInline
enum AskGraph {
  private static let lock = Lock()

  /// An actor, which runs, begins to wait for another one's answer.
  ///
  /// - Returns: the circle, if that one waits for the first; then it has not begun.
  @usableFromInline
  static func enter(_ asker: ActorCore, waitsFor recipient: ActorCore, _ reply: ReplyCore) -> AskCycle? {
    lock.lock()
    var path = [asker]
    var next: ActorCore? = recipient
    while let current = next {
      path.append(current)
      guard current !== asker else { break }
      next = current.ask.flatMap { ask in
        // Alive: both belong to a frame that is still inside its ask.
        ask.reply._withUnsafeGuaranteedRef { $0.isDue } ? ask.recipient.takeUnretainedValue() : nil
      }
    }
    // Looked at last: whoever has answered it before he began to ask himself has made no circle.
    let isCircle = next != nil && reply.isDue
    if !isCircle { asker.ask = (.passUnretained(recipient), .passUnretained(reply)) }
    lock.unlock()
    return isCircle ? AskCycle(actors: path.map { describeActor($0.name) }) : nil
  }

  /// It waits no longer.
  @usableFromInline
  static func leave(_ asker: ActorCore) {
    lock.withLock { asker.ask = nil }
  }
}
