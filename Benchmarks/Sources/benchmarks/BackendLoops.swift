// SPDX-License-Identifier: Apache-2.0

import Context
import ContextASM
import ContextUcontext

#if BENCHMARKS_BOOST
  import ContextBoost
#endif

/// A backend whose loops can be measured. An entry function is a C function, which can't be generic, so each backend
/// has its own. All of them get the link's address as their first word.
protocol MeasuredBackend: ContextBackend {
  /// Enters `answerSymmetrically`.
  static var symmetricEntry: @convention(c) (UInt) -> Void { get }
  /// Enters `answerAsymmetrically`.
  static var asymmetricEntry: @convention(c) (UInt) -> Void { get }
  /// Enters `count`.
  static var countingEntry: @convention(c) (UInt) -> Void { get }
  /// Enters `walk`.
  static var walkingEntry: @convention(c) (UInt) -> Void { get }
}

extension ASMContext: MeasuredBackend {
  static let symmetricEntry: @convention(c) (UInt) -> Void = { answerSymmetrically(ASMContext.self, at: $0) }
  static let asymmetricEntry: @convention(c) (UInt) -> Void = { answerAsymmetrically(ASMContext.self, at: $0) }
  static let countingEntry: @convention(c) (UInt) -> Void = { count(ASMContext.self, at: $0) }
  static let walkingEntry: @convention(c) (UInt) -> Void = { walk(ASMContext.self, at: $0) }
}

extension UcontextContext: MeasuredBackend {
  static let symmetricEntry: @convention(c) (UInt) -> Void = { answerSymmetrically(UcontextContext.self, at: $0) }
  static let asymmetricEntry: @convention(c) (UInt) -> Void = { answerAsymmetrically(UcontextContext.self, at: $0) }
  static let countingEntry: @convention(c) (UInt) -> Void = { count(UcontextContext.self, at: $0) }
  static let walkingEntry: @convention(c) (UInt) -> Void = { walk(UcontextContext.self, at: $0) }
}

#if BENCHMARKS_BOOST
  extension BoostContext: MeasuredBackend {
    static let symmetricEntry: @convention(c) (UInt) -> Void = { answerSymmetrically(BoostContext.self, at: $0) }
    static let asymmetricEntry: @convention(c) (UInt) -> Void = { answerAsymmetrically(BoostContext.self, at: $0) }
    static let countingEntry: @convention(c) (UInt) -> Void = { count(BoostContext.self, at: $0) }
    static let walkingEntry: @convention(c) (UInt) -> Void = { walk(BoostContext.self, at: $0) }
  }
#endif

/// A coroutine that is nothing but a context and a stack.
struct Partner<Backend: MeasuredBackend> {
  let link: UnsafeMutablePointer<ContextLink<Backend>>
  private let stack: Stack
  private let pool: StackPool

  /// Runs it to its first switch. From then on it answers words.
  ///
  /// - Parameter entry: one of the backend's entry functions.
  @inline(__always)
  init(_ entry: @convention(c) (UInt) -> Void, on pool: StackPool = .default) throws(StackError) {
    stack = try pool.allocate()
    self.pool = pool
    // At the same place as in the runtime: at the upper end of the stack, on a cache line of its own.
    let size = (MemoryLayout<ContextLink<Backend>>.size + 63) & ~63
    let top = stack.top - size
    link = top.bindMemory(to: ContextLink<Backend>.self, capacity: 1)
    Backend.initialize(
      link, stack: UnsafeMutableRawBufferPointer(start: stack.limit, count: top - stack.limit), entry: entry)
    _ = Backend.resume(link, passing: UInt(bitPattern: link))
  }

  /// Leaves it suspended where it is, and frees the stack.
  @inline(__always)
  func destroy() {
    Backend.destroy(ContextLink.own(link))
    pool.release(stack)
  }
}

// The loops are ordinary functions, not inlined. In a closure that is a C function, and at the top level of a
// program, the compiler does not inline the switch, which would double the figure.

/// Yields the numbers from 0 on, for ever.
@inline(never)
private func count<Backend: MeasuredBackend>(_ backend: Backend.Type, at address: UInt) {
  let link = UnsafeMutablePointer<ContextLink<Backend>>(bitPattern: address)!
  _ = Backend.suspend(link, passing: 0)
  var number: UInt = 0
  while true {
    _ = Backend.suspend(link, passing: number)
    number &+= 1
  }
}

/// Takes numbers from a counting context.
@inline(never)
func sumOfNumbers<Backend: MeasuredBackend>(_ backend: Backend.Type, _ count: Int) -> Int {
  guard let counting = try? Partner<Backend>(Backend.countingEntry) else { return -1 }
  defer { counting.destroy() }
  var sum: UInt = 0
  for _ in 0..<count { sum &+= Backend.resume(counting.link, passing: 0) }
  return Int(bitPattern: sum)
}

/// Makes contexts that run to their first switch, each of which is destroyed there.
@inline(never)
func createAndDestroy<Backend: MeasuredBackend>(_ backend: Backend.Type, _ count: Int) -> Int {
  var made = 0
  for _ in 0..<count {
    guard let partner = try? Partner<Backend>(Backend.countingEntry) else { return -1 }
    partner.destroy()
    made += 1
  }
  return made
}

/// Walks over one tree after another: gets the root's address, yields the nodes' numbers, incremented, and then 0.
@inline(never)
private func walk<Backend: MeasuredBackend>(_ backend: Backend.Type, at address: UInt) {
  let link = UnsafeMutablePointer<ContextLink<Backend>>(bitPattern: address)!
  while true {
    let root = Backend.suspend(link, passing: 0)
    yieldNodes(UnsafePointer<Tree.Contents>(bitPattern: root), link)
  }
}

@inline(never)
private func yieldNodes<Backend: MeasuredBackend>(
  _ node: Tree.Node, _ link: UnsafeMutablePointer<ContextLink<Backend>>
) {
  guard let node else { return }
  yieldNodes(node.pointee.left, link)
  _ = Backend.suspend(link, passing: UInt(node.pointee.number + 1))
  yieldNodes(node.pointee.right, link)
}

/// The sum of a tree's numbers, from a walking context.
@inline(never)
func sumOfTree<Backend: MeasuredBackend>(_ walking: Partner<Backend>, _ root: Tree.Node) -> Int {
  var sum = 0
  var word = Backend.resume(walking.link, passing: UInt(bitPattern: root))
  while word != 0 {
    sum &+= Int(bitPattern: word) - 1
    word = Backend.resume(walking.link, passing: 0)
  }
  return sum
}

/// One step of each of many counting contexts.
@inline(never)
func sumOfRound<Backend: MeasuredBackend>(_ counting: [Partner<Backend>]) -> Int {
  var sum: UInt = 0
  for partner in counting { sum &+= Backend.resume(partner.link, passing: 0) }
  return Int(bitPattern: sum)
}
