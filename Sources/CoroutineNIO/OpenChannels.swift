// SPDX-License-Identifier: Apache-2.0

#if NIO
  import Context
  import NIOCore

  /// The channels whose handlers run.
  // Unchecked: the lock guards what changes.
  final class OpenChannels: @unchecked Sendable {
    private let lock = Lock()
    // Guarded by the lock, both.
    private var all: [ObjectIdentifier: any NIOCore::Channel] = [:]
    private var isQuiescing = false

    func add(_ channel: any NIOCore::Channel) {
      let isLate = lock.withLock {
        all[ObjectIdentifier(channel)] = channel
        return isQuiescing
      }
      if isLate { Self.quiesce(channel) }
    }

    func remove(_ channel: any NIOCore::Channel) {
      // Released after the unlock.
      _ = lock.withLock { all.removeValue(forKey: ObjectIdentifier(channel)) }
    }

    /// Asks for their ends as soon as it suits them, as NIO's own helpers do.
    func quiesce() {
      let open = lock.withLock {
        isQuiescing = true
        return Array(all.values)
      }
      for channel in open { Self.quiesce(channel) }
    }

    static func quiesce(_ channel: any NIOCore::Channel) {
      channel.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent())
    }
  }
#endif
