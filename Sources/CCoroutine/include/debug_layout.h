// SPDX-License-Identifier: Apache-2.0

// Where the coroutines of a process lie, for debuggers that look at it from outside: another process, a core file's
// reader, gdb.
//
// They need no symbols and no debug information. An ELF note, which `strip` leaves and which lies in memory as in the
// file, leads to one structure of numbers: addresses of what all coroutines can be found from, and offsets of what is to
// be read there. The runtime fills it in when its first coroutine or pool is made, and keeps nothing up to date after that.
//
//     note: owner "Coroutine", type 1; 8 bytes: the structure's address less their own
//
// The structure is 64-bit numbers only, but for its head, in the order below. `Tools/gdb/coroutines.py` lists the same
// names in the same order. A change of anything here, or of what the numbers stand for, or of the texts that a reader
// makes of them (`WaitText`, `WaitOperation`), raises the version: a reader of another version refuses to guess.
#pragma once

#include <stdint.h>

#define COROUTINE_DEBUG_MAGIC "corolay"
enum { coroutine_debug_version = 13, coroutine_debug_note_type = 1 };

// The classes that a coroutine can wait at: the order of Swift's `WaitableClasses`.
enum { coroutine_debug_kinds = 18, coroutine_debug_kind_fields = 6 };

// One of these classes. An object is of it if its class, or one of that class's ancestors, has this type descriptor.
struct coroutine_debug_kind {
  uint64_t descriptor;                           // 0: there is none
  uint64_t fields[coroutine_debug_kind_fields];  // offsets in the object; what they are each class says: `ShownWaitable`
};

struct coroutine_debug_layout {
  char magic[8];         // with its zero
  uint32_t version;
  uint32_t size;         // of the structure
  uint64_t is_complete;  // 0: not filled in, there is nothing to be found yet
  uint64_t backend;      // a string's address
  uint64_t backend_code;  // the same: its module, its library or "-", how the names of its functions begin

  // What everything is found from: addresses.
  uint64_t stack_pools;       // where the first entry of a list lies: a pool, and the next entry
  uint64_t thread_pools;      // where the address of the first pool of threads lies; they are linked
  uint64_t unstarted_rows;     // where the address of the first row of those that have not begun lies; they are linked
  uint64_t row_next, row_count, row_slots;  // slots side by side: a coroutine, or 0

  // A saved context. It holds registers if the word at `context_live` is not 0.
  uint64_t context_size;
  uint64_t context_is_known;  // 0: where its registers lie is not known
  uint64_t context_live;
  uint64_t context_indirect;  // 1: the offsets that follow count from where the context's first word points
  uint64_t context_pc;
  uint64_t context_sp;        // where sp is saved; of an indirect one, how far above that address it is itself
  uint64_t context_fp;
  uint64_t context_base;      // ~0: not saved

  // A control block: at the upper end of its stack, less color * `block_color`, less its size, at a multiple of 64. A
  // link of two contexts comes first: its own, and its resumer's.
  uint64_t block_size;
  uint64_t block_color;
  uint64_t block_serial;
  uint64_t block_state;
  uint64_t block_owner;
  uint64_t state_generator, state_ready, state_running, state_suspended;

  // The pools of stacks, and their arenas.
  uint64_t pool_newest_arena;
  uint64_t arena_stack_size, arena_gap, arena_base, arena_slots, arena_older, arena_live;

  // A coroutine.
  uint64_t core_id, core_name, core_block, core_creator, core_scope, core_state, core_state_ready;
  uint64_t core_home, core_next_ready, core_since;
  // Where a coroutine keeps what few have; 0: it has nothing of that. The word at `extras_cancelled` is 0 unless it was cancelled.
  uint64_t core_extras, extras_visiting, extras_creation, extras_cancelled;
  // What it waits for. The byte at `core_subject_tag` says what the word before it is; other values: it does not wait.
  uint64_t core_operation, core_subject, core_subject_tag, core_deadline;
  uint64_t subject_object, subject_cases;
  uint64_t scope_name, scope_owner;

  // A reference to a scheduler: an object's address. The bits of the mask say of which kind. Two are whole words.
  uint64_t scheduler_mask, scheduler_pool, scheduler_queue, scheduler_other;
  uint64_t scheduler_shared_pool, scheduler_none;
  uint64_t thread_pool_core, queue_label, other_object;

  // The pools of threads, and what is ready there.
  // `threads_host`: where a word lies that is `threads_host_own` unless the pool runs on the calling thread.
  uint64_t threads_count, threads_host, threads_host_own, threads_global_first, threads_workers;
  uint64_t worker_slot, worker_starting, worker_line_first;
  uint64_t worker_ring_head, worker_ring_tail, worker_ring_slots, worker_ring_capacity;

  // A select: the address of its cases, and their number. Each begins with what is waited at, or a `Duration`.
  uint64_t select_targets, select_count, target_stride, target_operation, target_tag;
  uint64_t target_waitable, target_timeout, target_deadline;

  struct coroutine_debug_kind kinds[coroutine_debug_kinds];
};

extern struct coroutine_debug_layout coroutine_debug_layout;

// Fills the structure in, once. Swift's `DebugLayout` defines it: it knows all that coroutines can wait at, and is called from
// below by this name alone.
void coroutine_publish_debug_layout(void);

// Swift may not name a global variable of C that changes.
static inline struct coroutine_debug_layout *coroutine_debug_layout_address(void) { return &coroutine_debug_layout; }
