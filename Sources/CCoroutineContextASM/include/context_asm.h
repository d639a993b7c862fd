// SPDX-License-Identifier: Apache-2.0

// A machine context and the switch between two of them, in assembly: one header per architecture, with the same names
// (`struct context_asm`, `context_asm_initialize`, `_switch`, `_registers`, `_destroy`; for two that lie side by side
// `_enter`, `_leave`, `_pass`), and this file, which includes the right one, and has `_layout`.
//
// The contract is that of `ContextBackend` in the module Context. In short:
//   - a context is a record of a few words in memory that the caller owns; it holds registers while it is suspended;
//   - a switch saves the running side in `from` and goes on where `to` was suspended;
//   - the contents of a context that runs are stale, until `_destroy` or the next switch overwrites them;
//   - one word travels across: it is what the switch returns on the other side, or the entry function's argument.
#pragma once

#include <stddef.h>

#if !defined(__linux__)
#error "CCoroutineContextASM supports Linux only. Elsewhere choose the Boost backend (--traits Boost, -DCONTEXT_BACKEND=boost)."
#elif defined(__x86_64__) && !defined(__ILP32__)
#include "context_asm_x86_64.h"
#elif defined(__aarch64__) && !defined(__ILP32__)
#include "context_asm_aarch64.h"
#else
#error "CCoroutineContextASM has no assembly for this architecture. Choose another backend: --traits Boost or --traits Ucontext (SwiftPM), -DCONTEXT_BACKEND=boost or ucontext (CMake)."
#endif

// For readers of another process: where a suspended context holds pc, sp, fp and the base register (~0: it does not),
// and the word that is 0 in a destroyed one. Offsets; returns 0 where they are not known.
static inline int context_asm_layout(uintptr_t registers[4], uintptr_t *live, int *is_indirect) {
  registers[0] = offsetof(struct context_asm, pc);
  registers[1] = offsetof(struct context_asm, sp);
  registers[2] = offsetof(struct context_asm, fp);
#if defined(__aarch64__)
  registers[3] = offsetof(struct context_asm, base);
#else
  registers[3] = ~(uintptr_t)0;
#endif
  *live = offsetof(struct context_asm, pc);
  *is_indirect = 0;
  return 1;
}
