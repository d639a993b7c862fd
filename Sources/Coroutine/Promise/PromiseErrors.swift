// SPDX-License-Identifier: Apache-2.0

/// A promise's last resolver was dropped unused: the promise could not be settled any more, so it was rejected with
/// this. Where this error is not handled, it is not reported: the promise was not needed.
public struct PromiseAbandoned: Error, CustomStringConvertible {
  private let name: String

  public var description: String {
    (name.isEmpty ? "a promise" : "promise \"\(name)\"")
      + " was abandoned: the last copy of its Resolver was dropped without fulfilling or rejecting it"
  }

  init(ofPromise name: String) { self.name = name }
}

/// A `then` or `catch` returned the very promise that it had made: that would wait for itself for ever, so it is rejected
/// with this. Cycles of several promises are not looked for: they stay pending until one of them is cancelled.
public struct PromiseFollowsItself: Error, CustomStringConvertible {
  public var description: String { "a promise was to become what it becomes itself: it would never be settled" }

  init() {}
}
