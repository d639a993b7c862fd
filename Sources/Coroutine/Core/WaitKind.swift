import Context

/// The classes that coroutines wait at: their number and order are those of `coroutine_debug_layout.kinds`.
package enum WaitKind: Int, CaseIterable, Sendable {
  case coroutine, channel, promise, batch, generator, scope, suspension, barrier, group, mutex, readWriteLock, once
  case semaphore, condition, actor, reply

  /// Where a field is told that a kind does not have.
  package static var noField: UInt64 { .max }

  /// The class, or for a generic one any of its specialisations: what is asked for lies at the same place in all of them,
  /// in front of everything whose size depends on a parameter.
  var type: AnyClass {
    switch self {
    case .coroutine: CoroutineCore.self
    case .channel: ChannelStorage<Int>.self
    case .promise: PromiseCore.self
    case .batch: BatchStorage.self
    case .generator: AsyncGeneratorStorage<Int>.self
    case .scope: ScopeStorage.self
    case .suspension: SuspensionStorage<Int>.self
    case .barrier: BarrierStorage.self
    case .group: WaitGroupStorage.self
    case .mutex: MutexCore.self
    case .readWriteLock: ReadWriteLockCore.self
    case .once: OnceCore.self
    case .semaphore: SemaphoreStorage.self
    case .condition: ConditionStorage.self
    case .actor: ActorCore.self
    case .reply: ReplyCore.self
    }
  }

  /// Where its name lies, and then:
  ///
  /// - channel: whether it is conflated, its limit, how many elements there are, the senders' and the receivers' queues'
  ///   counts;
  /// - batch: the array of what it waits for; group: how much is to be done;
  /// - mutex, once: the holder's word, and the address of its block; read-write lock: the same of the writer, and how many
  ///   readers have it;
  /// - condition: the mutex; reply: the actor that was asked.
  ///
  /// `nil` without reflection metadata.
  var fields: [UInt64]? {
    let names: [String?] =
      switch self {
      case .suspension: []
      case .coroutine, .promise, .generator, .scope, .barrier, .semaphore, .actor: ["name"]
      case .channel: ["name"]
      case .batch: [nil, "sources"]
      case .group: ["name", "published"]
      case .mutex: ["name", "word", "place"]
      case .readWriteLock: ["name", "writer", "writerPlace", "readers"]
      case .once: ["name", "maker", "makerPlace"]
      case .condition: ["name", "mutex"]
      case .reply: [nil, "recipient"]
      }
    var fields: [UInt64] = []
    for name in names {
      guard let name else {
        fields.append(Self.noField)
        continue
      }
      guard let offset = fieldOffset(name, in: type) else { return nil }
      fields.append(UInt64(offset))
    }
    if self == .channel {
      guard
        let machine = ChannelStateMachine<Int>.debugFields(
          from: fieldOffset("machine", in: ChannelStorage<Int>.self))
      else { return nil }
      fields += machine
    }
    return fields + Array(repeating: Self.noField, count: 6 - fields.count)
  }
}

extension ChannelStateMachine {
  /// As `WaitKind.fields` lists them.
  fileprivate static func debugFields(from start: UInt?) -> [UInt64]? {
    guard let start, let isConflated = fieldOffset("isConflated", in: Self.self),
      let limit = fieldOffset("limit", in: Self.self), let buffer = fieldOffset("buffer", in: Self.self),
      let filled = fieldOffset("count", in: ElementRing<Element>.self),
      let senders = fieldOffset("senders", in: Self.self), let receivers = fieldOffset("receivers", in: Self.self),
      let count = fieldOffset("count", in: WaitQueue.self)
    else { return nil }
    return [isConflated, limit, buffer + filled, senders + count, receivers + count].map { UInt64(start + $0) }
  }
}
