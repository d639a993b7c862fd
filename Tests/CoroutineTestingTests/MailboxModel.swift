import Coroutine

/// An actor's mailbox: messages in the order in which they came, of which the actor takes one by one, a bound, and a stop. What
/// the actor takes, and so in which order it handles the messages, are operations as well.
struct MailboxModel: SequentialSpecification {
  enum Operation: Hashable, Sendable {
    case tell(Int)
    case ask(Int)
    /// As `ask`, but it does not wait for room.
    case send(Int)
    /// The actor may take one more message.
    case allow
    case stop
    /// By the actor.
    case take
    /// What is left, after a stop, at the end.
    case end
  }

  enum Outcome: Hashable, Sendable {
    case done
    /// How many messages were handled before it.
    case answer(Int)
    case full, stopped
    case message(Int)
    /// There is nothing to take any more.
    case over
    /// The dead letters, by number.
    case dead([Int])
  }

  /// What has become of the message of an ask, or of a send, that is not over.
  private enum Asked: Hashable {
    case queued
    /// So many were handled before it.
    case handled(Int)
    /// Another one got its place.
    case displaced
  }

  private struct Message: Hashable {
    enum Kind { case tell, ask, send }

    let number: Int
    let kind: Kind
  }

  let capacity: Int
  let overflow: MailboxPolicy.Overflow
  private var messages: [Message] = []
  private var asked: [Int: Asked] = [:]
  private var dead: Set<Int> = []
  private var turns: Int
  private var taken = 0
  private var isStopped = false

  /// - Parameter turns: how many messages the actor may take at first.
  init(capacity: Int, overflow: MailboxPolicy.Overflow, turns: Int) {
    self.capacity = capacity
    self.overflow = overflow
    self.turns = turns
  }

  private var isFull: Bool { messages.count >= capacity }

  private func with(_ change: (inout Self) -> Bool) -> [Self] {
    var next = self
    return change(&next) ? [next] : []
  }

  /// A message comes in. Empty: there is no room for it now.
  private func accepting(_ number: Int, _ kind: Message.Kind) -> [Self] {
    with { next in
      guard !isStopped, asked[number] == nil else { return false }
      if isFull {
        switch overflow {
        case .suspend, .fail: return false
        // One that asks is told.
        case .dropNewest:
          guard kind == .tell else { return false }
          next.dead.insert(number)
          return true
        case .dropOldest:
          let oldest = next.messages.removeFirst()
          if next.asked[oldest.number] != nil { next.asked[oldest.number] = .displaced } else { next.lose(oldest) }
        }
      }
      next.messages.append(Message(number: number, kind: kind))
      if kind != .tell { next.asked[number] = .queued }
      return true
    }
  }

  /// An accepted message is not handled, and no asker waits for its answer. The promise of a send gets the error.
  private mutating func lose(_ message: Message) {
    if message.kind != .send { dead.insert(message.number) }
  }

  func states(after operation: Operation, _ outcome: Outcome) -> [Self] {
    switch (operation, outcome) {
    case (.tell(let number), .done): return accepting(number, .tell)
    case (.tell, .stopped): return isStopped ? [self] : []
    case (.tell, .full): return overflow == .fail && isFull && !isStopped ? [self] : []
    case (.ask(let number), _): return states(afterAsking: number, outcome, waitsForRoom: true)
    case (.send(let number), _): return states(afterAsking: number, outcome, waitsForRoom: false)
    case (.allow, .done):
      return with {
        $0.turns += 1
        return true
      }
    case (.stop, .done):
      return with {
        $0.isStopped = true
        return true
      }
    case (.take, .message(let number)): return taking(number)
    case (.take, .over): return isStopped ? [self] : []
    case (.end, .dead(let numbers)):
      return with { next in
        for message in messages { next.lose(message) }
        next.messages = []
        return isStopped && asked.isEmpty && next.dead == Set(numbers) && next.dead.count == numbers.count
      }
    default: return []
    }
  }

  /// The second step of an ask, or the only one if its message was not accepted.
  private func states(afterAsking number: Int, _ outcome: Outcome, waitsForRoom: Bool) -> [Self] {
    let isOver: Bool
    switch (outcome, asked[number]) {
    case (.answer(let count), .handled(let before)): isOver = count == before
    case (.full, .displaced): isOver = true
    case (.full, nil): isOver = isFull && !isStopped && (overflow == .suspend ? !waitsForRoom : overflow != .dropOldest)
    case (.stopped, .queued), (.stopped, nil): isOver = isStopped
    default: isOver = false
    }
    guard isOver else { return [] }
    return with { next in
      next.asked[number] = nil
      // After the stop no check looks at the order any more.
      next.messages.removeAll { $0.number == number }
      return true
    }
  }

  private func taking(_ number: Int) -> [Self] {
    with { next in
      guard !isStopped, turns > 0, messages.first?.number == number else { return false }
      next.messages.removeFirst()
      if asked[number] != nil { next.asked[number] = .handled(taken) }
      next.turns -= 1
      next.taken += 1
      return true
    }
  }

  func states(afterCancelled operation: Operation) -> [Self] {
    switch operation {
    case .tell: return [self]
    case .ask(let number):
      // With an answer it would have returned that. Otherwise its message stays where it is.
      guard asked[number] != .displaced else { return [] }
      return withoutAsker(of: number)
    case .send(let number):
      // It was sent, if it could be, before its promise was waited for.
      guard asked[number] != nil || isStopped || isFull && overflow != .dropOldest else { return [] }
      return withoutAsker(of: number)
    default: return []
    }
  }

  private func withoutAsker(of number: Int) -> [Self] {
    with {
      $0.asked[number] = nil
      return true
    }
  }

  func states(afterEffectOf operation: Operation) -> [Self] {
    switch operation {
    case .ask(let number): accepting(number, .ask)
    case .send(let number): accepting(number, .send)
    default: []
    }
  }

  func mayWait(_ operations: [Operation]) -> Bool {
    let waitsForRoom = overflow == .suspend && isFull && !isStopped
    return asked.values.allSatisfy { $0 == .queued && !isStopped }
      && operations.allSatisfy { operation in
        switch operation {
        case .tell, .ask: waitsForRoom
        case .take: (turns == 0 || messages.isEmpty) && !isStopped
        case .send, .allow, .stop, .end: false
        }
      }
  }
}
