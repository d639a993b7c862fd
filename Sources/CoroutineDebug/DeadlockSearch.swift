// SPDX-License-Identifier: Apache-2.0

import CCoroutineUnwind
import Context
import Coroutine

/// Finds the cycles in which coroutines wait for each other, and coroutines that are suspended where they keep a thread's lock.
///
/// Why no cycle is made up: all that counts is read in one freeze, in this order.
///
/// 1. Each coroutine is visited. One that is found suspended does not go on before the freeze ends.
/// 2. What each of those waits for is read again, and the wakers that could end that wait. A suspended coroutine that
///    holds a lock, has not ended, makes a value, or handles a message, goes on doing so until the end of the freeze.
/// 3. None of the waits of those that are stuck then may have been ended meanwhile (a cancel, an answer that came
///    another way). So at this moment all of it is true, and only a cancel will change it.
enum DeadlockSearch {
  /// A finding, as far as it distinguishes one from another.
  struct Identity: Hashable {
    let kind: DeadlockReport.Kind
    let members: [UInt64]
    let resources: [UInt]
  }

  struct Finding {
    /// One that has suspended inside an initialiser is the only member, and has no resource.
    let cycle: WaitGraph.Cycle
    let identity: Identity
  }

  /// What there is, without the stacks.
  static func findings() throws -> [Finding] {
    var all: [InspectedCoroutine] = []
    var found: [Finding] = []
    try Inspection.visitAll(
      last: { found = findings(among: all) }, { if !$0.isGenerator { all.append($0) } })
    return found
  }

  /// The same, with the stacks.
  static func reports() throws -> [(identity: Identity, report: DeadlockReport)] {
    var findings: [Finding] = []
    let backtraces = try backtraces { all in
      findings = self.findings(among: all)
      let concerned = Set(findings.flatMap { $0.cycle.members + $0.cycle.waiting })
      return all.filter { concerned.contains($0.id) }
    }
    let byID = Dictionary(backtraces.map { ($0.id, $0) }) { first, _ in first }
    return findings.map { finding in
      let report = DeadlockReport(
        kind: finding.identity.kind, coroutines: finding.cycle.members.compactMap { byID[$0] },
        waiting: finding.cycle.waiting.compactMap { byID[$0] })
      return (finding.identity, report)
    }
  }

  /// A coroutine, and why it cannot have been leaked, in words, if there is a reason.
  typealias Leftover = (backtrace: CoroutineBacktrace, activity: String?)

  /// All coroutines.
  static func leftovers() throws -> [Leftover] {
    var activities: [UInt64: String] = [:]
    let backtraces = try backtraces { all in
      let scopes = Set(all.compactMap { $0.scope?.id })
      for coroutine in all {
        activities[coroutine.id] = activity(of: coroutine)
        if case .scope(let scope) = coroutine.wakers, !scopes.contains(scope) {
          activities[coroutine.id] = "waits for children that have just ended"
        }
      }
      return all
    }
    return backtraces.sorted { $0.id < $1.id }.map { ($0, activities[$0.id]) }
  }

  private static func activity(of coroutine: InspectedCoroutine) -> String? {
    switch coroutine.state {
    case .new: "has not begun"
    case .ready: "is ready"
    case .running: "runs"
    case .suspended:
      if coroutine.hasTimeout || coroutine.waitIsTimed == true {
        "waits until a deadline"
      } else if coroutine.waitsForTick {
        "waits for a tick"
      } else if !coroutine.isParked {
        "was just woken"
      } else {
        switch coroutine.operation {
        case .suspension: "waits for a callback"
        case .async: "waits for async code"
        case .blocking: "waits for work that blocks a thread"
        default: nil
        }
      }
    }
  }

  /// All coroutines but those that `isLeftOut` picks; of those that block a thread, where they do it. That asks the threads.
  static func all(except isLeftOut: (UInt64) -> Bool) throws -> [CoroutineBacktrace] {
    try backtraces(asking: .unnoticed) { all in all.filter { !isLeftOut($0.id) } }.sorted { $0.id < $1.id }
  }

  /// Their numbers alone.
  static func allIDs(except isLeftOut: (UInt64) -> Bool) throws -> Set<UInt64> {
    var ids: Set<UInt64> = []
    try Inspection.visitAll(last: {}, { if !$0.isGenerator, !isLeftOut($0.id) { ids.insert($0.id) } })
    return ids
  }

  private static func backtraces(
    asking: RunningStacks.Asking = .none, _ choose: ([InspectedCoroutine]) -> [InspectedCoroutine]
  ) throws -> [CoroutineBacktrace] {
    var capture = try StackCapture(frameLimit: 1000, asking: asking)
    var backtraces = try capture.readSome(choose)
    var symbolicator = Symbolicator()
    for index in backtraces.indices {
      backtraces[index].frames = symbolicator.frames(of: capture.stacks[backtraces[index].stackNumber])
      if let creators = backtraces[index].creatorsNumber {
        backtraces[index].creationFrames = symbolicator.frames(of: capture.stacks[creators])
      }
    }
    return backtraces
  }

  // MARK: In the freeze

  private static func findings(among all: [InspectedCoroutine]) -> [Finding] {
    let inside = all.filter(\.isInsideInitialiser).map(\.id).sorted()
    return cycles(among: all)
      + inside.map { id in
        Finding(
          cycle: WaitGraph.Cycle(members: [id], waiting: []),
          identity: Identity(kind: .initialiser, members: [id], resources: []))
      }
  }

  /// Steps 2 and 3.
  private static func cycles(among all: [InspectedCoroutine]) -> [Finding] {
    let byID = Dictionary(all.map { ($0.id, $0) }) { first, _ in first }
    var children: [UInt: [UInt64]] = [:]
    for coroutine in all {
      if let scope = coroutine.scope { children[scope.id, default: []].append(coroutine.id) }
    }
    let nodes = all.compactMap { coroutine -> WaitGraph.Node? in
      // Most wait for what any code can do.
      let wakers = coroutine.wakers
      guard wakers != .unknown, !coroutine.hasTimeout, !isTimed(coroutine, in: byID) else { return nil }
      return WaitGraph.Node(id: coroutine.id, resource: coroutine.waitsAt, wakers: wakers)
    }
    var graph = WaitGraph(nodes, children: children)
    for id in graph.stuck where byID[id]?.isParked != true { graph.free(id) }
    let resources = Dictionary(nodes.map { ($0.id, $0.resource) }) { first, _ in first }
    return graph.cycles.map { cycle in
      let resources = cycle.members.compactMap { resources[$0] }
      return Finding(cycle: cycle, identity: Identity(kind: .cycle, members: cycle.members, resources: resources))
    }
  }

  /// Whether a timer is going to cancel it, or the scope that it belongs to.
  private static func isTimed(_ coroutine: InspectedCoroutine, in all: [UInt64: InspectedCoroutine]) -> Bool {
    if let isTimed = coroutine.waitIsTimed { return isTimed }
    var current = coroutine
    while let scope = current.scope {
      guard scope.ownerID != 0 else { return Inspection.hasTimedTasks }
      // An owner is there as long as its scope has children: unless it is just being moved.
      guard let owner = all[scope.ownerID] else { return true }
      if owner.isTimed { return true }
      current = owner
    }
    return false
  }
}
