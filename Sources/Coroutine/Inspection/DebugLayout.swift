// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context
import CoroutineLibc

/// The facts that other processes need to find this one's coroutines in its memory: `coroutine_debug_layout`, see
/// debug_layout.h.
///
/// Filled in once, when the first pool, stack or queued coroutine of the process is made: some 100 us, and nothing
/// after that. Only here the layout of this module's types is found out. (At the same moment debug builds say if the
/// process has several backends to choose from: it is the first such moment.)
///
/// It knows all primitives, and none of them knows it: the code that makes the first pool, stack or queued coroutine
/// calls it by its name in C.
enum DebugLayout {
  /// Does nothing the second time.
  fileprivate static let published: Void = {
    guard let layout = coroutine_debug_layout_address() else { return }
    layout.pointee.is_complete = fill(&layout.pointee) ? 1 : 2
    BackendChoice.warn()
  }()

  /// Whether all was found: without reflection metadata nothing is.
  private static func fill(_ layout: inout coroutine_debug_layout) -> Bool {
    guard fillRoots(&layout), fillContext(&layout), fillBlock(&layout), fillStackPools(&layout), fillCore(&layout),
      fillWaits(&layout), fillSchedulers(&layout), fillPools(&layout)
    else { return false }
    return fillKinds(&layout)
  }

  // MARK: Roots

  private static func fillRoots(_ layout: inout coroutine_debug_layout) -> Bool {
    guard let unstarted = UnstartedCoroutines.Layout() else { return false }
    // Never freed: they are needed as long as the process lives.
    layout.backend = UInt64(UInt(bitPattern: strdup(SelectedBackend.name)))
    layout.backend_code = UInt64(UInt(bitPattern: strdup(SelectedBackend.code.line)))
    layout.stack_pools = UInt64(StackPool.sharedList)
    layout.thread_pools = UInt64(PoolCore.all.address)
    layout.unstarted_rows = UInt64(unstarted.rows)
    layout.row_next = UInt64(unstarted.next)
    layout.row_count = UInt64(unstarted.count)
    layout.row_slots = UInt64(unstarted.slots)
    return true
  }

  // MARK: Stacks and blocks

  private static func fillContext(_ layout: inout coroutine_debug_layout) -> Bool {
    layout.context_size = UInt64(MemoryLayout<SelectedBackend.Context>.stride)
    // Without it stacks can't be read, but all else can.
    guard let context = SelectedBackend.layout else { return true }
    layout.context_live = UInt64(context.live)
    layout.context_indirect = context.isIndirect ? 1 : 0
    layout.context_pc = UInt64(context.programCounter)
    layout.context_sp = UInt64(context.stackPointer)
    layout.context_fp = UInt64(context.framePointer)
    layout.context_base = context.baseRegister.map(UInt64.init) ?? .max
    layout.context_is_known = 1
    return true
  }

  private static func fillBlock(_ layout: inout coroutine_debug_layout) -> Bool {
    guard let serial = fieldOffset("serial", in: ControlBlock.self),
      let state = fieldOffset("state", in: ControlBlock.self), let owner = fieldOffset("owner", in: ControlBlock.self)
    else { return false }
    layout.block_size = UInt64(MemoryLayout<ControlBlock>.size)
    layout.block_color = UInt64(ControlBlock.colorStep)
    layout.block_serial = UInt64(serial)
    layout.block_state = UInt64(state)
    layout.block_owner = UInt64(owner)
    layout.state_generator = ControlBlock.State.nested.rawValue
    layout.state_ready = ControlBlock.State.ready.rawValue
    layout.state_running = ControlBlock.State.running.rawValue
    layout.state_suspended = ControlBlock.State.suspended.rawValue
    return true
  }

  private static func fillStackPools(_ layout: inout coroutine_debug_layout) -> Bool {
    guard let pools = StackPool.DebugLayout() else { return false }
    layout.pool_newest_arena = UInt64(pools.newestArena)
    layout.arena_stack_size = UInt64(pools.stackSize)
    layout.arena_gap = UInt64(pools.gap)
    layout.arena_base = UInt64(pools.base)
    layout.arena_slots = UInt64(pools.slotCount)
    layout.arena_older = UInt64(pools.older)
    layout.arena_live = UInt64(pools.live)
    return true
  }

