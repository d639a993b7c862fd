// The freeze: how a debugger of coroutines keeps the suspended ones suspended while it reads their stacks.
//
// Whoever resumes a coroutine stores "running" in its block and *then* reads the flag; the debugger sets the flag and
// *then* reads the states. One of the two sees the other. The resumer's side must cost nothing, so it has no fence, only
// an order of two instructions; the debugger's side makes up for it with membarrier(2), which runs a fence on every
// thread of the process. Swift's `Inspection` does that part.
#pragma once

#include <stdbool.h>
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
