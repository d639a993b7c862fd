// SPDX-License-Identifier: Apache-2.0

// What the runtime is asked to do beside its work. By one word, which is 0 most of the time, so that a coroutine's turn
// tests it once when it begins and once when it ends, for all requests. One word also means that an observer that has
// seen one event of a coroutine sees the next, on whichever thread: a word is never seen as it was before.
//
// The freeze: how a debugger of coroutines keeps the suspended ones suspended while it reads their stacks. The resumer
// of a coroutine stores "running" in its block and *then* reads the word; the debugger sets the bit and *then* reads
// the states. One of the two sees the other. The resumer's side must cost nothing, so it has no fence, only an order of
// two instructions; the debugger's side makes up for it with membarrier(2), which runs a fence on every thread of the
// process. Swift's `Freeze` does that part.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum coroutine_request {
  // No thread may resume a coroutine.
  COROUTINE_REQUEST_FREEZE = 1,
  // Coroutines are to note when they suspended or became ready.
  COROUTINE_REQUEST_TIMES = 2,
  // Observers are to be called with what happens: Swift's `CoroutineObservation`.
  COROUTINE_REQUEST_EVENTS = 4,
  // New coroutines are to note their creators: `coroutine_creation_backtracer` finds them.
  COROUTINE_REQUEST_CREATORS = 8,
  // Runs of tests are to be notified of what is launched in them to run elsewhere: CoroutineTesting's.
  COROUTINE_REQUEST_LAUNCHES = 16,
  // The module Observation is loaded: what suspends must leave none of its lists behind (property_tracking.c).
  COROUTINE_REQUEST_TRACKING = 32,
};

// Also what threads that must not resume now sleep on: a futex.
extern uint32_t coroutine_requests;

static inline void coroutine_request(enum coroutine_request request, bool on) {
  if (on)
    __atomic_fetch_or(&coroutine_requests, (uint32_t)request, __ATOMIC_SEQ_CST);
  else
    __atomic_fetch_and(&coroutine_requests, ~(uint32_t)request, __ATOMIC_SEQ_CST);
}

static inline __attribute__((always_inline)) uint32_t coroutine_requests_now(void) {
  __asm__ volatile("" ::: "memory");  // the state is stored before this load; litmus: freeze-none, freeze-thaw
  return __atomic_load_n(&coroutine_requests, __ATOMIC_ACQUIRE);
}

// MARK: What is asked for

static inline __attribute__((always_inline)) bool coroutine_inspection_requested(void) {
  return (coroutine_requests_now() & COROUTINE_REQUEST_FREEZE) != 0;
}

static inline __attribute__((always_inline)) bool coroutine_times_are_recorded(void) {
  return (coroutine_requests_now() & COROUTINE_REQUEST_TIMES) != 0;
}

static inline __attribute__((always_inline)) bool coroutine_events_are_observed(void) {
  return (coroutine_requests_now() & COROUTINE_REQUEST_EVENTS) != 0;
}

static inline __attribute__((always_inline)) bool coroutine_launches_are_observed(void) {
  return (coroutine_requests_now() & COROUTINE_REQUEST_LAUNCHES) != 0;
}

// When one is launched: anything to note.
static inline __attribute__((always_inline)) bool coroutine_launch_is_noted(void) {
  return (coroutine_requests_now() & (COROUTINE_REQUEST_EVENTS | COROUTINE_REQUEST_LAUNCHES)) != 0;
}

// When a turn begins: anything to do before.
static inline __attribute__((always_inline)) bool coroutine_turn_begin_is_observed(void) {
  return (coroutine_requests_now() & (COROUTINE_REQUEST_FREEZE | COROUTINE_REQUEST_EVENTS)) != 0;
}

// When a turn ends, or ends and the next one begins: anything to note, or to wait for.
static inline __attribute__((always_inline)) bool coroutine_turn_is_observed(void) {
  return (coroutine_requests_now()
          & (COROUTINE_REQUEST_FREEZE | COROUTINE_REQUEST_TIMES | COROUTINE_REQUEST_EVENTS)) != 0;
}

