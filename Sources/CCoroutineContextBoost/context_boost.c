// SPDX-License-Identifier: Apache-2.0

// The parts of the Boost backend that no hot path needs. The layout of a suspended fcontext is not documented; it is
// the order in which Boost.Context's jump_*_sysv_elf_gas.S pushes, the same in every release from 1.61 on, and the
// conformance suite checks it against a live stack.

#include "context_boost.h"

#include <stddef.h>

#if defined(CONTEXT_BACKEND_BOOST) && !defined(CONTEXT_BOOST_LIBRARY_ELSEWHERE)
// Chosen without its library, the link would fail with a message about -lboost_context only.
#if !__has_include("/usr/lib/x86_64-linux-gnu/libboost_context.so") &&                                                 \
    !__has_include("/usr/lib/x86_64-linux-gnu/libboost_context.a") &&                                                  \
    !__has_include("/usr/lib/aarch64-linux-gnu/libboost_context.so") &&                                                \
    !__has_include("/usr/lib/aarch64-linux-gnu/libboost_context.a") &&                                                 \
    !__has_include("/usr/lib64/libboost_context.so") && !__has_include("/usr/lib/libboost_context.so") &&              \
    !__has_include("/usr/local/lib/libboost_context.so") && !__has_include("/usr/local/lib/libboost_context.a")
#error "The Boost backend is chosen, but libboost_context is not installed. Install it (Debian, Ubuntu: apt-get install libboost-context-dev; Fedora: dnf install boost-devel), or choose another backend (SwiftPM: --traits ASM; CMake: -DCONTEXT_BACKEND=asm). A library in another place: -Xcc -DCONTEXT_BOOST_LIBRARY_ELSEWHERE -Xlinker -L<its folder>."
#endif
#endif

extern context_boost_fcontext make_fcontext(void *top, uintptr_t size, void (*entry)(struct context_boost_transfer));

// The first code on a new stack. A C function calls nothing here that could unwind: it is the end of the stack.
static void context_boost_entry(struct context_boost_transfer arrival) {
  struct context_boost *self = (struct context_boost *)arrival.data;
  self->departed->fctx = arrival.fctx;
  self->entry(self->word);
  __builtin_trap();  // the entry function must not return: there is nowhere to go
}

void context_boost_initialize(struct context_boost *context, void *top, uintptr_t size, struct context_boost *resumer,
                              void (*entry)(uintptr_t)) {
  (void)resumer;
  context->fctx = make_fcontext(top, size, context_boost_entry);
  context->entry = entry;
}

// In words from where fcontext has saved them.
#if defined(__x86_64__)
// +0 mxcsr, x87 control word  +8 r12  +16 r13  +24 r14  +32 r15  +40 rbx  +48 rbp  +56 rip; rsp is what lies above
enum { saved_pc = 7, above_saved = 8, saved_fp = 6, saved_base = 5 };
#elif defined(__aarch64__)
// +0 d8-d15  +64 x19-x28  +144 fp  +152 lr  +160 pc (the entry before the first switch, else lr); sp is +176
enum { saved_pc = 20, above_saved = 22, saved_fp = 18, saved_base = 8 };
#else
#error "The Boost backend does not know where fcontext keeps the registers on this architecture. Choose --traits Ucontext (SwiftPM) or -DCONTEXT_BACKEND=ucontext (CMake)."
#endif

int context_boost_registers(const struct context_boost *context, uintptr_t registers[4]) {
  const uintptr_t *saved = (const uintptr_t *)context->fctx;
  if (saved == 0) return 0;
  registers[0] = saved[saved_pc];
  registers[1] = (uintptr_t)(saved + above_saved);
  registers[2] = saved[saved_fp];
  registers[3] = saved[saved_base];
  return 1;
}

int context_boost_layout(uintptr_t registers[4], uintptr_t *live, int *is_indirect) {
  registers[0] = saved_pc * sizeof(uintptr_t);
  registers[1] = above_saved * sizeof(uintptr_t);
  registers[2] = saved_fp * sizeof(uintptr_t);
  registers[3] = saved_base * sizeof(uintptr_t);
  *live = offsetof(struct context_boost, fctx);
  *is_indirect = 1;
  return 1;
}
