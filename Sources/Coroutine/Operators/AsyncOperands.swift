// SPDX-License-Identifier: Apache-2.0

// The operators' names, given what `async` code iterates over, such as a channel or an AsyncStream. The operators take what a
// coroutine receives, and the compiler's own words would only name the protocol that is missing.

@_disfavoredOverload
@available(
  *, unavailable, message: "pass 'channel.received', in a coroutine; let a child send other sequences into a channel"
)
public func merge<First: AsyncSequence, Second: AsyncSequence>(_ first: First, _ second: Second) -> [First.Element] {
  fatalError("unavailable")
}

@_disfavoredOverload
@available(
  *, unavailable, message: "pass 'channel.received', in a coroutine; let a child send other sequences into a channel"
)
public func zip<First: AsyncSequence, Second: AsyncSequence>(_ first: First, _ second: Second) -> [First.Element] {
  fatalError("unavailable")
}

@_disfavoredOverload
@available(
  *, unavailable, message: "pass 'channel.received', in a coroutine; let a child send other sequences into a channel"
)
public func combineLatest<First: AsyncSequence, Second: AsyncSequence>(
  _ first: First, _ second: Second
) -> [First.Element] {
  fatalError("unavailable")
}