// The same, or anything to look at.
static inline __attribute__((always_inline)) bool coroutine_turn_is_observed_or_tracked(void) {
  return (coroutine_requests_now()
          & (COROUTINE_REQUEST_FREEZE | COROUTINE_REQUEST_TIMES | COROUTINE_REQUEST_EVENTS | COROUTINE_REQUEST_TRACKING)) != 0;
}

// When one is created: anything to note.
static inline __attribute__((always_inline)) bool coroutine_creation_is_noted(void) {
  return (coroutine_requests_now()
          & (COROUTINE_REQUEST_TIMES | COROUTINE_REQUEST_EVENTS | COROUTINE_REQUEST_CREATORS)) != 0;
}

// Whether code here may be inside of `withObservationTracking`: see property_tracking.c.
static inline __attribute__((always_inline)) bool coroutine_properties_are_tracked(void) {
  return (coroutine_requests_now() & COROUTINE_REQUEST_TRACKING) != 0;
}

// When one becomes ready, or a turn's end is left out: anything to note.
static inline __attribute__((always_inline)) bool coroutine_notes_are_taken(void) {
  return (coroutine_requests_now() & (COROUTINE_REQUEST_TIMES | COROUTINE_REQUEST_EVENTS)) != 0;
}

// The word's address: Swift may not name a global variable of C that changes.
static inline uint32_t *coroutine_requests_address(void) { return &coroutine_requests; }

static inline void coroutine_record_times(bool on) { coroutine_request(COROUTINE_REQUEST_TIMES, on); }

// The timers' clock, in nanoseconds, as of the kernel's last tick: 1 to 10 ms old, a third of the price.
uint64_t coroutine_coarse_time(void);
// The same, exactly.
uint64_t coroutine_exact_time(void);

// MARK: How deep

extern uint32_t coroutine_measures_stacks;

// Whether each coroutine and generator is to begin on a stack without pages, so that what is there later is its own.
static inline __attribute__((always_inline)) bool coroutine_stacks_are_measured(void) {
  return __atomic_load_n(&coroutine_measures_stacks, __ATOMIC_RELAXED) != 0;
}

static inline void coroutine_measure_stacks(bool on) {
  __atomic_store_n(&coroutine_measures_stacks, on, __ATOMIC_RELAXED);
}

// MARK: Where from

// Writes the return addresses of the calling thread's frames, innermost first; returns how many.
typedef size_t (*coroutine_backtracer)(uintptr_t *addresses, size_t capacity);

extern coroutine_backtracer coroutine_creation_backtracer;

// Called for each new coroutine to find where it was created; NULL if no debugger wants to know.
static inline __attribute__((always_inline)) coroutine_backtracer coroutine_get_creation_backtracer(void) {
  if (!(coroutine_requests_now() & COROUTINE_REQUEST_CREATORS)) return NULL;
  return __atomic_load_n(&coroutine_creation_backtracer, __ATOMIC_RELAXED);
}

static inline void coroutine_set_creation_backtracer(coroutine_backtracer backtracer) {
  // Kept when no debugger wants to know any more: the bit alone decides, for threads that ask for different things at
  // once.
  if (backtracer) __atomic_store_n(&coroutine_creation_backtracer, backtracer, __ATOMIC_RELAXED);
  coroutine_request(COROUTINE_REQUEST_CREATORS, backtracer != NULL);
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

// MARK: The poller

// The eventfds by which threads of the runtime interrupt a thread that waits for events; -1 without a poller. Only they write
// to them, also where a child of the process has copies: a thread that waits for nothing else can't go on by itself.
extern int coroutine_poller_wakes[2];

static inline void coroutine_note_poller_wakes(int first, int second) {
  __atomic_store_n(&coroutine_poller_wakes[0], first, __ATOMIC_RELEASE);
  __atomic_store_n(&coroutine_poller_wakes[1], second, __ATOMIC_RELEASE);
}

static inline bool coroutine_is_poller_wake(int descriptor) {
  for (int i = 0; i < 2; i++)
    if (descriptor >= 0 && __atomic_load_n(&coroutine_poller_wakes[i], __ATOMIC_ACQUIRE) == descriptor) return true;
  return false;
}
