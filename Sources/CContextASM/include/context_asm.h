// A machine context and the switch between two of them, in assembly: one header per architecture, the same five names
// in each (`struct context_asm`, `context_asm_initialize`, `_switch`, `_registers`, `_destroy`), and this ladder.
//
// The contract is that of `ContextBackend` in the module Context. In short:
//   - a context is a record of a few words in memory that the caller owns; it holds registers while it is suspended;
//   - a switch saves the running side in `from` and goes on where `to` was suspended;
//   - the contents of a context that runs are stale, until `_destroy` or the next switch overwrites them;
//   - one word travels across: it is what the switch returns on the other side, or the entry function's argument.
#pragma once

#if !defined(__linux__)
#error "CContextASM supports Linux only. Elsewhere choose the Boost backend (--traits Boost, -DCONTEXT_BACKEND=boost)."
#elif defined(__x86_64__) && !defined(__ILP32__)
#include "context_asm_x86_64.h"
#elif defined(__aarch64__) && !defined(__ILP32__)
#include "context_asm_aarch64.h"
#else
#error "CContextASM has no assembly for this architecture. Choose another backend: --traits Boost or --traits Ucontext (SwiftPM), -DCONTEXT_BACKEND=boost or ucontext (CMake)."
#endif
