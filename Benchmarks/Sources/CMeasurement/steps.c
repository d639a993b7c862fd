// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "steps.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>

const char *steps_file(uintptr_t address) {
  Dl_info found;
  return dladdr((void *)address, &found) != 0 ? found.dli_fname : NULL;
}

#if defined(__x86_64__)

const bool steps_are_possible = true;

// Used by the one thread that steps. Its handler runs between its instructions.
static uintptr_t *noted;
static size_t room, taken;
static volatile sig_atomic_t stopping;
static struct sigaction previous_action;
static stack_t previous_stack;
// The running stack may be a coroutine's, which is too small for a signal's frame.
static char handler_stack[64 << 10] __attribute__((aligned(64)));

enum { trap_flag = 0x100 };

static void on_step(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)info;
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  if (stopping) {
    registers[REG_EFL] &= ~(greg_t)trap_flag;
    return;
  }
  if (taken < room) noted[taken] = (uintptr_t)registers[REG_RIP];
  taken++;
}

void steps_start(uintptr_t *addresses, size_t capacity) {
  noted = addresses;
  room = capacity;
  taken = 0;
  stopping = 0;
  stack_t stack = {.ss_sp = handler_stack, .ss_size = sizeof handler_stack};
  struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  if (sigaltstack(&stack, &previous_stack) != 0 || sigaction(SIGTRAP, &action, &previous_action) != 0) abort();
  // The stack pointer first goes below the red zone, since this writes to the stack.
  __asm__ volatile(
      "leaq -128(%%rsp), %%rsp\n\t"
      "pushfq\n\t"
      "orq %0, (%%rsp)\n\t"
      "popfq\n\t"
      "leaq 128(%%rsp), %%rsp"
      :
      : "i"(trap_flag)
      : "memory", "cc");
}

size_t steps_stop(void) {
  stopping = 1;
  __asm__ volatile("nop" ::: "memory");  // after this instruction the handler ends the recording
  if (sigaction(SIGTRAP, &previous_action, NULL) != 0 || sigaltstack(&previous_stack, NULL) != 0) abort();
  return taken;
}

#else

const bool steps_are_possible = false;

void steps_start(uintptr_t *addresses, size_t capacity) {
  (void)addresses;
  (void)capacity;
  abort();
}

size_t steps_stop(void) { abort(); }

#endif