  // MARK: Coroutines

  private static func fillCore(_ layout: inout coroutine_debug_layout) -> Bool {
    func offset(_ name: String) -> UInt64? { fieldOffset(name, in: CoroutineCore.self).map(UInt64.init) }
    guard let id = offset("id"), let name = offset("name"), let block = offset("block"),
      let parent = offset("creatorID"), let scope = offset("family"), let state = offset("state"),
      let home = offset("home"), let nextReady = offset("nextReady"), let record = offset("record"),
      let since = fieldOffset("since", in: InspectionRecord.self), let extras = offset("extrasWord"),
      let visiting = fieldOffset("visiting", in: CoroutineExtras.self),
      let creation = fieldOffset("creation", in: CoroutineExtras.self),
      let cancelled = fieldOffset("cancellationReason", in: CoroutineExtras.self),
      let scopeName = fieldOffset("name", in: ScopeStorage.self),
      let scopeOwner = fieldOffset("ownerID", in: ScopeStorage.self)
    else { return false }
    layout.core_id = id
    layout.core_name = name
    layout.core_block = block
    layout.core_creator = parent
    layout.core_scope = scope
    layout.core_state = state
    layout.core_state_ready = UInt64(CoroutineState.ready.rawValue)
    layout.core_home = home
    layout.core_next_ready = nextReady
    layout.core_since = record + UInt64(since)
    layout.core_extras = extras
    layout.extras_visiting = UInt64(visiting)
    layout.extras_creation = UInt64(creation)
    layout.extras_cancelled = UInt64(cancelled)
    layout.scope_name = UInt64(scopeName)
    layout.scope_owner = UInt64(scopeOwner)
    return true
  }

  /// Enumerations with associated values: a payload, and behind it a byte that says which case it is.
  private static func fillWaits(_ layout: inout coroutine_debug_layout) -> Bool {
    func tag<Value>(of value: Value, at offset: UInt) -> UInt64 {
      withUnsafeBytes(of: value) { UInt64($0[Int(offset)]) }
    }
    guard let reason = fieldOffset("waitReason", in: CoroutineCore.self),
      let operation = fieldOffset("operation", in: WaitReason.self),
      let subject = fieldOffset("subject", in: WaitReason.self),
      let deadline = fieldOffset("deadline", in: WaitReason.self),
      let targets = fieldOffset("targets", in: JointWait.self)
    else { return false }
    let word = UInt(MemoryLayout<UInt>.size)
    layout.core_operation = UInt64(reason + operation)
    layout.core_subject = UInt64(reason + subject)
    layout.core_subject_tag = UInt64(reason + subject + word)
    layout.core_deadline = UInt64(reason + deadline)
    // Looked at as bits alone.
    let wait = UnsafeMutablePointer<JointWait>(bitPattern: 16)!
    layout.subject_object = tag(of: WaitReason.Subject.object(.passUnretained(Waitable())), at: word)
    layout.subject_cases = tag(of: WaitReason.Subject.cases(wait), at: word)

    // The address of the cases, and their number.
    layout.select_targets = UInt64(targets)
    layout.select_count = UInt64(targets + word)
    layout.target_stride = UInt64(MemoryLayout<JointWait.Target>.stride)
    layout.target_operation = UInt64(word)
    layout.target_tag = UInt64(2 * word)
    layout.target_waitable = tag(of: JointWait.Target.waitable(.passUnretained(Waitable()), .send), at: 2 * word)
    layout.target_timeout = tag(of: JointWait.Target.timeout(.zero), at: 2 * word)
    layout.target_deadline = tag(of: JointWait.Target.deadline(0), at: 2 * word)
    return true
  }

  // MARK: Schedulers

  /// Stands for an object of another class, in a reference that is looked at and never followed.
  private final class Dummy {}

