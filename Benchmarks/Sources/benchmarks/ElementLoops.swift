// SPDX-License-Identifier: Apache-2.0

import AsyncAlgorithms
import Coroutine

// The loops that take elements. Each is a function, generic over the source and specialised for each one. They are
// not inlined, so that each has its own machine code, which can be found and read. Each takes `count` elements and
// returns their sum.

/// A generator whose body ends after the last element, in a `for` loop.
@inline(never)
func sumByForIn<From: Source>(_ source: From, _ count: Int) -> Int {
  var sum = 0
  for element in Generator<From.Made>({ yield in try yieldAll(source, count, yield) }) { sum &+= element.number }
  return sum
}

/// A generator whose body never ends, by calls of `next()`. At the end it is dropped, and so unwound.
@inline(never)
func sumByNext<From: Source>(_ source: From, _ count: Int) -> Int {
  let generator = Generator<From.Made> { yield in try yieldAll(source, .max, yield) }
  var sum = 0
  for _ in 0..<count {
    guard let element = generator.next() else { return -1 }
    sum &+= element.number
  }
  return sum
}

/// The same from a generator through ten others, each of which yields from the next.
@inline(never)
func sumByDelegates(_ count: Int) -> Int {
  var generator = Generator<Int> { yield in try yieldAll(Numbers(), count, yield) }
  for _ in 0..<10 {
    let inner = generator
    generator = Generator { yield in try yield(from: inner) }
  }
  var sum = 0
  for element in generator { sum &+= element }
  return sum
}

/// Each number comes back as the input of the next call.
@inline(never)
func sumByTwoWay(_ count: Int) -> Int {
  let generator = TwoWayGenerator<Int, Int, Int> { yield in
    var sum = 0
    for index in 0..<count { sum &+= try yield(index) }
    return sum
  }
  var input = 0
  while let step = try? generator.next(input) {
    switch step {
    case .yielded(let element): input = element
    case .returned(let sum): return sum
    }
  }
  return -1
}

@inline(never)
func sumByThrowing(_ count: Int) -> Int {
  let generator = ThrowingGenerator<Int> { yield in try yieldAll(Numbers(), count, yield) }
  var sum = 0
  while let element = try? generator.next() { sum &+= element }
  return sum
}

/// The body is on a scheduler of its own, whose thread is also the consumer's: what an element costs if no processor
/// waits for another.
@inline(never)
func sumByAsyncGenerator(_ count: Int) -> Int {
  let queue = ThreadPool(threads: 1)
  let coroutine = Coroutine(on: queue) { () throws -> Int in
    let generator = AsyncGenerator<Int> { yield in for index in 0..<count { try yield(index) } }
    var sum = 0
    while let element = try generator.next() { sum &+= element }
    return sum
  }
  return (try? coroutine.getBlocking()) ?? -1
}

/// The generators' body.
@inline(never)
private func yieldAll<From: Source>(_ source: From, _ count: Int, _ yield: Generator<From.Made>.Yield) throws {
  for index in 0..<count { try yield(source.element(index)) }
}

/// What one writes by hand instead of a generator, if the compiler can't see through it, as across modules.
struct HandWritten<From: Source>: Sequence, IteratorProtocol {
  let source: From
  let count: Int
  var index = 0

  @inline(never)
  mutating func next() -> From.Made? {
    guard index < count else { return nil }
    defer { index += 1 }
    return source.element(index)
  }
}

@inline(never)
func sumByHandWritten<From: Source>(_ source: From, _ count: Int) -> Int {
  var sum = 0
  for element in HandWritten(source: source, count: count) { sum &+= element.number }
  return sum
}

/// The same behind a type-erased iterator. Only of `Int`: behind the erasure generic code is not specialised, and its
/// cost would be measured instead.
@inline(never)
func sumByAnyIterator(_ count: Int) -> Int {
  var sum = 0
  for number in erased(count) { sum &+= number }
  return sum
}

/// Not inlined, so that the caller does not know the erased type.
@inline(never)
private func erased(_ count: Int) -> AnyIterator<Int> {
  AnyIterator(Counter(count: count))
}

private struct Counter: IteratorProtocol {
  let count: Int
  var index = 0

  mutating func next() -> Int? {
    guard index < count else { return nil }
    defer { index += 1 }
    return index
  }
}

/// A stream that computes each element on request: the closest that `async` code has to a generator.
@inline(never)
func sumByUnfolding<From: Source>(_ source: From, _ count: Int) async -> Int {
  // The stream calls its closure one call at a time, though its type does not say so.
  nonisolated(unsafe) var index = 0
  var sum = 0
  let stream = AsyncStream<From.Made> {
    guard index < count else { return nil }
    defer { index += 1 }
    return source.element(index)
  }
  for await element in stream { sum &+= element.number }
  return sum
}

/// A stream that another task fills: what a body that is not one expression needs there.
@inline(never)
func sumByStream<From: Source>(_ source: From, _ count: Int) async -> Int {
  let (stream, continuation) = AsyncStream.makeStream(of: From.Made.self)
  let producer = Task {
    for index in 0..<count { continuation.yield(source.element(index)) }
    continuation.finish()
  }
  var sum = 0
  for await element in stream { sum &+= element.number }
  await producer.value
  return sum
}

/// A channel without a buffer that another task fills.
@inline(never)
func sumByAsyncChannel<From: Source>(_ source: From, _ count: Int) async -> Int {
  let channel = AsyncChannel<From.Made>()
  let producer = Task {
    for index in 0..<count { await channel.send(source.element(index)) }
    channel.finish()
  }
  var sum = 0
  for await element in channel { sum &+= element.number }
  await producer.value
  return sum
}
