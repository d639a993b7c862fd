// SPDX-License-Identifier: Apache-2.0

// A machine context and the switch between two of them over Boost.Context's fcontext: the same names as the other
// backends (`struct context_boost`, `context_boost_initialize`, `_switch`, `_registers`, `_layout`, `_destroy`).
//
// `jump_fcontext` saves the running side on its own stack and reports *where* to the other side only, together with one
// pointer. So the pointer carries the context that is being switched to. The side that arrives there stores the
// reported pointer into the context of the side that left, and finds its word in its own:
//
//     struct context_boost        while it is suspended
//     +0   fctx                   where its registers lie, on its own stack
//     +8   word                   (set by the next switch to it)
//     +16  departed               (set by the next switch to it: the context of the side that left)
//     +24  entry                  the entry function, before the first switch to it
//
// Boost's two symbols are declared by hand: a build in which this backend is not chosen needs no header of Boost's.
// Preserved: what the System V ABI preserves across a call, except the rounding mode and other control state (mxcsr,
// the x87 control word), which is the thread's.
#pragma once

#include <stdint.h>

typedef void *context_boost_fcontext;
struct context_boost_transfer {
  context_boost_fcontext fctx;
  void *data;
};
extern struct context_boost_transfer jump_fcontext(context_boost_fcontext to, void *data);

struct context_boost {
  context_boost_fcontext fctx;
  uintptr_t word;
  struct context_boost *departed;
  void (*entry)(uintptr_t);
};

// Makes `context` ready to run `entry` with the first word passed to it, on the stack of `size` bytes that ends at
// `top`. `entry` must not return. `resumer` (the unwinders' link in other backends) is not used: fcontext ends its
// stacks inside `make_fcontext`.
void context_boost_initialize(struct context_boost *context, void *top, uintptr_t size,
                              struct context_boost *resumer, void (*entry)(uintptr_t));

// What a switch returns, on the side that is continued: the word that was handed over, and the context in which the side
// that left is saved.
struct context_boost_arrival {
  uintptr_t word;
  struct context_boost *departed;
};

// fcontext saves mxcsr and the x87 control word, in the first two half words of its record, and restores those of the
// side that it continues. The contract says that they are the thread's: so where they differ, that side gets the
// thread's. The control word is enough to see a difference, since `fesetround` and `feenableexcept` change both; to
// read mxcsr at each switch would take as long as the switch does. On aarch64 none of this is needed.
static inline __attribute__((always_inline)) void context_boost_keep_rounding(struct context_boost *to) {
#if defined(__x86_64__)
  uint32_t *saved = (uint32_t *)to->fctx;
  uint16_t *saved_control = (uint16_t *)&saved[1], control;
  __asm__ volatile("fnstcw %0" : "=m"(control));
  if (__builtin_expect(control != *saved_control, 0)) {
    *saved_control = control;
    __asm__ volatile("stmxcsr %0" : "=m"(saved[0]));
  }
#else
  (void)to;
#endif
}

// Saves the running side in `from`, goes on where `to` was suspended, and hands `word` over. Returns when `from` is
// switched to. `to` must be suspended; `from` and `to` must differ.
static inline __attribute__((always_inline)) struct context_boost_arrival context_boost_switch(
    struct context_boost *from, struct context_boost *to, uintptr_t word) {
  to->word = word;
  to->departed = from;
  context_boost_keep_rounding(to);
  // Arrived again: `data` is the context that was switched to, `from` itself.
  struct context_boost_transfer arrival = jump_fcontext(to->fctx, to);
  struct context_boost *self = (struct context_boost *)arrival.data;
  self->departed->fctx = arrival.fctx;
  return (struct context_boost_arrival){self->word, self->departed};
}

// Reads the registers of a suspended context: pc, sp, fp and the base register (rbx, x19). Returns 0, and writes
// nothing, for a destroyed one. One that never ran stands at the start of Boost's trampoline.
int context_boost_registers(const struct context_boost *context, uintptr_t registers[4]);

// For readers of another process: where `context_boost_registers` finds them, as offsets from where the context's first
// word points. sp is not saved: its value is that address plus its offset. The word that is 0 in a destroyed context is
// at `live`.
int context_boost_layout(uintptr_t registers[4], uintptr_t *live, int *is_indirect);

// From here on the context holds nothing. It owns no memory; a switch to it by mistake fails at address 0.
static inline void context_boost_destroy(struct context_boost *context) { context->fctx = 0; }
