// SPDX-License-Identifier: Apache-2.0

/// What a coroutine's last ask needed, for the next one: nothing else keeps anything in `CoroutineExtras.spare`.
extension CoroutineExtras {
  /// The spare reply, if nothing else holds it.
  @inlinable @inline(__always)
  func takeSpareReply() -> ReplyOwner? {
    guard let kept = spare else { return nil }
    var spare = Unmanaged<ReplyOwner>.fromOpaque(kept.toOpaque()).takeRetainedValue()
    self.spare = nil
    return isKnownUniquelyReferenced(&spare) ? spare : nil
  }

  /// Takes over a reference.
  @inlinable @inline(__always)
  func keepSpareReply(_ reply: Unmanaged<ReplyOwner>) {
    // One of an ask inside of the function that made the message, if any.
    let other = spare
    spare = .fromOpaque(reply.toOpaque())
    other?.release()
  }
}
