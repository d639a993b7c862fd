// SPDX-License-Identifier: Apache-2.0

import Coroutine
import Measurement

/// A binary tree in one block of memory, numbered from 0 in the order of a walk from left to right. It has pointers,
/// not objects: reference counting would cost several times as much as the walk.
struct Tree {
  typealias Node = UnsafePointer<Contents>?

  struct Contents {
    let number: Int
    let left: Node
    let right: Node
  }

  let root: Node

  /// A complete tree, which lives as long as the program.
  init(_ count: Int) {
    let nodes = UnsafeMutableBufferPointer<Contents>.allocate(capacity: count)
    var used = 0
    func make(_ count: Int, first: Int) -> Node {
      guard count > 0 else { return nil }
      let node = nodes.baseAddress! + used
      used += 1
      let below = (count - 1) / 2
      let left = make(below, first: first)
      let right = make(count - 1 - below, first: first + below + 1)
      node.initialize(to: Contents(number: first + below, left: left, right: right))
      return UnsafePointer(node)
    }
    root = make(count, first: 0)
  }
}

extension Workload {
  /// A recursive walk over a million nodes that yields each node's number, through one generator and by plain
  /// recursion.
  static func treeWalk() -> Workload {
    let tree = Lazy { Tree(Tree.million) }
    let walk = { (system: String, backend: String?, role: Role, walk: @escaping (Tree.Node) -> Int) in
      Subject(system, backend: backend, role: role, expecting: Tree.sumOfNumbers) { _ in
        let root = tree.value.root
        return .timed { walk(root) }
      }
    }
    return Workload(
      "tree walk of a million nodes, one node",
      extent: .fixed(operations: Tree.million, units: Tree.million, warmUp: Tree.million, quick: 3, full: 31),
      subjects: [walk("Generator", Coroutine.backendName, .runtime, sumByGenerator)]
        + Backends.subjects(Walks(tree: tree)) + [
          .peer("boost::coroutines2", .boostContext, expecting: Tree.sumOfNumbers),
          .peer("C++20 generators, one a level", .cxx, expecting: Tree.sumOfNumbers),
          .peer("Go, goroutine and channel", .go, expecting: Tree.sumOfNumbers),
          walk("plain recursion", nil, .plain, sumByRecursion),
          walk("recursion that calls a closure", nil, .plain, sumByClosure),
        ])
  }
}

/// A walk by a bare context.
private struct Walks: SubjectsOfBackend {
  let tree: Lazy<Tree>

  func subjects<Backend: MeasuredBackend>(_ backend: Backend.Type, _ promises: Promises) -> [Subject] {
    let walking = Lazy { try Partner<Backend>(Backend.walkingEntry) }
    return [
      Subject("bare context", backend: Backend.name, role: .backend, expecting: Tree.sumOfNumbers) { _ in
        let (walking, root) = (walking.value, tree.value.root)
        return .timed { sumOfTree(walking, root) }
      }
    ]
  }
}

extension Tree {
  fileprivate static let million = (1 << 20) - 1

  /// The sum of the numbers of that many nodes.
  fileprivate static func sumOfNumbers(_ count: Int) -> Int { count * (count - 1) / 2 }
}

@inline(never)
private func sumByRecursion(_ root: Tree.Node) -> Int {
  var sum = 0
  add(root, to: &sum)
  return sum
}

@inline(never)
private func add(_ node: Tree.Node, to sum: inout Int) {
  guard let node else { return }
  add(node.pointee.left, to: &sum)
  sum &+= node.pointee.number
  add(node.pointee.right, to: &sum)
}

@inline(never)
private func sumByClosure(_ root: Tree.Node) -> Int {
  var sum = 0
  visit(root) { sum &+= $0 }
  return sum
}

@inline(never)
private func visit(_ node: Tree.Node, _ visitor: (Int) -> Void) {
  guard let node else { return }
  visit(node.pointee.left, visitor)
  visitor(node.pointee.number)
  visit(node.pointee.right, visitor)
}

@inline(never)
private func sumByGenerator(_ root: Tree.Node) -> Int {
  var sum = 0
  for number in Generator<Int>({ yield in try walk(root, yield) }) { sum &+= number }
  return sum
}

@inline(never)
private func walk(_ node: Tree.Node, _ yield: Generator<Int>.Yield) throws {
  guard let node else { return }
  try walk(node.pointee.left, yield)
  try yield(node.pointee.number)
  try walk(node.pointee.right, yield)
}
