// SPDX-License-Identifier: Apache-2.0

// The parts of the ucontext backend that no hot path needs.

#define _GNU_SOURCE 1
#include "context_ucontext.h"

#include <stddef.h>
#if defined(__aarch64__)
#include <asm/sigcontext.h>
#endif

#if !defined(__linux__) || !defined(__GLIBC__)
#error "The ucontext backend is one of glibc's functions, which musl does not have. Choose another: --traits ASM (SwiftPM), -DCONTEXT_BACKEND=asm (CMake)."
#endif

// makecontext passes ints only: the context's address travels as two of them.
static void context_ucontext_entry(unsigned int high, unsigned int low) {
  struct context_ucontext *self = (struct context_ucontext *)((uintptr_t)high << 32 | (uintptr_t)low);
  self->entry(self->word);
  __builtin_trap();  // the entry function must not return: there is nowhere to go
}

void context_ucontext_initialize(struct context_ucontext *context, void *top, uintptr_t size,
                                 struct context_ucontext *resumer, void (*entry)(uintptr_t)) {
  (void)resumer;
  // Takes over the signal mask and the floating-point environment of the creating thread; fails only on a bad pointer.
  (void)getcontext(&context->state);
  context->state.uc_stack.ss_sp = (char *)top - size;
  context->state.uc_stack.ss_size = size;
  context->state.uc_link = 0;
  context->entry = entry;
  context->holds_registers = 1;
  uintptr_t address = (uintptr_t)context;
  makecontext(&context->state, (void (*)(void))context_ucontext_entry, 2, (unsigned int)(address >> 32),
              (unsigned int)address);
  // The frame pointers end with the stack. What getcontext found is the creator's: a walker that follows them, as
  // libunwind does behind the last function, would go on on a stack that may be gone by then.
#if defined(__x86_64__)
  context->state.uc_mcontext.gregs[REG_RBP] = 0;
#elif defined(__aarch64__)
  context->state.uc_mcontext.regs[29] = 0;
#endif
}

void context_ucontext_keep_rounding(struct context_ucontext *to) {
#if defined(__x86_64__)
  struct _libc_fpstate *saved = to->state.uc_mcontext.fpregs;
  __asm__("stmxcsr %0\n\tfnstcw %1" : "=m"(saved->mxcsr), "=m"(saved->cwd));
#elif defined(__aarch64__)
  // The first of the records behind the registers, as glibc writes it.
  struct fpsimd_context *saved = (struct fpsimd_context *)(void *)to->state.uc_mcontext.__reserved;
  if (saved->head.magic != FPSIMD_MAGIC) return;
  uint64_t control;
  __asm__("mrs %0, fpcr" : "=r"(control));
  saved->fpcr = (uint32_t)control;
#endif
}

int context_ucontext_registers(const struct context_ucontext *context, uintptr_t registers[4]) {
  if (!context->holds_registers) return 0;
  const mcontext_t *machine = &context->state.uc_mcontext;
#if defined(__x86_64__)
  registers[0] = (uintptr_t)machine->gregs[REG_RIP];
  registers[1] = (uintptr_t)machine->gregs[REG_RSP];
  registers[2] = (uintptr_t)machine->gregs[REG_RBP];
  registers[3] = (uintptr_t)machine->gregs[REG_RBX];
#elif defined(__aarch64__)
  // Newer glibc (2.36 is one) stops inside `swapcontext`, with its caller's return address in x1's slot and without
  // call frame information. So the caller is taken, to which the other registers belong already.
  const uintptr_t pc = (uintptr_t)machine->pc;
  registers[0] = pc - (uintptr_t)&swapcontext < 512 ? (uintptr_t)machine->regs[1] : pc;
  registers[1] = (uintptr_t)machine->sp;
  registers[2] = (uintptr_t)machine->regs[29];
  registers[3] = (uintptr_t)machine->regs[19];
#else
#error "The ucontext backend does not know this architecture's mcontext_t: add its four registers here."
#endif
  return 1;
}

int context_ucontext_layout(uintptr_t registers[4], uintptr_t *live, int *is_indirect) {
#if defined(__x86_64__)
  const uintptr_t general = offsetof(struct context_ucontext, state.uc_mcontext.gregs);
  registers[0] = general + REG_RIP * sizeof(greg_t);
  registers[1] = general + REG_RSP * sizeof(greg_t);
  registers[2] = general + REG_RBP * sizeof(greg_t);
  registers[3] = general + REG_RBX * sizeof(greg_t);
  *live = offsetof(struct context_ucontext, holds_registers);
  *is_indirect = 0;
  return 1;
#else
  // On aarch64 it depends on pc's value which slot it is, see above.
  (void)registers, (void)live, (void)is_indirect;
  return 0;
#endif
}
