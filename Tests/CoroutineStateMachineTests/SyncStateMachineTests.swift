import CoroutineTestSupport
import Testing

@testable import Coroutine

/// The state machines of the locks and the like, alone: every sequence of events up to a length, with the invariants
/// checked after each.
@Suite(.ownThreads) struct SyncStateMachineTests {
  /// A coroutine that wants something, with a node of the machine's.
  private final class Party<Node> {
    let model = ModelWaiter()
    let node: UnsafeMutablePointer<Node>
    /// Whether it has got what it wanted, or given up for good.
    var isOver = false
    init(_ make: (Waiter) -> Node) {
      node = .allocate(capacity: 1)
      node.initialize(to: make(model.waiter))
    }
    deinit { node.deinitialize(count: 1).deallocate() }
    var isWaiting: Bool { !isOver && model.cause == nil }
    var wasServed: Bool { isOver || model.cause == .event }
  }

  @Test func aMutexHasOneHolderAndServesInOrder() {
    // 0: lock, 1: the owner unlocks, 2: the first waiter gives up, 3: it withdraws, 4: the last waiter gives up
    // and withdraws
    everySequence(of: 5, length: amount(7, sanitized: 5)) { events in
      var machine = MutexStateMachine()
      var word: UInt64 = 0
      var parties: [Party<MutexNode>] = []
      /// The owner of the mutex and its waiters, in order.
      var order: [Int] = []
      for event in events {
        let waiting = order.dropFirst().filter { parties[$0].isWaiting }
        switch event {
        case 0:
          let holder = LockHolder(word: UInt64(parties.count + 1) << 3 | 0b010)
          let party = Party { MutexNode(wait: WaitNode($0), holder: holder, block: .none) }
          switch MutexStateMachine.lock(by: holder, found: word) {
          case .take(let next):
            #expect(order.isEmpty)
            word = next
            party.isOver = true
          case .wait(let next):
            #expect(!order.isEmpty)
            word = next
            machine.append(party.node)
          }
          order.append(parties.count)
          parties.append(party)
        case 1:
          guard let holder = order.first else { continue }
          #expect(MutexStateMachine.holder(in: word) == parties[holder].node.pointee.holder)
          if word & MutexStateMachine.mark == 0 {
            #expect(waiting.isEmpty, "a mutex is given back without a look at its waiters")
            word = 0
          } else {
            let (next, heir) = machine.unlock()
            word = next
            #expect(heir == waiting.first.map { parties[$0].node })
          }
          order = Array(waiting)
          if let heir = order.first { #expect(parties[heir].model.cause == .event) }
        case 2:
          if let first = waiting.first { #expect(parties[first].model.giveUp()) }
        case 3:
          for index in order.dropFirst() where parties[index].model.cause == .cancelled {
            machine.withdraw(parties[index].node)
            order.removeAll { $0 == index }
            break
          }
        default:
          guard let last = waiting.last else { continue }
          #expect(parties[last].model.giveUp())
          machine.withdraw(parties[last].node)
          order.removeAll { $0 == last }
        }
        #expect((word == 0) == order.isEmpty)
        #expect(machine.checkInvariants(word))
      }
    }
  }

  @Test func aSemaphoreLosesNoPermitAndServesInOrder() {
    // 0: one permit is wanted, 1: two are, 2: one comes back, 3: the first waiter gives up, 4: the one that gave up
    // withdraws, 5: one is wanted without waiting
    everySequence(of: 6, length: amount(6, sanitized: 4)) { events in
      var machine = SemaphoreStateMachine(permits: 1)
      var parties: [Party<SemaphoreNode>] = []
      var total = 1
      var taken = 0
      for event in events {
        let before = parties.filter(\.isWaiting).count
        switch event {
        case 0, 1:
          let party = Party { SemaphoreNode(wait: WaitNode($0), count: event + 1) }
          switch machine.acquire(party.node) {
          case .done:
            #expect(before == 0, "a waiter was overtaken")
            party.isOver = true
          case .wait: break
          case .wake, .wakeAll: Issue.record("to want permits wakes no waiter")
          }
          parties.append(party)
        case 2:
          total += 1
          _ = machine.release(1)
        case 3:
          if let first = parties.first(where: \.isWaiting) { #expect(first.model.giveUp()) }
        case 4:
          guard let party = parties.first(where: { !$0.isOver && $0.model.cause == .cancelled }) else { continue }
          party.isOver = true
          _ = machine.withdraw(party.node)
          parties.removeAll { $0 === party }
        default:
          if machine.tryAcquire(1) { taken += 1 }
        }
        let someHaveToWithdraw = parties.contains { !$0.isOver && $0.model.cause == .cancelled }
        #expect(machine.checkInvariants(someHaveToWithdraw: someHaveToWithdraw))
        let served = parties.filter { $0.wasServed && $0.model.cause != .cancelled }
        let given = served.reduce(taken) { $0 + $1.node.pointee.count }
        #expect(machine.available >= 0 && machine.available + given == total)
        // The served ones came before those that wait. None waits without need, unless one that gave up is still in
        // the queue.
        if let firstWaiting = parties.firstIndex(where: \.isWaiting) {
          let hasGivenUpOne = parties[..<firstWaiting].contains { !$0.isOver && $0.model.cause == .cancelled }
          #expect(hasGivenUpOne || machine.available < parties[firstWaiting].node.pointee.count)
          #expect(!parties[firstWaiting...].contains { $0.wasServed && $0.model.cause != .cancelled })
        }
      }
    }
  }

  @Test func aConditionsSignalReachesAWaiter() {
    // 0: register, 1: the first registered one arrives, 2: signal, 3: broadcast, 4: the first arrived one gives up
    // and withdraws, 5: the first registered one withdraws without arriving (cancelled before)
    everySequence(of: 6, length: amount(6, sanitized: 4)) { events in
      var machine = ConditionStateMachine()
      var registered: [Party<ConditionNode>] = []
      var arrived: [Party<ConditionNode>] = []
      /// The queue in its order: signals must reach these.
      var queue: [Party<ConditionNode>] = []
      func isSignalled(_ party: Party<ConditionNode>) -> Bool {
        party.node.pointee.isSignalled || party.model.cause == .event
      }
      func expectSignalled() {
        if let first = queue.first {
          #expect(isSignalled(first))
          queue.removeFirst()
        }
        #expect(!queue.contains(where: isSignalled))
      }
      for event in events {
        switch event {
        case 0:
          let party = Party { ConditionNode(wait: WaitNode($0)) }
          machine.register(party.node)
          registered.append(party)
          queue.append(party)
        case 1:
          guard !registered.isEmpty else { continue }
          let party = registered.removeFirst()
          switch machine.arrive(party.node) {
          case .done: #expect(!queue.contains { $0 === party })
          case .wait:
            #expect(queue.contains { $0 === party })
            arrived.append(party)
          case .wake, .wakeAll: Issue.record("an arrival wakes no waiter")
          }
        case 2:
          let wakes = machine.signal() != nil
          #expect(wakes == (queue.first.map { party in arrived.contains { $0 === party } } ?? false))
          expectSignalled()
        case 3:
          _ = machine.broadcast()
          #expect(queue.allSatisfy(isSignalled))
          queue = []
        case 4:
          guard let party = arrived.first(where: \.isWaiting) else { continue }
          #expect(party.model.giveUp())
          _ = machine.withdraw(party.node)
          _ = machine.withdraw(party.node)
          queue.removeAll { $0 === party }
        default:
          guard !registered.isEmpty else { continue }
          let party = registered.removeFirst()
          let had = party.node.pointee.isSignalled
          queue.removeAll { $0 === party }
          _ = machine.withdraw(party.node)
          _ = machine.withdraw(party.node)
          if had { expectSignalled() }
        }
        #expect(machine.waiters.count == queue.count)
      }
    }
  }

  @Test func aReadWriteLockHasManyReadersOrOneWriterAndServesInOrder() {
    // 0: read, 1: write, 2: a reader ends, 3: the writer ends, 4: the first waiter gives up, 5: the one that gave up
    // withdraws
    everySequence(of: 6, length: amount(6, sanitized: 4)) { events in
      var machine = ReadWriteLockStateMachine()
      var waiting: [Party<ReadWriteLockNode>] = []
      /// Those that gave up, are out of the queue for that, and have not withdrawn.
      var withdrawing: [Party<ReadWriteLockNode>] = []
      var reading: [LockHolder] = []
      var readers: Int { reading.count }
      var writers = 0
      func settle() {
        while let first = waiting.first, first.model.cause == .event {
          if first.node.pointee.kind == .reader { reading.append(first.node.pointee.holder) } else { writers += 1 }
          waiting.removeFirst()
        }
        #expect(!waiting.contains { $0.model.cause == .event }, "a waiter was overtaken")
      }
      for (number, event) in events.enumerated() {
        switch event {
        case 0, 1:
          let party = Party {
            ReadWriteLockNode(
              wait: WaitNode($0), kind: event == 0 ? .reader : .writer,
              holder: LockHolder(word: UInt64(number + 1) << 3 | 0b010), block: .none)
          }
          if case .done = machine.lock(party.node) {
            #expect(waiting.first(where: \.isWaiting) == nil)
            if event == 0 { reading.append(party.node.pointee.holder) } else { writers += 1 }
          } else {
            waiting.append(party)
          }
        case 2 where readers > 0:
          _ = machine.endRead(reading.removeFirst())
        case 3 where writers > 0:
          writers -= 1
          _ = machine.endWrite()
        case 4:
          if let first = waiting.first(where: \.isWaiting) { #expect(first.model.giveUp()) }
        case 5:
          let index = waiting.firstIndex(where: { $0.model.cause == .cancelled })
          guard let party = withdrawing.popLast() ?? index.map({ waiting.remove(at: $0) }) else { continue }
          _ = machine.withdraw(party.node)
        default: continue
        }
        // A waiter that gave up, and was passed over.
        while let index = waiting.firstIndex(where: { $0.model.cause == .cancelled && !$0.node.pointee.wait.isQueued })
        {
          withdrawing.append(waiting.remove(at: index))
        }
        settle()
        let someHaveToWithdraw = !withdrawing.isEmpty || waiting.contains { $0.model.cause == .cancelled }
        #expect(machine.checkInvariants(someHaveToWithdraw: someHaveToWithdraw))
        #expect(writers <= 1 && (writers == 0 || readers == 0))
        #expect(machine.readers == readers && (machine.writer != .none) == (writers == 1))
        #expect(machine.knownReaders.ids.sorted() == reading.compactMap(\.coroutineID).sorted())
        // Else one of those lets it in when it withdraws.
        if withdrawing.isEmpty, let first = waiting.first, first.isWaiting {
          let waitsForSomebody = first.node.pointee.kind == .reader ? writers == 1 : readers + writers > 0
          #expect(waitsForSomebody)
        }
      }
    }
  }

  @Test func aBarrierLetsAsManyOnAsThereAreParties() {
    // 0: a party arrives, 1: the first waiter gives up, 2: it withdraws
    for parties in 1...3 {
      everySequence(of: 3, length: amount(8, sanitized: 6)) { events in
        var machine = BarrierStateMachine(parties: parties)
        var round: [Party<BarrierNode>] = []
        for event in events {
          switch event {
          case 0:
            let party = Party { BarrierNode(wait: WaitNode($0)) }
            // Those that have given up do not count, though they have not withdrawn.
            let waiting = round.filter(\.isWaiting).count
            switch machine.arrive(party.node) {
            case .wakeAll(let woken):
              #expect(waiting == parties - 1 && woken.nodes.count == waiting && party.node.pointee.isLast)
              #expect(!round.contains { $0.isWaiting })
              // Those withdraw later, which changes nothing in the next round.
              for late in round where late.model.cause == .cancelled { machine.withdraw(late.node) }
              round = []
            case .wait:
              #expect(waiting < parties - 1)
              round.append(party)
            case .done, .wake: Issue.record("a barrier lets all go at once")
            }
          case 1:
            if let first = round.first(where: \.isWaiting) { #expect(first.model.giveUp()) }
          default:
            guard let index = round.firstIndex(where: { $0.model.cause == .cancelled }) else { continue }
            let party = round.remove(at: index)
            machine.withdraw(party.node)
          }
          #expect(machine.checkInvariants())
          let queued = round.filter(\.node.pointee.wait.isQueued)
          #expect(machine.waiters.count == queued.count && queued.count < parties)
          #expect(!round.contains { $0.isWaiting && !$0.node.pointee.wait.isQueued })
        }
      }
    }
  }

  @Test func aWaitGroupLetsAllGoAtZero() {
    // 0: add, 1: done, 2: wait, 3: the first waiter gives up and withdraws
    everySequence(of: 4, length: amount(7, sanitized: 5)) { events in
      var machine = WaitGroupStateMachine(count: 1)
      var parties: [Party<WaitNode>] = []
      var count = 1
      for event in events {
        switch event {
        case 0:
          count += 1
          #expect(machine.change(by: 1).isEmpty)
        case 1 where count > 0:
          count -= 1
          let waiting = parties.filter(\.isWaiting).map(\.node)
          #expect(machine.change(by: -1).nodes == (count == 0 ? waiting : []))
        case 2:
          let party = Party { WaitNode($0) }
          if case .done = machine.wait(party.node) { party.isOver = true }
          #expect(party.isOver == (count == 0))
          parties.append(party)
        case 3:
          guard let first = parties.first(where: \.isWaiting) else { continue }
          #expect(first.model.giveUp())
          _ = machine.withdraw(first.node)
        default: continue
        }
        #expect(machine.checkInvariants())
        #expect(count > 0 || !parties.contains(where: \.isWaiting))
      }
    }
  }

  @Test func aOnceIsMadeByOneAtATimeAndOnce() {
    // 0: the value is wanted, 1: the maker succeeds, 2: it fails, 3: the first waiter gives up, 4: it withdraws
    everySequence(of: 5, length: amount(6, sanitized: 5)) { events in
      var machine = OnceStateMachine()
      var parties: [Party<OnceNode>] = []
      var maker: Int?
      var isMade = false
      for event in events {
        let waiting = parties.indices.filter { parties[$0].isWaiting }
        switch event {
        case 0:
          let holder = LockHolder(word: UInt64(parties.count + 1) << 3 | 0b010)
          let party = Party { OnceNode(wait: WaitNode($0), holder: holder, block: .none) }
          if case .done = machine.begin(party.node) {
            party.isOver = true
            #expect(party.node.pointee.mustMake == !isMade && maker == nil)
            if party.node.pointee.mustMake { maker = parties.count }
          } else {
            #expect(maker != nil && !isMade)
          }
          parties.append(party)
        case 1 where maker != nil:
          (maker, isMade) = (nil, true)
          #expect(machine.succeed().nodes.count == waiting.count)
          #expect(waiting.allSatisfy { !parties[$0].node.pointee.mustMake })
        case 2 where maker != nil:
          let next = machine.fail()
          maker = waiting.first
          #expect((next != nil) == (maker != nil))
          if let maker { #expect(parties[maker].node.pointee.mustMake) }
        case 3:
          if let first = waiting.first { #expect(parties[first].model.giveUp()) }
        case 4:
          guard let party = parties.first(where: { !$0.isOver && $0.model.cause == .cancelled }) else { continue }
          party.isOver = true
          _ = machine.withdraw(party.node)
        default: continue
        }
        #expect(machine.checkInvariants())
        #expect(machine.isMade == isMade)
        #expect(machine.maker == (maker.map { parties[$0].node.pointee.holder } ?? .none))
        #expect(maker != nil || !parties.contains(where: \.isWaiting))
      }
    }
  }

  /// Between its last look and its wait, which are under the lock, a waiter before it is cancelled, which needs no lock.
  @Test func aSelectThatWaitsTakesNoPermits() {
    let storage = Semaphore(permits: 1).storage
    let (many, few) = (ModelWaiter(), ModelWaiter())
    var first = SemaphoreNode(wait: WaitNode(many.waiter), count: 2)
    var second = SemaphoreNode(wait: WaitNode(few.waiter), count: 1)
    withUnsafeMutablePointer(to: &first) { first in
      withUnsafeMutablePointer(to: &second) { second in
        storage.enqueue(first)
        let isThere = storage.attempt(1)
        #expect(!isThere && many.giveUp())
        storage.enqueue(second)
        #expect(storage.available == 1)
        let granted = storage.withdraw(first)
        #expect(!granted.isEmpty && few.cause == .event && storage.available == 0)
      }
    }
  }
}
