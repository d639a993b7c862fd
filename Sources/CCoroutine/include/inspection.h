// The freeze: how a debugger of coroutines keeps the suspended ones suspended while it reads their stacks.
//
// Whoever resumes a coroutine stores "running" in its block and *then* reads the flag; the debugger sets the flag and
// *then* reads the states. One of the two sees the other. The resumer's side must cost nothing, so it has no fence, only
// an order of two instructions; the debugger's side makes up for it with membarrier(2), which runs a fence on every
// thread of the process. Swift's `Inspection` does that part.
//
// And what a debugger may ask the runtime to do from the program's start on: each is a word that is 0 without one.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Also what those who must not resume now sleep on: a futex.
extern uint32_t coroutine_inspection_flag;

static inline __attribute__((always_inline)) bool coroutine_inspection_requested(void) {
  __asm__ volatile("" ::: "memory");  // the state is stored before this load
  return __atomic_load_n(&coroutine_inspection_flag, __ATOMIC_ACQUIRE) != 0;
}

static inline void coroutine_inspection_request(bool on) {
  __atomic_store_n(&coroutine_inspection_flag, on, __ATOMIC_SEQ_CST);
}

// The flag's address: Swift may not name a global variable of C that changes.
static inline uint32_t *coroutine_inspection_address(void) { return &coroutine_inspection_flag; }

// MARK: Since when

extern uint32_t coroutine_records_times;

// Whether coroutines are to note when they suspended or became ready.
static inline __attribute__((always_inline)) bool coroutine_times_are_recorded(void) {
  return __atomic_load_n(&coroutine_records_times, __ATOMIC_RELAXED) != 0;
}

static inline void coroutine_record_times(bool on) { __atomic_store_n(&coroutine_records_times, on, __ATOMIC_RELAXED); }

// The timers' clock, in nanoseconds, as of the kernel's last tick: 1 to 10 ms old, a third of the price.
uint64_t coroutine_coarse_time(void);

// MARK: Where from

// Writes the return addresses of the calling thread's frames, innermost first; returns how many.
typedef size_t (*coroutine_backtracer)(uintptr_t *addresses, size_t capacity);

extern coroutine_backtracer coroutine_creation_backtracer;

// What is called for each new coroutine to tell where it was created; NULL if nobody wants to know.
static inline __attribute__((always_inline)) coroutine_backtracer coroutine_get_creation_backtracer(void) {
  return __atomic_load_n(&coroutine_creation_backtracer, __ATOMIC_RELAXED);
}

static inline void coroutine_set_creation_backtracer(coroutine_backtracer backtracer) {
  __atomic_store_n(&coroutine_creation_backtracer, backtracer, __ATOMIC_RELAXED);
}

// MARK: Threads that run coroutines

extern void (*coroutine_thread_preparation)(void);

// Called by a thread that is about to run a coroutine, or a generator's body: often, and so does nothing the second time.
static inline __attribute__((always_inline)) void coroutine_prepare_thread(void) {
  void (*prepare)(void) = __atomic_load_n(&coroutine_thread_preparation, __ATOMIC_RELAXED);
  if (prepare) prepare();
}

static inline void coroutine_set_thread_preparation(void (*prepare)(void)) {
  __atomic_store_n(&coroutine_thread_preparation, prepare, __ATOMIC_RELAXED);
}
