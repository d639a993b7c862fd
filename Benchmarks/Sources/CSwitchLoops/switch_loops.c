// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "switch_loops.h"

#include <context_asm.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { stack_size = 64 << 10 };

static void *new_stack(void) {
  void *stack = aligned_alloc(4096, stack_size);
  if (stack == NULL) abort();
  return stack;
}

// Runs `statement` while `condition` holds, in the chosen layout. It has no counter of its own: a counter in memory
// across a switch would take longer than the ASM backend's switch.
#define REPEAT(layout, condition, statement)                                                                           \
  do {                                                                                                                 \
    switch (layout) {                                                                                                  \
      case 0: REPEAT_PADDED(condition, statement, (void)0); break;                                                     \
      case 1: REPEAT_PADDED(condition, statement, switch_loop_pad_4()); break;                                         \
      case 2: REPEAT_PADDED(condition, statement, switch_loop_pad_8()); break;                                         \
      case 3: REPEAT_PADDED(condition, statement, switch_loop_pad_24()); break;                                        \
      default: abort();                                                                                                \
    }                                                                                                                  \
  } while (0)
#define REPEAT_PADDED(condition, statement, padding)                                                                   \
  while (condition) {                                                                                                  \
    statement;                                                                                                         \
    padding;                                                                                                           \
  }

// jump_fcontext. Its two symbols are declared by hand: Boost's own header is C++.

#if defined(BENCHMARKS_BOOST)

struct transfer {
  void *fctx;
  void *data;
};
extern struct transfer jump_fcontext(void *to, void *data);
extern void *make_fcontext(void *top, size_t size, void (*entry)(struct transfer));

const int switch_loops_have_boost = 1;

static void answer_jump_fcontext(struct transfer arrival) {
  for (;;) arrival = jump_fcontext(arrival.fctx, (void *)((uintptr_t)arrival.data + 1));
}

uintptr_t switch_loop_jump_fcontext(int layout, uintptr_t round_trips) {
  static void *partner;
  if (partner == NULL) partner = make_fcontext((char *)new_stack() + stack_size, stack_size, answer_jump_fcontext);
  struct transfer arrival = {partner, 0};
  REPEAT(layout, (uintptr_t)arrival.data < round_trips, arrival = jump_fcontext(arrival.fctx, arrival.data));
  partner = arrival.fctx;
  return (uintptr_t)arrival.data;
}

const char *switch_loops_boost_file(void) {
  Dl_info found;
  if (dladdr((void *)(uintptr_t)jump_fcontext, &found) == 0) return NULL;
  const char *slash = strrchr(found.dli_fname, '/');
  return slash == NULL ? found.dli_fname : slash + 1;
}

#else

const int switch_loops_have_boost = 0;
uintptr_t switch_loop_jump_fcontext(int layout, uintptr_t round_trips) {
  (void)layout;
  (void)round_trips;
  abort();
}
const char *switch_loops_boost_file(void) { return NULL; }

#endif

// swapcontext, which carries no word: the word lies in memory.

static ucontext_t ucontext_here, ucontext_there;
static uintptr_t ucontext_word;

static void answer_swapcontext(void) {
  for (;;) {
    ucontext_word += 1;
    (void)swapcontext(&ucontext_there, &ucontext_here);
  }
}

uintptr_t switch_loop_swapcontext(int layout, uintptr_t round_trips) {
  if (ucontext_there.uc_stack.ss_sp == NULL) {
    (void)getcontext(&ucontext_there);
    ucontext_there.uc_stack.ss_sp = new_stack();
    ucontext_there.uc_stack.ss_size = stack_size;
    makecontext(&ucontext_there, answer_swapcontext, 0);
  }
  ucontext_word = 0;
  REPEAT(layout, ucontext_word < round_trips, (void)swapcontext(&ucontext_here, &ucontext_there));
  return ucontext_word;
}

// The ASM backend's switch.

static struct context_asm asm_here, asm_there;

static void answer_context_asm(uintptr_t word) {
  for (;;) word = context_asm_switch(&asm_there, &asm_here, word + 1).word;
}

uintptr_t switch_loop_context_asm(int layout, uintptr_t round_trips) {
  if (asm_there.pc == 0) {
    context_asm_initialize(&asm_there, (char *)new_stack() + stack_size, &asm_here, answer_context_asm);
  }
  uintptr_t word = 0;
  REPEAT(layout, word < round_trips, word = context_asm_switch(&asm_here, &asm_there, word).word);
  return word;
}
