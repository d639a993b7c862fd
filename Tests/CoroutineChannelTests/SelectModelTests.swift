import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

/// Three parties at two channels. Each selects among some of the four operations there: every combination, and so
/// every order of arrival. The result must be a maximal matching: no two parties wait that could meet.
@Suite(.ownThreads) struct SelectModelTests {
  /// Sends at channel 0 and 1, receives at channel 0 and 1: one bit each.
  private static let operations = 4

  private struct Party: Equatable {
    let number: Int
    let mask: Int
    func sends(at channel: Int) -> Bool { mask & (1 << channel) != 0 }
    func receives(at channel: Int) -> Bool { mask & (4 << channel) != 0 }
    func canMeet(_ other: Party) -> Bool {
      (0..<2).contains { sends(at: $0) && other.receives(at: $0) || receives(at: $0) && other.sends(at: $0) }
    }
  }

  private enum End: Sendable, Equatable {
    case sent(Int)
    case received(Int, from: Int)
    case nothing
  }

  private static func cases(of party: Party, _ channels: [Channel<Int>]) -> [any SelectCase<End>] {
    var cases: [any SelectCase<End>] = []
    for index in 0..<2 {
      if party.sends(at: index) { cases.append(channels[index].onSend(party.number) { .sent(index) }) }
      if party.receives(at: index) { cases.append(channels[index].onReceive { .received(index, from: $0) }) }
    }
    return cases
  }

  /// The result of each party, in the order of arrival. `nothing` for those that waited until they were cancelled.
  private static func run(_ parties: [Party]) throws -> (ends: [End], isClean: Bool) {
    let channels = (0..<2).map { _ in Channel<Int>() }
    let coroutines = parties.map { party in Coroutine { try select(cases(of: party, channels)) } }
    // First in, first out: each party looks and waits, or goes on after it was woken.
    for _ in 0..<2 { Coroutine.yield() }
    let isDone = coroutines.map(\.isFinished)
    var ends: [End] = []
    for (coroutine, isDone) in zip(coroutines, isDone) {
      if !isDone { coroutine.cancel() }
      ends.append((try? coroutine.get()) ?? .nothing)
    }
    let isClean = channels.allSatisfy { $0.storage.machine.senders.isEmpty && $0.storage.machine.receivers.isEmpty }
    return (ends, isClean)
  }

  private static func check(_ parties: [Party], _ ends: [End]) -> String? {
    for (party, end) in zip(parties, ends) {
      switch end {
      case .sent(let channel):
        guard party.sends(at: channel) else { return "sent what it did not offer" }
        guard ends.filter({ $0 == .received(channel, from: party.number) }).count == 1 else {
          return "sent, but not received once"
        }
      case .received(let channel, from: let sender):
        guard party.receives(at: channel), sender != party.number else { return "received what it did not want" }
        guard ends[sender] == .sent(channel) else { return "received what was not sent" }
      case .nothing:
        for (other, otherEnd) in zip(parties, ends) where other != party && otherEnd == .nothing && party.canMeet(other)
        {
          return "both wait, though they could meet"
        }
      }
    }
    // A party that arrives waits only if it can meet none of those that wait already.
    if parties[0].canMeet(parties[1]) && (ends[0] == .nothing || ends[1] == .nothing) {
      return "the first two could meet, and no other was there"
    }
    return nil
  }

  @Test func everyCombinationIsAMaximalMatching() async throws {
    let masks = 1..<(1 << Self.operations)
    let failures = try await Coroutine(on: DispatchQueue(label: "serial")) { () throws -> [String] in
      var failures: [String] = []
      var count = 0
      for first in masks {
        for second in masks {
          for third in masks {
            let parties = [first, second, third].enumerated().map { Party(number: $0, mask: $1) }
            let (ends, isClean) = try Self.run(parties)
            count += 1
            if let failure = Self.check(parties, ends) {
              failures.append("\(parties.map(\.mask)): \(ends): \(failure)")
            }
            if !isClean { failures.append("\(parties.map(\.mask)): a party is left in a queue") }
          }
        }
      }
      if count != 3_375 { failures.append("\(count) combinations") }
      return failures
    }.get()
    #expect(failures.isEmpty, "\(failures.count): \(failures.prefix(5))")
  }
}
