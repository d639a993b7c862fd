// SPDX-License-Identifier: Apache-2.0

import Coroutine

/// The graph of waiters and their wakers, and which of them can never go on. Pure: its input need only be true at one
/// moment.
///
/// A coroutine is stuck if only stuck ones can end its wait: the one that it waits for; at least one of those that all
/// have to do their part; or each of those of which one would do. The largest set of coroutines that are stuck on
/// account of each other is found by elimination: those with another waker are taken away, again and again.
struct WaitGraph {
  /// A coroutine that is suspended, and that no timer is going to wake.
  struct Node {
    let id: UInt64
    /// What it waits at, as a mere name.
    let resource: UInt
    let wakers: Wakers
  }

  private let nodes: [UInt64: Node]
  /// A scope's children, by its address.
  private let children: [UInt: [UInt64]]
  /// The waiters, by what they wait at.
  private let waiting: [UInt: [UInt64]]
  /// Those that can never go on, if what the graph was given holds for ever.
  private(set) var stuck: Set<UInt64>

  init(_ nodes: [Node], children: [UInt: [UInt64]]) {
    self.nodes = Dictionary(nodes.map { ($0.id, $0) }) { first, _ in first }
    self.children = children
    waiting = Dictionary(grouping: nodes, by: \.resource).mapValues { $0.map(\.id) }
    stuck = Set(nodes.lazy.filter { $0.wakers != .unknown }.map(\.id))
    free(stuck.filter { !isStuck($0) })
  }

  /// A coroutine is not stuck after all; so those that wait only for it are not, either.
  mutating func free(_ id: UInt64) {
    if stuck.contains(id) { free([id]) }
  }

  private mutating func free(_ ids: some Sequence<UInt64>) {
    var freed = Array(ids)
    stuck.subtract(freed)
    guard !freed.isEmpty, !stuck.isEmpty else { return }
    var dependents: [UInt64: [UInt64]] = [:]
    for id in stuck {
      for other in others(thatMatterTo: id) { dependents[other, default: []].append(id) }
    }
    while let id = freed.popLast() {
      for dependent in dependents[id] ?? [] where stuck.contains(dependent) && !isStuck(dependent) {
        stuck.remove(dependent)
        freed.append(dependent)
      }
    }
  }

  // MARK: One coroutine

  private func isStuck(_ id: UInt64) -> Bool {
    guard let node = nodes[id] else { return false }
    return isStuck(node.wakers, at: node.resource)
  }

  private func isStuck(_ wakers: Wakers, at resource: UInt) -> Bool {
    switch wakers {
    case .unknown: return false
    case .coroutine(let id): return stuck.contains(id)
    case .all(let ids): return ids.contains { stuck.contains($0) }
    case .scope(let scope): return children[scope, default: []].contains { stuck.contains($0) }
    case .any(let choices): return !choices.isEmpty && choices.allSatisfy { isStuck($0, at: resource) }
    case .readers(let ids, let queued):
      // A waiter that gives up lets readers behind it in: none of the waiters may be able to.
      let others = waiting[resource, default: []]
      return ids.contains { stuck.contains($0) } && others.count == queued && others.allSatisfy { stuck.contains($0) }
    }
  }

  private func others(thatMatterTo id: UInt64) -> [UInt64] {
    guard let node = nodes[id] else { return [] }
    return others(in: node.wakers, at: node.resource)
  }

  private func others(in wakers: Wakers, at resource: UInt) -> [UInt64] {
    switch wakers {
    case .unknown: []
    case .coroutine(let id): [id]
    case .all(let ids): ids
    case .scope(let scope): children[scope, default: []]
    case .any(let choices): choices.flatMap { others(in: $0, at: resource) }
    case .readers(let ids, _): ids + waiting[resource, default: []]
    }
  }

  /// One of the stuck that a stuck one waits for; another one than itself, if there is one.
  private func next(after id: UInt64) -> UInt64? {
    guard let node = nodes[id] else { return nil }
    let candidates =
      if case .readers(let ids, _) = node.wakers { ids } else { others(in: node.wakers, at: node.resource) }
    let stuckOnes = candidates.filter { stuck.contains($0) }
    return stuckOnes.first { $0 != id } ?? stuckOnes.first
  }

  // MARK: Cycles

  /// A cycle of coroutines, each of which waits for the next, and the last one for the first.
  struct Cycle: Equatable {
    /// The one with the lowest number first.
    var members: [UInt64]
    /// Those outside that wait for one of them, perhaps by way of others, in the order of their numbers.
    var waiting: [UInt64]
  }

  /// The cycles in which the stuck ones wait, in the order of their lowest numbers. Each stuck coroutine is in one of
  /// them or waits for it.
  var cycles: [Cycle] {
    // Each goes on to one other, so that every way ends in a cycle; `cycle` is which one.
    var cycle: [UInt64: Int] = [:]
    var cycles: [Cycle] = []
    for start in stuck.sorted() where cycle[start] == nil {
      var way: [UInt64] = []
      var position: [UInt64: Int] = [:]
      var current = start
      while cycle[current] == nil, position[current] == nil, let next = next(after: current) {
        position[current] = way.count
        way.append(current)
        current = next
      }
      var end = way.count
      if cycle[current] == nil, let first = position[current] {
        let members = way[first...]
        let lowest = members.indices.min { members[$0] < members[$1] } ?? first
        for member in members { cycle[member] = cycles.count }
        cycles.append(Cycle(members: Array(members[lowest...] + members[..<lowest]), waiting: []))
        end = first
      }
      guard let reached = cycle[current] else { continue }
      for id in way[..<end] { cycle[id] = reached }
      cycles[reached].waiting += way[..<end]
    }
    for index in cycles.indices { cycles[index].waiting.sort() }
    return cycles.sorted { $0.members[0] < $1.members[0] }
  }
}
