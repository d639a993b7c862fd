// SPDX-License-Identifier: Apache-2.0

// What the compiler must not know, so that the processor has less to wait for: where it would keep in memory what is
// computed faster, and where it would go on with a value that is loaded late. And what it can't know by itself.
#pragma once

#include <stdint.h>

#include "thread_slot.h"

// From a generator's block to the lowest line of its body's frame: the frames of the entry function, which catches what
// the body throws, of the function that knows what it yields, and of the body itself, which takes 64 bytes. As Swift
// 6.3 optimises for x86-64, on the ASM backend.
#define COROUTINE_BODY_FRAME 256

// Says what is true always: so the compiler can take a value that it has for one that it would have to load. Undefined where
// it is false.
static inline __attribute__((always_inline)) void coroutine_assume(_Bool condition) {
  if (!condition) __builtin_unreachable();
}

// Returns `block`, and lets the processor fetch what lies `COROUTINE_BODY_FRAME` bytes below it meanwhile: the frame of a
// generator's body that yields by itself, and not from a function that it calls. Of many generators, one after another, neither
// is in a near cache, and where the frame lies is known only when the block is here. A guess: nothing depends on it, and an
// address that is not mapped does no harm.
//
// Not a builtin, which the compiler would not move across the retain of the generator before it, an atomic operation that
// waits for every load.
static inline __attribute__((always_inline)) void *coroutine_prefetched(void *block) {
#if defined(__x86_64__)
  __asm__("prefetcht0 %c1(%0)" : "+r"(block) : "i"(-COROUTINE_BODY_FRAME));
#elif defined(__aarch64__)
  void *frame = (char *)block - COROUTINE_BODY_FRAME;
  __asm__("prfm pldl1keep, [%1]" : "+r"(block) : "r"(frame));
#endif
  return block;
}

#if defined(__x86_64__) && defined(__linux__)

// An address that is known before it has been loaded.
//
// The way of a generator's element is as long as its chain of loads: after the switch the consumer reloads its frame
// pointer, by that the generator, by that the block, and by that the frame pointer of the body. Mostly the block is the
// one that this thread used last. A copy of that lies at an address that depends on none of these loads: the processor goes
// on with the copy, and compares it with what the chain brings when that is there. No fact depends on the copy.

// Only ever compared, so that whatever is left in it does no harm.
COROUTINE_THREAD_SLOT(coroutine_speculation_slot);

// Returns `actual`, earlier than it is there where the call before had the same, on this thread.
static inline __attribute__((always_inline)) void *coroutine_speculate(void *actual) {
  void *predicted = coroutine_speculation_slot_load();
  // The compiler must not learn that the two are equal: it would go on with `actual`.
  void *copy = predicted;
  __asm__("" : "+r"(copy));
  if (__builtin_expect(copy == actual, 1)) return predicted;
  coroutine_speculation_slot_store(actual);
  return actual;
}

#else

static inline __attribute__((always_inline)) void *coroutine_speculate(void *actual) { return actual; }

#endif
