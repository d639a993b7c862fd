import CoroutineTestSupport
import Testing

@testable import Coroutine

/// The reports of a promise's progress, and their readers.
@Suite(.ownThreads) struct ProgressStateMachineTests {
  @Test func aReaderSeesEachReportOrANewerOneAndTheEndOnce() {
    // 0: report, 1: end, 2: read by the first reader, 3: by the second, 4: the first waits, 5: and gives up
    for keepsAll in [false, true] {
      everySequence(of: 6, length: amount(6, sanitized: 5)) { events in
        var machine = ProgressStateMachine<Int>(keepsAll: keepsAll)
        var cursors = [ProgressCursor(), ProgressCursor()]
        var seen: [[Int]] = [[], []]
        var count = 0
        var waiting: (model: ModelWaiter, node: UnsafeMutablePointer<WaitNode>)?
        var nodes: [UnsafeMutablePointer<WaitNode>] = []
        var models: [ModelWaiter] = []  // the nodes do not keep them alive
        defer { for node in nodes { node.deinitialize(count: 1).deallocate() } }
        for event in events {
          switch event {
          case 0:
            switch machine.report(count) {
            case .tooLate: #expect(machine.hasEnded)
            case .kept(let readers, let replaced):
              #expect(readers.nodes == (waiting.map { [$0.node] } ?? []))
              #expect(replaced == (keepsAll || count == 0 ? nil : count - 1))
              waiting = nil
              count += 1
            }
          case 1 where !machine.hasEnded:
            let readers = machine.end()
            #expect(readers.nodes == (waiting.map { [$0.node] } ?? []))
            waiting = nil
          case 2, 3:
            let position = cursors[event - 2].position
            let value = machine.read(&cursors[event - 2])
            #expect(value == (position == count ? nil : keepsAll ? position : count - 1))
            if let value { seen[event - 2].append(value) }
          case 4 where waiting == nil:
            let model = ModelWaiter()
            models.append(model)
            let node = UnsafeMutablePointer<WaitNode>.allocate(capacity: 1)
            node.initialize(to: WaitNode(model.waiter))
            nodes.append(node)
            switch machine.wait(node, behind: cursors[0]) {
            case .wait:
              #expect(!machine.hasEnded && cursors[0].position == count)
              waiting = (model, node)
            case .done: #expect(machine.hasEnded || cursors[0].position < count)
            case .wake, .wakeAll: Issue.record("a wait wakes no waiter")
            }
          case 5:
            guard let given = waiting else { continue }
            #expect(given.model.giveUp())
            machine.withdraw(given.node)
            waiting = nil
          default: break
          }
          #expect(machine.checkInvariants())
        }
        for reader in seen { #expect(reader == reader.sorted() && Set(reader).count == reader.count) }
        #expect(machine.latest == (count == 0 ? nil : count - 1))
      }
    }
  }
}
