// SPDX-License-Identifier: Apache-2.0

/// The classes that coroutines wait at. A new one stands here once: all else it says itself, as `ShownWaitable`.
///
/// Readers of another process know a class by its number in this list (`Tools/gdb/coroutines.py` has a word for each). Where
/// a number comes to mean another class, `coroutine_debug_version` is raised; `coroutine_debug_kinds` counts them.
package enum WaitableClasses {
  package static var all: [any ShownWaitable.Type] {
    [
      CoroutineCore.self,
      ChannelStorage<Int>.self,
      PromiseCore.self,
      BatchStorage.self,
      AsyncGeneratorStorage<Int>.self,
      ScopeStorage.self,
      SuspensionStorage<Int>.self,
      BarrierStorage.self,
      WaitGroupStorage.self,
      MutexCore.self,
      ReadWriteLockCore.self,
      OnceCore.self,
      SemaphoreStorage.self,
      ConditionStorage.self,
      ActorCore.self,
      ReplyCore.self,
      ReadinessStorage.self,
      BroadcastStorage<Int>.self,
    ]
  }
}
