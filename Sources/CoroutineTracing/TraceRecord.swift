// SPDX-License-Identifier: Apache-2.0

/// An event of a coroutine, as it lies in a thread's buffer.
struct TraceRecord: Equatable, Sendable {
  enum Kind: Equatable, Sendable {
    /// It was made ready.
    case ready
    /// A turn begins. `queued`: in nanoseconds, if known.
    case begin(queued: UInt64?)
    /// Its turn ends: by what, and what it waits for.
    case end(String, detail: String)
    /// It was taken over from another thread.
    case stolen
  }

  let kind: Kind
  let time: UInt64
  let id: UInt64
  let turn: UInt32
  /// How many were dropped right before this one.
  var dropped: UInt32 = 0
  let name: String
}
