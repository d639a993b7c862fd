// SPDX-License-Identifier: Apache-2.0

import Context

/// Which actor waits for an answer of which: so that a cycle of asks is found before it waits for ever.
///
/// Only an actor that waits while it runs is in the graph: in `ask`, for the promise of a `send` or a promise that
/// `then` derives from it, or for several of them at once, all of which it needs. (A wait that any one of several can
/// end is not in it.) All of the graph is guarded by one lock. Each ask of an actor takes it twice, those of others
/// never.
///
/// Why every cycle is found: an edge is made before the wait and taken out after it, under the lock, and a cycle that
/// lasts consists of edges that stay. The asker that makes the last of them sees all others.
///
/// Why nothing else is found: an edge counts only while its answer is open and the message has not been put off. That
/// is, it lies in the mailbox of the asked actor or is being handled by it. If all edges of a cycle count, each of the
/// actors is inside of an ask, and none can answer the one before it. The exception is an answer that comes from
/// elsewhere for a message that is still being handled: an actor that hands a reply on and asks back while it handles
/// the message has to say so by `Reply.handedOn()`, or is taken for a cycle. (The holders of a reply's copies can't be
/// seen: the actor's own variables count the same references.)
@usableFromInline
enum AskGraph {
  private static let lock = Lock()
  /// In a child of `fork` actors may ask each other.
  private static let isLockFreeInChildren: Void = lock.keepFreeInChildren()

  /// An actor, which runs, begins to wait for another one's answer; perhaps for several, one call for each.
  ///
  /// - Returns: the cycle, if that one waits for the first; then it has not begun.
  @usableFromInline
  static func addEdge(from asker: ActorCore, to recipient: ActorCore, _ reply: ReplyCore) -> AskCycle? {
    _ = isLockFreeInChildren
    lock.lock()
    var cycle = path(from: recipient, to: asker)
    // Looked at last: an actor that has answered it before it began to ask has made no cycle.
    if !reply.isDue { cycle = nil }
    if cycle == nil { asker.asks.append(Ask(recipient: .passUnretained(recipient), reply: .passUnretained(reply))) }
    lock.unlock()
    return cycle.map { AskCycle(actors: ([asker] + $0).map { describeActor($0.name) }) }
  }

  /// It waits no longer for this answer. Around that it may wait for others: what goes while it asks, as a message that its own has
  /// displaced, may run code that asks.
  @usableFromInline
  static func removeEdge(from asker: ActorCore, _ reply: ReplyCore) {
    lock.withLock { asker.asks.remove(reply) }
  }

  /// The actors by way of which one waits for another, both included, if it does.
  private static func path(from first: ActorCore, to last: ActorCore) -> [ActorCore]? {
    var path = [(actor: first, tried: 0)]
    // Those that wait for several: one way to each is enough.
    var seen: Set<ObjectIdentifier> = []
    while let (actor, tried) = path.last {
      if actor === last { return path.map(\.actor) }
      guard tried < actor.asks.count else {
        path.removeLast()
        continue
      }
      path[path.count - 1].tried += 1
      let ask = actor.asks[tried]
      guard ask.reply._withUnsafeGuaranteedRef({ $0.isDue }) else { continue }
      let next = ask.recipient.takeUnretainedValue()
      if next.asks.count > 1, !seen.insert(ObjectIdentifier(next)).inserted { continue }
      path.append((next, 0))
    }
    return nil
  }

  /// One answer that an actor waits for. Alive: both belong to a frame that is still inside its wait.
  struct Ask {
    let recipient: Unmanaged<ActorCore>
    let reply: Unmanaged<ReplyCore>
  }

  /// The edges of one actor: nearly always one, for which nothing is allocated.
  struct Asks {
    private var first: Ask?
    private var others: [Ask] = []

    var count: Int { first == nil ? 0 : 1 + others.count }

    subscript(index: Int) -> Ask {
      guard let first else { fatalError("an asker without an actor that it asks") }
      return index == 0 ? first : others[index - 1]
    }

    mutating func append(_ ask: Ask) {
      if first == nil { first = ask } else { others.append(ask) }
    }

    mutating func remove(_ reply: ReplyCore) {
      let reply = Unmanaged.passUnretained(reply).toOpaque()
      if let index = others.lastIndex(where: { $0.reply.toOpaque() == reply }) {
        others.remove(at: index)
        // Those of many at once take memory, which the actor would keep.
        if others.isEmpty { others = [] }
      } else if first?.reply.toOpaque() == reply {
        first = others.popLast()
      }
    }
  }
}
