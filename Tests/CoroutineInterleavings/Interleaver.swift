// SPDX-License-Identifier: Apache-2.0

#if COROUTINE_INTERLEAVINGS
  import CCoroutineSystem
  import Context
  import CoroutineTesting
  import Dispatch
  import Foundation

  /// Runs a few threads one at a time, by turns that a `ScheduleSource` gives: a turn may end before each access to an atomic
  /// word of the runtime, and ends where the thread would sleep.
  ///
  /// So one run is one interleaving of these accesses, the same each time for the same decisions, and all of them can be tried
  /// one after another. A wake that is lost is found at once: no thread can go on.
  // Unchecked: `lock` guards what changes. Nearly always only the thread that has the turn changes it; threads that are not
  // the explorer's may wake one.
  final class Interleaver: InterleavingExplorer, @unchecked Sendable {
    // Unchecked: as the interleaver, which it is a part of.
    private final class Player: @unchecked Sendable {
      let number: Int
      let body: () -> Void
      /// Given with the turn.
      let turn = DispatchSemaphore(value: 0)
      var thread: coroutine_system_thread = 0
      var state = State.able
      /// Whether it may lose the turn at an access: after its `begin`.
      var hasBegun = false
      var wasTimedOut = false
      /// Counts sleeps of all threads.
      var sleepNumber = 0

      init(_ number: Int, _ body: @escaping () -> Void) {
        self.number = number
        self.body = body
      }
    }

    private enum State: Equatable, CustomStringConvertible {
      case able
      /// Until a wake at this address, or, if it is timed, until no thread can go on otherwise.
      case asleep(at: UInt, isTimed: Bool)
      /// At its `begin`, until all are there.
      case early
      case ended

      var description: String {
        switch self {
        case .able: "able"
        case .asleep(let address, let isTimed):
          "asleep at \(String(address, radix: 16))\(isTimed ? " for a while" : "")"
        case .early: "waiting for the others to begin"
        case .ended: "over"
        }
      }
    }

    private let source: any ScheduleSource
    /// Those that the runtime starts are added at the end.
    private var players: [Player]
    private let lock = NSLock()
    private let hasAdopted = DispatchSemaphore(value: 0)
    private var running: Player?
    private let isOver = DispatchSemaphore(value: 0)
    private var sleeps = 0
    private(set) var accesses = 0
    /// How often a sleep ended since no thread could go on otherwise.
    private(set) var timeouts = 0
    /// What the run did, for the report of a failure: the thread at each change of turns.
    private(set) var turns: [Int] = []
    private let fail: (String) -> Never

    init(_ source: any ScheduleSource, _ bodies: [() -> Void], fail: @escaping (String) -> Never) {
      self.source = source
      self.fail = fail
      players = bodies.enumerated().map { Player($0.offset + 1, $0.element) }
    }

    /// Runs all threads to their ends.
    func run() {
      let areThere = DispatchSemaphore(value: 0)
      for player in players {
        let thread = Thread { [self] in
          player.thread = coroutine_system_own_thread()
          areThere.signal()
          player.turn.wait()
          player.body()
          lock.withLock { player.state = .ended }
          passTurn(from: player)
        }
        thread.stackSize = 1 << 20
        thread.start()
        areThere.wait()
      }
      Interleaving.explorer = self
      running = players[0]
      players[0].turn.signal()
      isOver.wait()
      Interleaving.explorer = nil
    }

    /// From here on the calling thread may lose its turn at each access. Waits until all threads have come so far: what they
    /// prepare before is no part of what is explored.
    func begin() {
      guard let player = current else { return }
      player.hasBegun = true
      let isLast = lock.withLock {
        let others = players.filter { $0 !== player && $0.state != .early && !$0.hasBegun && $0.state != .ended }
        if !others.isEmpty {
          player.state = .early
        } else {
          for player in players where player.state == .early { player.state = .able }
        }
        return others.isEmpty
      }
      if !isLast { passTurn(from: player) }
    }

    // MARK: As an explorer

    func reachAccess() {
      guard let player = current, player.hasBegun else { return }
      accesses += 1
      guard accesses < 100_000 else { fail("comes to no end: turns of \(turns.suffix(40))") }
      let others = lock.withLock { players.filter { $0 !== player && $0.state == .able } }
      guard !others.isEmpty else { return }
      let choice = source.choose(.preemption, of: others.count + 1) { [player.number] + others.map(\.number) }
      if choice > 0 { give(others[choice - 1], from: player) }
    }

    func sleep(at address: UnsafeRawPointer, isTimed: Bool) -> Interleaving.Sleep? {
      guard let player = current else { return nil }
      lock.withLock {
        player.state = .asleep(at: UInt(bitPattern: address), isTimed: isTimed)
        player.wasTimedOut = false
        sleeps += 1
        player.sleepNumber = sleeps
      }
      passTurn(from: player)
      return player.wasTimedOut ? .timedOut : .woken
    }

    func wake(_ count: Int, at address: UnsafeRawPointer) -> Int {
      lock.withLock {
        var woken = 0
        for player in players where woken < count {
          guard case .asleep(UInt(bitPattern: address), _) = player.state else { continue }
          player.state = .able
          woken += 1
        }
        return woken
      }
    }

    func letOthersRun() {
      guard let player = current, player.hasBegun else { return }
      let others = lock.withLock { players.filter { $0 !== player && $0.state == .able } }
      // Time passes while it looks again and again.
      guard let next = others.isEmpty ? timeOut() : others[choose(among: others)] else { return }
      source.didYield(player.number)
      give(next, from: player)
    }

    func awaitNewThread() {
      if current != nil { hasAdopted.wait() }
    }

    func adoptThread() {
      let player = Player(lock.withLock { players.count } + 1, {})
      player.thread = coroutine_system_own_thread()
      player.hasBegun = true
      lock.withLock { players.append(player) }
      hasAdopted.signal()
      player.turn.wait()
    }

    func dismissThread() {
      guard let player = current else { return }
      lock.withLock { player.state = .ended }
      passTurn(from: player)
    }

    // MARK: Turns

    private var current: Player? {
      guard let running, running.thread == coroutine_system_own_thread() else { return nil }
      return running
    }

    private func choose(among players: [Player]) -> Int {
      players.count == 1 ? 0 : source.choose(.turn, of: players.count) { players.map(\.number) }
    }

    /// The thread can't go on.
    private func passTurn(from player: Player) {
      // In one step: a thread that is none of the explorer's may wake one.
      let (able, states) = lock.withLock { (players.filter { $0.state == .able }, players.map(\.state)) }
      if !able.isEmpty {
        give(able[choose(among: able)], from: player)
      } else if let late = timeOut() {
        give(late, from: player)
      } else if states.allSatisfy({ $0 == .ended }) {
        isOver.signal()
      } else {
        fail("no thread can go on: \(states.enumerated().map { "\($0 + 1) is \($1)" }.joined(separator: ", "))")
      }
    }

    /// Of those whose sleep has a limit, the one that has slept longest goes on. (By choice, one could look again for ever at a
    /// lock whose holder sleeps.)
    private func timeOut() -> Player? {
      lock.withLock {
        let timed = players.filter { if case .asleep(_, true) = $0.state { true } else { false } }
        guard let late = timed.min(by: { $0.sleepNumber < $1.sleepNumber }) else { return nil }
        timeouts += 1
        late.wasTimedOut = true
        late.state = .able
        return late
      }
    }

    private func give(_ next: Player, from player: Player) {
      guard next !== player else { return }
      turns.append(next.number)
      running = next
      // Asked before: another thread may run, and end, from here on.
      let hasEnded = player.state == .ended
      next.turn.signal()
      if !hasEnded { player.turn.wait() }
    }
  }
#endif
