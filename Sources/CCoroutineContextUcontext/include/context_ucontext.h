// SPDX-License-Identifier: Apache-2.0

// A machine context and the switch between two of them over glibc's ucontext: the same names as the other backends
// (`struct context_ucontext`, `context_ucontext_initialize`, `_switch`, `_registers`, `_layout`, `_destroy`).
//
// The portable backend, and the slow one: swapcontext also exchanges the signal mask, a system call each way. It cannot
// carry a word, so that travels in the context that is switched to.
#pragma once

#include <stdint.h>
#include <ucontext.h>

struct context_ucontext {
  uintptr_t word;            // handed over by the next switch to it
  struct context_ucontext *departed;  // set by it too: the context of the side that left
  uintptr_t holds_registers; // 0 once destroyed: `state` says nothing then
  void (*entry)(uintptr_t);  // before the first switch to it
  ucontext_t state;          // glibc keeps a pointer into it (the floating-point area): it must not move
};

// Makes `context` ready to run `entry` with the first word passed to it, on the stack of `size` bytes that ends at
// `top`. `entry` must not return. `resumer` (the unwinders' link in other backends) is not used: glibc ends its stacks
// at `__start_context`.
void context_ucontext_initialize(struct context_ucontext *context, void *top, uintptr_t size,
                                 struct context_ucontext *resumer, void (*entry)(uintptr_t));

// What a switch returns, on the side that is continued: the word that was handed over, and the context in which the side
// that left is saved.
struct context_ucontext_arrival {
  uintptr_t word;
  struct context_ucontext *departed;
};

// swapcontext saves mxcsr and the x87 control word, or fpcr, and restores those of the side that it continues. By the contract
// they are the thread's: so that side gets the thread's first.
void context_ucontext_keep_rounding(struct context_ucontext *to);

// Saves the running side in `from`, goes on where `to` was suspended, and hands `word` over. Returns when another side
// switches to `from`. `to` must be suspended; `from` and `to` must differ.
static inline __attribute__((always_inline)) struct context_ucontext_arrival context_ucontext_switch(
    struct context_ucontext *from, struct context_ucontext *to, uintptr_t word) {
  if (!to->holds_registers) __builtin_trap();  // destroyed: what `state` says is of the past
  to->word = word;
  to->departed = from;
  from->holds_registers = 1;
  context_ucontext_keep_rounding(to);
  (void)swapcontext(&from->state, &to->state);  // fails only where `makecontext` was given no stack: never here
  return (struct context_ucontext_arrival){from->word, from->departed};
}

// Reads the registers of a suspended context: pc, sp, fp and the base register (rbx, x19). Returns 0, and writes
// nothing, for a destroyed one. One that never ran stands at its entry.
int context_ucontext_registers(const struct context_ucontext *context, uintptr_t registers[4]);

// For readers of another process: where a suspended context holds pc, sp, fp and the base register, and the word that
// is 0 in a destroyed one. Offsets; returns 0 where they are not known.
int context_ucontext_layout(uintptr_t registers[4], uintptr_t *live, int *is_indirect);

// From here on the context holds nothing: it owns no memory.
static inline void context_ucontext_destroy(struct context_ucontext *context) { context->holds_registers = 0; }