  private static func fillSchedulers(_ layout: inout coroutine_debug_layout) -> Bool {
    let dummy = Dummy()
    let address = UInt(bitPattern: Unmanaged.passUnretained(dummy).toOpaque())
    // One word each; references are counted by the object, whatever its class is taken for.
    func bits(_ reference: SchedulerReference) -> UInt64 {
      UInt64(unsafeBitCast(reference, to: UInt.self) ^ address)
    }
    layout.scheduler_pool = bits(.pool(unsafeBitCast(dummy, to: ThreadPool.self)))
    layout.scheduler_queue = bits(.queue(unsafeBitCast(dummy, to: QueueScheduler.self)))
    layout.scheduler_other = bits(.other(unsafeBitCast(dummy, to: ForeignScheduler.self)))
    layout.scheduler_mask = layout.scheduler_pool | layout.scheduler_queue | layout.scheduler_other
    // The cases without an object are words, too.
    layout.scheduler_shared_pool = UInt64(unsafeBitCast(SchedulerReference.sharedPool, to: UInt.self))
    layout.scheduler_none = UInt64(unsafeBitCast(SchedulerReference?.none, to: UInt.self))
    guard let core = fieldOffset("core", in: ThreadPool.self),
      let label = fieldOffset("label", in: QueueScheduler.self),
      let scheduler = fieldOffset("scheduler", in: ForeignScheduler.self)
    else { return false }
    layout.thread_pool_core = UInt64(core)
    layout.queue_label = UInt64(label)
    layout.other_object = UInt64(scheduler)
    return true
  }

  private static func fillPools(_ layout: inout coroutine_debug_layout) -> Bool {
    guard let count = fieldOffset("count", in: PoolCore.self), let host = fieldOffset("host", in: PoolCore.self),
      let global = fieldOffset("global", in: PoolCore.self), let workers = fieldOffset("workers", in: PoolCore.self),
      let first = fieldOffset("first", in: ReadyQueue.self), let slot = fieldOffset("slot", in: PoolWorker.self),
      let starting = fieldOffset("starting", in: PoolWorker.self),
      let line = fieldOffset("line", in: PoolWorker.self), let ring = fieldOffset("ring", in: PoolWorker.self),
      let head = fieldOffset("head", in: WorkRing.self), let tail = fieldOffset("tail", in: WorkRing.self),
      let slots = fieldOffset("slots", in: WorkRing.self)
    else { return false }
    layout.threads_count = UInt64(count)
    layout.threads_host = UInt64(host)
    layout.threads_host_own = withUnsafeBytes(of: PoolCore.Host.threads) { $0.loadUnaligned(as: UInt64.self) }
    layout.threads_global_first = UInt64(global + first)
    layout.threads_workers = UInt64(workers)
    layout.worker_slot = UInt64(slot)
    layout.worker_starting = UInt64(starting)
    layout.worker_line_first = UInt64(line + first)
    layout.worker_ring_head = UInt64(ring + head)
    layout.worker_ring_tail = UInt64(ring + tail)
    layout.worker_ring_slots = UInt64(ring + slots)
    layout.worker_ring_capacity = UInt64(WorkRing.capacity)
    return true
  }

  // MARK: What is waited at

  private static func fillKinds(_ layout: inout coroutine_debug_layout) -> Bool {
    withUnsafeMutableBytes(of: &layout.kinds) { bytes in
      let kinds = bytes.bindMemory(to: coroutine_debug_kind.self)
      let waitables = WaitableClasses.all
      require(kinds.count == waitables.count, "coroutine_debug_kinds must be the number of WaitableClasses")
      for (number, waitable) in waitables.enumerated() {
        guard let known = waitable.waitFields else { return false }
        let fields = known + Array(repeating: CoroutineCore.noField, count: 6 - known.count)
        kinds[number].descriptor = UInt64(SwiftClass.descriptor(of: waitable))
        kinds[number].fields = (fields[0], fields[1], fields[2], fields[3], fields[4], fields[5])
      }
      return true
    }
  }
}

/// `coroutine_publish_debug_layout` of debug_layout.h.
@_cdecl("coroutine_publish_debug_layout")
package func publishDebugLayout() { _ = DebugLayout.published }
