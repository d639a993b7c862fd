/// What one worker has done with tokens and locks, in its order.
struct Account: Sendable {
  struct Receipt: Sendable {
    let token: Int
    let sender: Int
    let order: Int
    let channel: Int
  }

  /// By the number of a token: the channel that it went to.
  private(set) var sent: [(token: Int, channel: Int)] = []
  private(set) var received: [Receipt] = []
  private(set) var closed: [Int] = []
  var locks = 0
  /// What it knows of the outcome of each promise: the token, or -1 for an error.
  var outcomes: [(promise: Int, token: Int)] = []

  mutating func noteSent(_ token: Token, to channel: Int) { sent.append((token.number, channel)) }

  mutating func noteReceived(_ token: Token, from channel: Int) {
    received.append(Receipt(token: token.number, sender: token.sender, order: token.order, channel: channel))
  }

  mutating func noteClosed(_ channel: Int) { closed.append(channel) }
}

/// What must hold at the end, when the channels are empty and all workers have ended.
struct FinalAccount {
  let accounts: [Account]
  /// The channels that may drop an element for a newer one.
  let dropping: Set<Int>
  let guardedCount: Int?
  let channelCount: Int

  /// `nil`: all is right.
  var problem: String? { tokenProblem ?? orderProblem ?? countProblem ?? outcomeProblem }

  private var tokenProblem: String? {
    var senders: [Int: (worker: Int, channel: Int)] = [:]
    for (worker, account) in accounts.enumerated() {
      for (token, channel) in account.sent where senders.updateValue((worker, channel), forKey: token) != nil {
        return "token \(token) was sent twice"
      }
    }
    var receivers: [Int: Int] = [:]
    for (worker, account) in accounts.enumerated() {
      for receipt in account.received {
        let token = "token \(receipt.token), which worker \(worker) has received from channel \(receipt.channel),"
        guard let sender = senders[receipt.token] else { return "\(token) came back to its sender, too" }
        guard sender == (receipt.sender, receipt.channel) else {
          return "\(token) was sent by worker \(sender.worker) to channel \(sender.channel)"
        }
        if let other = receivers.updateValue(worker, forKey: receipt.token) {
          return "\(token) was received by worker \(other), too"
        }
      }
    }
    for (token, sender) in senders.sorted(by: { $0.key < $1.key })
    where receivers[token] == nil && !dropping.contains(sender.channel) {
      return "token \(token), which worker \(sender.worker) has sent to channel \(sender.channel), is lost"
    }
    return nil
  }

  /// What one sender sends to a channel comes in order, to each receiver.
  private var orderProblem: String? {
    struct Way: Hashable {
      let sender: Int
      let channel: Int
    }
    for (worker, account) in accounts.enumerated() {
      var last: [Way: Int] = [:]
      for receipt in account.received {
        let way = Way(sender: receipt.sender, channel: receipt.channel)
        if let before = last.updateValue(receipt.order, forKey: way), before >= receipt.order {
          return "worker \(worker) has received the \(before)th and then the \(receipt.order)th element of worker "
            + "\(receipt.sender) from channel \(receipt.channel)"
        }
      }
    }
    return nil
  }

  private var countProblem: String? {
    let locks = accounts.reduce(0) { $0 + $1.locks }
    guard let guardedCount else { return "the mutex is held, and all workers have ended" }
    if guardedCount != locks { return "the mutex was held \(locks) times, and its count is \(guardedCount)" }
    for channel in 0..<channelCount {
      let closes = accounts.reduce(0) { $0 + $1.closed.count { $0 == channel } }
      if closes != 1 { return "channel \(channel) was closed for the first time \(closes) times" }
    }
    return nil
  }

  private var outcomeProblem: String? {
    var known: [Int: Int] = [:]
    for account in accounts {
      for (promise, token) in account.outcomes {
        if let other = known.updateValue(token, forKey: promise), other != token {
          return "promise \(promise) has two outcomes: \(other) and \(token)"
        }
      }
    }
    return nil
  }
}
