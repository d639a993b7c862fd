public import Coroutine

/// A channel that gives these elements and is closed.
public func filled<Element: Sendable>(_ elements: [Element]) -> Channel<Element> {
  let channel = Channel<Element>(capacity: .unbounded)
  for element in elements { _ = channel.trySend(element) }
  channel.close()
  return channel
}
